/**
 * What may stand in a request. A field that the contract does not have, or a
 * value that is none of its field, would vanish in silence on the way; here it is
 * refused before anything is sent, with its name and what was meant.
 */

import { fieldsOfACall } from './contract.js'
import { WrongField } from './errors.js'
import type { Duration, ExecuteToolRequest } from './generated/messages.js'

/** One tool call of an assistant turn, by the fields of ExecuteToolRequest. */
export interface Call extends Fields {
  /** The provider's id of the call; an integer is sent as its digits, as in all ids. */
  toolUseId: Id
  /** The name that the model gave. */
  toolName: string
  /** The JSON text that the model gave, untouched, but for lone surrogates: those become their escapes (\ud83d), since
   * nothing else can carry them. Empty means {}. */
  argumentsJson?: string | null
}

/** What all calls of a turn share. What is null or undefined is not sent. */
export interface Fields {
  /** Part of each call's identity: every call belongs to a conversation. */
  conversationId?: Id | null
  /** Likewise. Some providers start their ids again in every turn, so this should be something stable such as the turn's
   * index. */
  turnId?: Id | null
  /** The message of the model that the calls stand in, where those of one are not sent at once: the loop guard takes them
   * together then. */
  messageId?: Id | null
  /** The message of the user that the calls belong to: budgets and loops are counted by it. */
  promptId?: Id | null
  /** The profile whose tools and limits apply. */
  profile?: string | null
  /** May only shorten the tool's own deadline. */
  timeout?: Partial<Duration> | null
  /** Check the arguments, run nothing, record nothing. */
  validateOnly?: boolean | null
  /** Only ask whether a person has to allow the calls first: nothing is run, and those of which one has to be asked are held. */
  holdOnly?: boolean | null
  /** Characters of content; may only shorten what the tool allows. */
  maxOutputChars?: number | null
  /** Tokens that the loop has spent in this prompt so far. */
  tokensUsed?: number | null
  /** Free labels, for logs and traces. */
  labels?: Record<string, string> | null
  /** Run the call although its effect has been had under another id: a person was asked. */
  allowDuplicateEffect?: boolean | null
}

/** What says which conversation it belongs to. */
export interface OfAConversation {
  conversationId: Id
}

/** How to wait for an answer. */
export interface Wait {
  /** Milliseconds after which waiting ends. What is running then is finished and recorded by the sidecar. */
  rpcTimeout?: number | undefined
  /** Ends waiting too; the promise is then rejected with the signal's reason. */
  signal?: AbortSignal | undefined
}

export type Id = string | number | bigint

/** What is made of a value that stands in a field, or a WrongField. */
type Check = (value: unknown, at: string) => unknown

export type Checks = Record<string, Check>

/** What other APIs call what a call has here. */
const elsewhere: Record<string, string> = {
  arguments: 'argumentsJson', args: 'argumentsJson', input: 'argumentsJson', parameters: 'argumentsJson',
  id: 'toolUseId', callId: 'toolUseId', toolCallId: 'toolUseId', name: 'toolName', tool: 'toolName',
  session: 'conversationId', sessionId: 'conversationId', threadId: 'conversationId', turn: 'turnId',
}

const ids = new Set(['toolUseId', 'conversationId', 'turnId', 'messageId', 'promptId'])

const INT32 = 2 ** 31 - 1

/** The settings of how to wait for an answer. */
export const waitFields: Checks = { rpcTimeout: milliseconds, signal: abortSignal }

/**
 * A copy of the given object with what is to be sent of it.
 * @param given
 * @param fields By name, as callFields.
 * @param within Where the object stands, for errors.
 */
export function checked(given: object, fields: Checks, within = ''): Record<string, unknown> {
  const at = within && `${within}.`
  const sent: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(given)) {
    const check = Object.hasOwn(fields, key) ? fields[key] : undefined
    if (check === undefined) throw new WrongField(at + key, noSuch(key, fields))
    if (value !== undefined && value !== null) sent[key] = check(value, at + key)
  }
  return sent
}

/** Refuses what is not an object of fields. */
export function object(value: unknown, at: string, wanted = 'an object'): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new WrongField(at, `want ${wanted}, got ${shown(value)}`)
  return value
}

/** Refuses what belongs to no conversation: that is the program's to mend, and no model's. */
export function named(fields: { conversationId?: unknown }, at = 'conversationId'): void {
  if (fields.conversationId === undefined || fields.conversationId === null) {
    throw new WrongField(at, 'every call belongs to a conversation: give its id, the same one in all its turns and after a restart')
  }
}

/** Refuses what is no array of calls. */
export function listed(calls: unknown): unknown[] {
  if (!Array.isArray(calls)) throw new WrongField('calls', `want an array of calls, got ${shown(calls)}`)
  return calls
}

/**
 * What gRPC is to connect to. It resolves more than is said here; what cannot be meant is refused now, and not as a
 * sidecar that is away later.
 */
export function address(target: unknown): string {
  if (typeof target !== 'string' || /^($|tcp:\/\/(?!.+:\d+$)|unix:\/\/(?!\/)|https?:\/\/)/.test(target)) {
    throw new WrongField('target', `want tcp://host:port or unix:///path, got ${shown(target)}`)
  }
  return target.replace(/^tcp:\/\//, '')
}

export function text(value: unknown, at: string): string {
  if (typeof value !== 'string') throw new WrongField(at, `want a string, got ${shown(value)}`)
  const lone = value.search(LONE)
  if (lone >= 0) throw new WrongField(at, `want text that UTF-8 can hold, got a lone surrogate at index ${lone}`)
  return value
}

/** One half of a character outside the basic plane, without the other. */
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/
const LONE_ALL = new RegExp(LONE, 'g')

/** Turns are counted, so an integer is an id too; one that is not exact is none. */
export function id(value: unknown, at: string): string {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value)
  if (typeof value !== 'string') throw new WrongField(at, `want a string or an integer, got ${shown(value)}`)
  return text(value, at)
}

/** A name is the model's: whatever it made up, the sidecar is to say so. */
function name(value: unknown, at: string): string {
  if (typeof value !== 'string') throw new WrongField(at, `want a string, got ${shown(value)}`)
  return readable(value)
}

/** Text as UTF-8 can hold it. */
export function readable(value: string): string {
  return value.replace(LONE_ALL, '\ufffd')
}

/** So are arguments. A lone surrogate is written as its escape: no wire holds it, and JSON can. */
export function jsonText(value: unknown, at: string): string {
  if (typeof value !== 'string') throw new WrongField(at, `want a JSON text, such as JSON.stringify gives, got ${shown(value)}`)
  return value.replace(LONE_ALL, (half) => `\\u${half.charCodeAt(0).toString(16)}`)
}

export function flag(value: unknown, at: string): boolean {
  if (typeof value !== 'boolean') throw new WrongField(at, `want true or false, got ${shown(value)}`)
  return value
}

export function integer(least = Number.MIN_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER): (value: unknown, at: string) => number {
  return (value, at) => {
    if (typeof value !== 'number' || !Number.isInteger(value)) throw new WrongField(at, `want an integer, got ${shown(value)}`)
    if (value > most) throw new WrongField(at, `want an integer up to ${most}, got ${value}`)
    if (value < least) throw new WrongField(at, `want an integer of at least ${least}, got ${value}`)
    return value
  }
}

/** A bare number would be seconds to some and milliseconds to others. */
function duration(value: unknown, at: string): unknown {
  const parts = { seconds: integer(), nanos: integer(-999_999_999, 999_999_999) }
  return checked(object(value, at, '{seconds, nanos}'), parts, at)
}

/** An object of strings, and nothing else. */
export function labels(value: unknown, at: string): Record<string, string> {
  const given = Object.entries(object(value, at, 'an object of strings'))
  return Object.fromEntries(given.map(([key, label]) => [text(key, at), text(label, `${at}.${key}`)]))
}

export function milliseconds(value: unknown, at: string): number {
  if (typeof value !== 'number' || Number.isNaN(value)) throw new WrongField(at, `want milliseconds, got ${shown(value)}`)
  return value
}

function abortSignal(value: unknown, at: string): AbortSignal {
  if (!(value instanceof AbortSignal)) throw new WrongField(at, `want an AbortSignal, got ${shown(value)}`)
  return value
}

function noSuch(key: string, fields: Checks): string {
  const known = Object.keys(fields)
  if (fields === callFields && Object.hasOwn(waitFields, key)) return 'it belongs into the third argument, beside rpcTimeout'
  const meant = nearest(key, known)
  if (meant === undefined) return `there is no such field; known are ${known.sort().join(', ')}`
  return `there is no such field. Did you mean ${meant}${meant === 'argumentsJson' ? ' (a JSON text: JSON.stringify)' : ''}?`
}

/** The known name that a wrong one stands for, if any. */
function nearest(key: string, known: string[]): string | undefined {
  const plain = (s: string) => s.replaceAll('_', '').toLowerCase()
  const meant = Object.hasOwn(elsewhere, key) ? elsewhere[key] : undefined
  if (meant !== undefined && known.includes(meant)) return meant
  const [best] = known.map((k) => [distance(plain(key), plain(k)), k] as const).sort(([a], [b]) => a - b)
  return best !== undefined && best[0] <= Math.max(1, Math.floor(key.length / 4)) ? best[1] : undefined
}

/** How many characters have to be put in, taken out or changed to make b of a. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
    row = next
  }
  return row[b.length]!
}

export function shown(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' || typeof value === 'function') return `a${typeof value === 'object' ? 'n' : ''} ${typeof value}`
  const shown = typeof value === 'string' ? JSON.stringify(value) : String(value)
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown
}

/**
 * The fields of a call, by name, each with a function that makes of a value what is sent, or throws: those that the
 * contract has, so that none is forgotten here.
 */
export const callFields: Checks = Object.fromEntries(fieldsOfACall().map((field) => [field.name, checkOf(field)]))

function checkOf(field: { name: string; type: string }): Check {
  const special: Checks = { argumentsJson: jsonText, toolName: name, timeout: duration, labels }
  const byType: Checks = { TYPE_STRING: text, TYPE_BOOL: flag, TYPE_INT32: integer(-INT32 - 1, INT32), TYPE_INT64: integer() }
  const check = special[field.name] ?? (ids.has(field.name) ? id : byType[field.type])
  if (check === undefined) throw new Error(`a field of the contract that cannot be sent: ${field.name} of ${field.type}`)
  return check
}

// Nor are its types: a field that is in one of the two only does not compile.
type Same<A, B> = [Exclude<A, B>, Exclude<B, A>] extends [never, never] ? true : false
const same: Same<keyof Call, keyof ExecuteToolRequest> = true
void same
