/**
 * What may stand in a request. A field that the contract does not have, or a
 * value that is none of its field, would vanish in silence on the way; here it is
 * refused before anything is sent, with its name and what was meant.
 */

/** A field of a request that is not what the contract has. Nothing was sent. */
export class WrongField extends TypeError {
  /**
   * @param {string} field Which one, such as conversationID or calls[2].argumentsJson.
   * @param {string} why What is wrong with it, and what is wanted.
   */
  constructor(field, why) {
    super(`${field}: ${why}`)
    this.name = 'WrongField'
    this.field = field
  }
}

/** What other APIs call what a call has here. */
const elsewhere = {
  arguments: 'argumentsJson', args: 'argumentsJson', input: 'argumentsJson', parameters: 'argumentsJson',
  id: 'toolUseId', callId: 'toolUseId', toolCallId: 'toolUseId', name: 'toolName', tool: 'toolName',
  session: 'conversationId', sessionId: 'conversationId', threadId: 'conversationId', turn: 'turnId',
}

const ids = new Set(['toolUseId', 'conversationId', 'turnId', 'promptId'])

const INT32 = 2 ** 31 - 1

/**
 * The fields of a call, by name, each with a function that makes of a value what is sent, or throws.
 * @param {{name: string, type: string}[]} fields Those of ExecuteToolRequest, so that none is forgotten here.
 */
export function callFields(fields) {
  const special = { argumentsJson: jsonText, toolName: name, timeout: duration, labels }
  const byType = { TYPE_STRING: text, TYPE_BOOL: flag, TYPE_INT32: integer(-INT32 - 1, INT32), TYPE_INT64: integer() }
  return Object.fromEntries(fields.map(({ name, type }) => [name, special[name] ?? (ids.has(name) ? id : byType[type])]))
}

/** The settings of how to wait for an answer. */
export const waitFields = { rpcTimeout: milliseconds, signal: abortSignal }

/**
 * A copy of the given object with what is to be sent of it.
 * @param {object} given
 * @param {object} fields By name, as of callFields.
 * @param {string} within Where the object stands, for errors.
 */
export function checked(given, fields, within = '') {
  const at = within && `${within}.`
  const sent = {}
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(fields, key)) throw new WrongField(at + key, unknown(key, fields))
    if (value !== undefined && value !== null) sent[key] = fields[key](value, at + key)
  }
  return sent
}

/** Refuses what is not an object of fields. */
export function object(value, at, wanted = 'an object') {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new WrongField(at, `want ${wanted}, got ${shown(value)}`)
  return value
}

/** Refuses what is no array of calls. */
export function listed(calls) {
  if (!Array.isArray(calls)) throw new WrongField('calls', `want an array of calls, got ${shown(calls)}`)
  return calls
}

/**
 * What gRPC is to connect to. It resolves more than is said here; what cannot be meant is refused now, and not as a
 * sidecar that is away later.
 */
export function address(target) {
  if (typeof target !== 'string' || /^($|tcp:\/\/(?!.+:\d+$)|unix:\/\/(?!\/)|https?:\/\/)/.test(target)) {
    throw new WrongField('target', `want tcp://host:port or unix:///path, got ${shown(target)}`)
  }
  return target.replace(/^tcp:\/\//, '')
}

export function text(value, at) {
  if (typeof value !== 'string') throw new WrongField(at, `want a string, got ${shown(value)}`)
  const lone = value.search(LONE)
  if (lone >= 0) throw new WrongField(at, `want text that UTF-8 can hold, got a lone surrogate at index ${lone}`)
  return value
}

/** One half of a character outside the basic plane, without the other. */
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/
const LONE_ALL = new RegExp(LONE, 'g')

/** Turns are counted, so an integer is an id too; one that is not exact is none. */
function id(value, at) {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value)
  if (typeof value !== 'string') throw new WrongField(at, `want a string or an integer, got ${shown(value)}`)
  return text(value, at)
}

/** A name is the model's: whatever it made up, the sidecar is to say so. */
function name(value, at) {
  if (typeof value !== 'string') throw new WrongField(at, `want a string, got ${shown(value)}`)
  return value.replace(LONE_ALL, '\ufffd')
}

/** So are arguments. A lone surrogate is written as its escape: no wire holds it, and JSON can. */
function jsonText(value, at) {
  if (typeof value !== 'string') throw new WrongField(at, `want a JSON text, such as JSON.stringify gives, got ${shown(value)}`)
  return value.replace(LONE_ALL, (half) => `\\u${half.charCodeAt(0).toString(16)}`)
}

function flag(value, at) {
  if (typeof value !== 'boolean') throw new WrongField(at, `want true or false, got ${shown(value)}`)
  return value
}

function integer(least = Number.MIN_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER) {
  return (value, at) => {
    if (!Number.isInteger(value)) throw new WrongField(at, `want an integer, got ${shown(value)}`)
    if (value < least || value > most) throw new WrongField(at, `want an integer up to ${most}, got ${value}`)
    return value
  }
}

/** A bare number would be seconds to some and milliseconds to others. */
function duration(value, at) {
  const parts = { seconds: integer(), nanos: integer(-999_999_999, 999_999_999) }
  return checked(object(value, at, '{seconds, nanos}'), parts, at)
}

function labels(value, at) {
  const given = Object.entries(object(value, at, 'an object of strings'))
  return Object.fromEntries(given.map(([key, label]) => [text(key, at), text(label, `${at}.${key}`)]))
}

function milliseconds(value, at) {
  if (typeof value !== 'number' || Number.isNaN(value)) throw new WrongField(at, `want milliseconds, got ${shown(value)}`)
  return value
}

function abortSignal(value, at) {
  if (!(value instanceof AbortSignal)) throw new WrongField(at, `want an AbortSignal, got ${shown(value)}`)
  return value
}

function unknown(key, fields) {
  const known = Object.keys(fields)
  if (Object.hasOwn(waitFields, key)) return 'it belongs into the third argument, beside rpcTimeout'
  const meant = nearest(key, known)
  if (meant === undefined) return `there is no such field; known are ${known.sort().join(', ')}`
  return `there is no such field. Did you mean ${meant}${meant === 'argumentsJson' ? ' (a JSON text: JSON.stringify)' : ''}?`
}

/** The known name that a wrong one stands for, if any. */
function nearest(key, known) {
  const plain = (s) => s.replaceAll('_', '').toLowerCase()
  if (Object.hasOwn(elsewhere, key) && known.includes(elsewhere[key])) return elsewhere[key]
  const [best] = known.map((k) => [distance(plain(key), plain(k)), k]).sort(([a], [b]) => a - b)
  return best[0] <= Math.max(1, Math.floor(key.length / 4)) ? best[1] : undefined
}

/** How many characters have to be put in, taken out or changed to make b of a. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    row = next
  }
  return row[b.length]
}

function shown(value) {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' || typeof value === 'function') return `a${typeof value === 'object' ? 'n' : ''} ${typeof value}`
  const shown = typeof value === 'string' ? JSON.stringify(value) : String(value)
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown
}
