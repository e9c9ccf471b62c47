/** Functions of this program that a sidecar calls as tools. */
import { WorkerService } from './contract.js'
import { Failure, WrongField, WrongTool } from './errors.js'
import type { ContentBlock, WorkerResult, WorkerTool } from './generated/messages.js'
import { aFunction, isLost } from './launch.js'
import { checked, flag, labels, milliseconds, object, readable, shown, text, type Checks } from './request.js'
import { argumentsOf, type Arguments, type Given, type JsonSchema, type StandardSchema } from './schema.js'

/** What repeating a call of a function does. keyed: nothing more, because the function sees to it by
 * context.idempotencyKey. */
export type ToolEffect = 'read_only' | 'idempotent' | 'keyed' | 'non_idempotent'

const effects: readonly string[] = ['read_only', 'idempotent', 'keyed', 'non_idempotent']

/** Classes of errors. */
type ErrorClass = abstract new (...args: never[]) => object

/** What a call that throws has not done: true, nothing; classes of errors, nothing when it throws one of them. */
export type Clean = boolean | ErrorClass | readonly ErrorClass[]

/** What models, and the sidecar, are told of a function. */
export interface ToolSettings<S extends JsonSchema | StandardSchema = JsonSchema | StandardSchema> {
  /** What models call: 1 to 64 of [A-Za-z0-9_-]. */
  name: string
  /** What it does, for the model. */
  description?: string | undefined
  /** The schema of its arguments: of zod (or another Standard Schema), or JSON Schema. Without it there are none. */
  input?: S | undefined
  /** JSON Schema of a result that is JSON. */
  output?: JsonSchema | undefined
  /** Unsaid, a call must not be repeated. */
  effect?: ToolEffect | undefined
  /** Free hints for whoever lists the tools. */
  annotations?: Record<string, string> | undefined
  /** Calls of one batch run one after the other. */
  sequential?: boolean | undefined
  /** Calls with the same arguments and outcome are expected. */
  polling?: boolean | undefined
  /** A call that throws has done nothing, or one that throws an error of these classes. Unsaid, the outcome of one that must
   * not be repeated is unknown then. */
  failsCleanly?: Clean | undefined
  /** The function undoes what it has begun when its signal aborts, and that is when its caller leaves. */
  cancelWithCaller?: boolean | undefined
  /** Milliseconds for one attempt without progress; unsaid, the sidecar's. */
  attemptTimeout?: number | undefined
  /** Milliseconds for the whole call; unsaid, the sidecar's. */
  deadline?: number | undefined
}

/** The call that a function serves. */
export interface Context {
  /** The function's own name. */
  readonly tool: string
  readonly toolUseId: string
  readonly conversationId: string
  readonly turnId: string
  /** The same for every attempt of a call, different for every call. */
  readonly idempotencyKey: string
  /** Counts from 1. */
  readonly attempt: number
  /** When the call's time is over, by Date.now(); undefined when there is no end. */
  readonly deadline: number | undefined
  /** The span of the attempt, as W3C Trace Context has it; may be empty. */
  readonly traceparent: string
  /** W3C Baggage of the call; may be empty. */
  readonly baggage: string
  /** Aborts when nobody waits for the call any more. */
  readonly signal: AbortSignal
  /** Says that the call goes on: the time of its attempt begins anew. */
  progress(note?: string): void
}

/** A result that says more than text. */
export class Reply {
  /**
   * @param content Text for the model.
   * @param more structured: what JSON can hold. blocks: images and the like.
   */
  constructor(readonly content: string, readonly more: { structured?: unknown; blocks?: readonly Partial<ContentBlock>[] } = {}) {}
}

/** A function that is served. */
export interface Served {
  declared: Partial<WorkerTool>
  arguments: Arguments
  /** What it throws when it has done nothing. */
  clean: true | readonly ErrorClass[]
  run: (input: unknown, context: Context) => unknown
}

/** What a function is, for a schema. */
export type ToolFunction<S> = (input: Given<S>, context: Context) => unknown

const schemaOf = (value: unknown) => value
const settingsFields: Checks = {
  name: text, description: text, input: schemaOf, output: object, effect: effectOf, annotations: labels, sequential: flag,
  polling: flag, failsCleanly: cleanOf, cancelWithCaller: flag, attemptTimeout: milliseconds, deadline: milliseconds,
}

function effectOf(value: unknown, at: string): string {
  if (!effects.includes(value as string)) throw new WrongField(at, `there is no effect ${shown(value)}; known are ${effects.join(', ')}`)
  return `EFFECT_${String(value).toUpperCase()}`
}

/** A flag, or a list of classes of errors. */
export function cleanOf(value: unknown, at: string): boolean | readonly ErrorClass[] {
  if (typeof value === 'boolean') return value
  const classes: readonly unknown[] = Array.isArray(value) ? value : [value]
  const wrong = classes.find((one) => typeof one !== 'function')
  if (wrong !== undefined || classes.includes(undefined)) throw new WrongField(at, `want true, or classes of errors, got ${shown(wrong)}`)
  return classes as readonly ErrorClass[]
}

/** A function as the sidecar is told of it; WrongTool says why it cannot be a tool. */
export function served(settings: unknown, run: unknown): Served {
  try {
    const { name, input, output, effect, attemptTimeout, deadline, failsCleanly = false, ...rest } =
      checked(object(settings, 'settings'), settingsFields) as Record<string, unknown> & { attemptTimeout?: number; deadline?: number; failsCleanly?: Clean }
    if (typeof name !== 'string' || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
      throw new WrongTool(`a function cannot be a tool: name: want 1 to 64 of [A-Za-z0-9_-], got ${shown(name)}`)
    }
    const given = argumentsOf(input, name)
    const declared = {
      ...rest, name, inputSchemaJson: given.json, outputSchemaJson: output === undefined ? '' : JSON.stringify(output),
      effect: (effect ?? 'EFFECT_NON_IDEMPOTENT') as WorkerTool['effect'], ...times({ attemptTimeout, deadline }),
    }
    const clean = failsCleanly === true || ((failsCleanly || []) as readonly ErrorClass[])
    if (/GeneratorFunction/.test(Object.prototype.toString.call(run))) throw new WrongField('function', 'it yields, and nobody runs a generator')
    return { declared, arguments: given, clean, run: aFunction(run, 'function') as Served['run'] }
  } catch (error) {
    if (!(error instanceof WrongField)) throw error
    const name = (settings as { name?: unknown } | undefined)?.name
    throw new WrongTool(`the function ${typeof name === 'string' ? name : ''} cannot be a tool: ${error.message}`)
  }
}

function times(given: Record<string, number | undefined>): object {
  return Object.fromEntries(Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, duration(value)]])))
}

/** Milliseconds as the contract has them. */
function duration(milliseconds: number): { seconds: number; nanos: number } {
  const seconds = Math.floor(milliseconds / 1000)
  return { seconds, nanos: Math.round((milliseconds - seconds * 1000) * 1e6) }
}

/** What a function returned, on the wire. */
export function resultOf(value: unknown): Partial<WorkerResult> {
  if (typeof value === 'string') return { content: readable(value) }
  const reply = value instanceof Reply ? value : new Reply('', { structured: value })
  const { structured, blocks = [] } = reply.more
  return {
    content: readable(reply.content),
    structuredContentJson: structured === undefined || structured === null ? '' : json(structured),
    blocks: blocks.map(readableBlock) as ContentBlock[],
  }
}

function readableBlock(block: Partial<ContentBlock>): Partial<ContentBlock> {
  return Object.fromEntries(Object.entries(block).map(([name, value]) => [name, typeof value === 'string' ? readable(value) : value]))
}

function json(value: unknown): string {
  try {
    const text = JSON.stringify(value, (key, one) => {
      if (isLost(one)) throw new TypeError(`${key === '' ? 'it' : key} is ${shown(one)}`)
      return one as unknown
    }) as string | undefined
    if (text !== undefined) return text
  } catch (error) {
    throw new TypeError(`the function ran, but its result is not JSON: ${(error as Error).message.split('\n', 1)[0]}`)
  }
  throw new TypeError(`the function ran, but its result is not JSON: it is ${shown(value)}`)
}

/** A result that cannot be sent. The function ran, so it is no failure of its, which might say that nothing was done: what it
 * says is no JSON, and the sidecar knows what that means. */
export function unreadable(why: unknown): Partial<WorkerResult> {
  return { content: failureOf(why).content!, structuredContentJson: '-' }
}

/** What a function threw, on the wire; clean is what it throws when it has done nothing. What an adapter makes of an error
 * has that as its cause. */
export function failureOf(error: unknown, clean: Served['clean'] = []): Partial<WorkerResult> {
  try {
    return toldOf(error, clean)
  } catch { // an error that cannot be told
    return { content: 'the function failed unexpectedly', isError: true }
  }
}

function toldOf(error: unknown, clean: Served['clean']): Partial<WorkerResult> {
  // Of any other error the cause says nothing: the function may have gone on after it.
  const isClean = clean === true || clean.some((one) => error instanceof one || (error instanceof Failure && error.cause instanceof one))
  // Not to be made again by itself: it would fail again.
  const hard = isClean ? { notRun: true, code: 'UNRECOVERABLE' } : {}
  if (!(error instanceof Failure)) return { content: readable(String(error)), isError: true, ...hard }
  const { message, code, notRun, retryAfter } = error
  return {
    content: readable(message), isError: true, code: readable(code) || (hard.code ?? ''), notRun: notRun || isClean,
    retryAfter: retryAfter === undefined ? null : duration(retryAfter),
  }
}

/** Bytes of a message beside what it carries. */
const WRAPPING = 1024

/** Leaves out what is too much for one message, which would end the stream and all calls on it: blocks, then structured
 * content, then the end of the text. So would what cannot be written: it throws. */
export function fit(result: Partial<WorkerResult>, most: number): Partial<WorkerResult> {
  const { content, structuredContentJson } = result
  const size = WorkerService.service.Serve.requestSerialize({ result: result as WorkerResult }).length
  if (most <= 0 || size + WRAPPING <= most) return result
  const notice = `\n[The result of ${size} bytes is larger than a worker may send, ${most} bytes: parts of it are left out.]`
  const room = Math.max(most - 2 * WRAPPING - notice.length, 0)
  const text = Buffer.from(content || structuredContentJson || '').subarray(0, room)
  // A character that is cut in two is left out.
  const kept = new TextDecoder().decode(text, { stream: true })
  return { ...result, content: kept + notice, structuredContentJson: '', blocks: [] }
}
