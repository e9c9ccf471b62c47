/**
 * Functions of the framework's own behind the sidecar's guarantees.
 *
 * They are tools of a worker in this process, so that a call of one goes to the sidecar as every other, and comes back here:
 * to the framework's own way of running it, in the asynchronous context that made the call. What is recorded is what the
 * model is told.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { isDeepStrictEqual } from 'node:util'

import { serve, type Sidecall } from '../client.js'
import { serving } from '../current.js'
import { Failure, WrongField, WrongTool } from '../errors.js'
import { object } from '../request.js'
import type { JsonSchema } from '../schema.js'
import { DEFAULT_PLACES, Places } from '../shift.js'
import type { Work, WorkSettings } from '../work.js'
import { Reply, served, type Clean, type Context, type Served, type ToolEffect } from '../worker.js'

/** Runs a function as the framework does, and gives what the model is told, as a function of Sidecall.tool does. What it
 * throws is the function's failure. */
export type Body = (input: unknown, context: Context) => unknown

/** A function of the framework's own, as a model is told of it. */
export interface Declared {
  name: string
  description: string
  schema: JsonSchema
  /** Milliseconds for one attempt; unsaid, the sidecar's. */
  attemptTimeout?: number | undefined
}

/** How functions of the framework's own are served. */
export interface OwnOptions {
  /** What repeating a call of each does, by their names; unsaid, it must not be repeated. */
  effects?: Readonly<Record<string, ToolEffect>> | undefined
  /** Of which of them a call that throws has done nothing, by their names: true, or classes of errors of which that holds.
   * Unsaid, the outcome of one that must not be repeated is unknown then. */
  failsCleanly?: Readonly<Record<string, Clean>> | undefined
  /** The worker that they are, such as its backend where the sidecar has several. */
  worker?: WorkSettings | undefined
}

/** What the framework's own reading of arguments gives; what it refuses has not begun. */
export function read<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw unread(error)
  }
}

/** The failure of a function whose arguments fit the schema, and not what stands beside it. */
export const unread = (error: unknown) =>
  new Failure(`the arguments cannot be read: ${error instanceof Error ? error.message : String(error)}`, { code: 'INVALID_ARGS', notRun: true })

/** A part of what a function shows the model: a picture, as base64, or else a text. */
export interface Part {
  text: string
  picture?: { type: string; data: string } | undefined
}

/** What a function shows the model, as the sidecar takes it. */
export function replyOf(parts: readonly Part[]): Reply {
  const blocks = parts.flatMap(({ picture }) => (picture ? [{ type: 'image', mimeType: picture.type, data: Buffer.from(picture.data, 'base64') }] : []))
  return new Reply(parts.filter(({ picture }) => !picture).map(({ text }) => text).join('\n\n'), { blocks })
}

/** What a call belongs to, and its own id. */
export interface Key {
  conversationId: string | undefined
  turnId: string | undefined
  toolUseId: string | undefined
}

/** What a call calls, and with what. */
export interface Made {
  name: string
  /** The JSON text. */
  arguments: string
}

/** A call that this process has made and waits for. */
interface Asked {
  made: Made
  body: Body
  around: <T>(run: () => T) => T
}

/** The functions of one adapter. */
export class Own {
  readonly #crew: Crew
  readonly #effects: Readonly<Record<string, ToolEffect>>
  readonly #clean: Readonly<Record<string, Clean>>
  readonly #names: ReadonlySet<string>

  /**
   * @param client
   * @param names Of all functions that the adapter was given.
   * @param options
   */
  constructor(client: Sidecall, names: readonly string[], { effects = {}, failsCleanly = {}, worker = {} }: OwnOptions) {
    this.#crew = crewOf(client, object(worker, 'worker'))
    this.#effects = object(effects, 'effects') as Record<string, ToolEffect>
    this.#names = new Set(names)
    const twice = names.find((name, i) => names.indexOf(name) !== i)
    if (twice !== undefined) throw taken(twice)
    this.#clean = object(failsCleanly, 'failsCleanly') as Record<string, Clean>
    for (const [said, of] of Object.entries({ effects, failsCleanly })) {
      for (const name of Object.keys(of)) {
        if (!this.#names.has(name)) throw new WrongField(`${said}.${name}`, `there is no such function; known are ${names.join(', ') || 'none'}`)
      }
    }
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }

  /** What the sidecar calls a function, which may have a prefix there; the names of others are their own. */
  nameOf(name: string): string {
    return this.has(name) ? (this.#crew.names.get(name) ?? name) : name
  }

  /** Whether this is what the sidecar, or the program, calls a function that this process serves. */
  serves(name: string): boolean {
    return this.has(name) || [...this.#crew.names.values()].includes(name)
  }

  /** Registers the functions; those that are already are left alone. Either all of them can be called then, or none. */
  async start(functions: readonly Declared[]): Promise<void> {
    if (functions.length === 0) return
    const added = functions.map(({ name, description, schema, attemptTimeout }) =>
      served({ name, description, input: schema, effect: of(this.#effects, name), failsCleanly: of(this.#clean, name), attemptTimeout },
        (input: unknown, context: Context) => this.#crew.run(input, context)))
    await this.#crew.takeIn(added)
  }

  /** Sends a call of a function, which comes back to the body while it is waited for. */
  async waiting<T>(key: Key, made: Made, body: Body, send: () => Promise<T>): Promise<T> {
    return this.#crew.waiting(key, { made, body, around: AsyncLocalStorage.snapshot() }, send)
  }
}

const of = <T>(said: Readonly<Record<string, T>>, name: string) => (Object.hasOwn(said, name) ? said[name] : undefined)

const taken = (name: string) => new WrongTool(`the function ${name} cannot be a tool: there is one of that name`)

/** One worker of a client, with the functions of all its adapters: some are made anew for every run. */
class Crew {
  readonly #client: Sidecall
  readonly #settings: WorkSettings
  readonly #asked: Map<string, Set<Asked>>
  /** Of all that it registers, one after the other: what was begun before goes on. */
  readonly #places: Places
  #functions = new Map<string, Served>()
  #work: Work | undefined
  #last: Promise<void> = Promise.resolve()

  constructor(client: Sidecall, settings: WorkSettings, asked: Map<string, Set<Asked>>) {
    this.#client = client
    this.#settings = settings
    this.#asked = asked
    this.#places = new Places(settings.maxInFlight ?? DEFAULT_PLACES)
  }

  get names(): ReadonlyMap<string, string> {
    return this.#work?.names ?? new Map<string, string>()
  }

  /** One after the other, so that each has what those before it have registered. */
  async takeIn(added: readonly Served[]): Promise<void> {
    const mine = this.#last.then(() => this.#takeIn(added))
    this.#last = mine.catch(() => {}) // who asked for it is told
    return mine
  }

  async #takeIn(added: readonly Served[]): Promise<void> {
    const all = new Map(this.#functions)
    for (const one of added) {
      const before = all.get(one.declared.name!)
      if (before !== undefined && JSON.stringify(before.declared) !== JSON.stringify(one.declared)) throw taken(one.declared.name!)
      all.set(one.declared.name!, before ?? one)
    }
    if (this.#work !== undefined && all.size === this.#functions.size) return
    const before = this.#work
    const work = await serve(this.#client, all, this.#settings, this.#places)
    this.#work = work
    this.#functions = all
    before?.leave() // it has the same functions, and finishes its calls
    const over = () => {
      if (this.#work === work) this.#work = undefined // the next one that is wanted begins anew
    }
    work.ended.then(over, over)
  }

  async waiting<T>(key: Key, asked: Asked, send: () => Promise<T>): Promise<T> {
    const at = named(key)
    const those = this.#asked.get(at) ?? new Set<Asked>()
    this.#asked.set(at, those.add(asked))
    try {
      return await send()
    } finally {
      those.delete(asked)
      if (those.size === 0 && this.#asked.get(at) === those) this.#asked.delete(at)
    }
  }

  /** Runs a call that has come back. */
  run(input: unknown, context: Context): unknown {
    const known = [...(this.#asked.get(named(context)) ?? [])]
    // A model may give calls of one turn the same id: what was checked is what runs.
    const asked = known.length > 1 ? known.find(({ made }) => isOf(made, context.tool, input)) : known[0]
    if (asked === undefined) {
      throw new Failure('the process that made this call is another one, or has given it up', { code: 'DEPENDENCY_UNAVAILABLE', notRun: true })
    }
    return asked.around(() => serving(context, () => asked.body(input, context)))
  }
}

function isOf(made: Made, tool: string, input: unknown): boolean {
  try {
    return made.name === tool && isDeepStrictEqual(JSON.parse(made.arguments || '{}'), input)
  } catch { // it is no JSON
    return false
  }
}

const named = ({ conversationId, turnId, toolUseId }: Key) => JSON.stringify([conversationId ?? '', turnId ?? '', toolUseId ?? ''])

interface Crews {
  asked: Map<string, Set<Asked>>
  bySettings: Map<string, Crew>
}

const crews = new WeakMap<Sidecall, Crews>()

function crewOf(client: Sidecall, settings: WorkSettings): Crew {
  const known = crews.get(client) ?? { asked: new Map(), bySettings: new Map() }
  crews.set(client, known)
  const key = JSON.stringify(Object.entries(settings).sort())
  const crew = known.bySettings.get(key) ?? new Crew(client, settings, known.asked)
  known.bySettings.set(key, crew)
  return crew
}
