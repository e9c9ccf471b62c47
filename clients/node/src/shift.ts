/** The work on one stream: from the registration to its end. */
import { status, type ClientDuplexStream, type ServiceError } from '@grpc/grpc-js'

import { serving } from './current.js'
import { Failure } from './errors.js'
import type { WorkerCommand, WorkerInvoke, WorkerMessage, WorkerRegister, WorkerRegistered, WorkerResult, WorkerServiceStub } from './generated/messages.js'
import { LONGEST } from './launch.js'
import { readable } from './request.js'
import { failureOf, fit, resultOf, unreadable, type Context, type Served } from './worker.js'

/** How many messages may wait to be sent before progress is left out: a function may say more of it than a stream takes.
 * Results are bounded by the places of a worker. */
const CROWDED = 256

/** The version of the protocol that is spoken here. */
const PROTOCOL = 1

/** Characters of what is said of progress. */
const LONGEST_NOTE = 1024

/** What a worker says of itself. */
export interface Self {
  name: string
  backend: string
  maxInFlight: number
  /** So many, over all its streams. */
  places: Places
  /** Whose calls alone it takes; empty for everybody's. */
  client: string
  functions: ReadonlyMap<string, Served>
}

/** How many calls a worker takes at a time unless it says so. */
export const DEFAULT_PLACES = 16

/** Places of calls that run. */
export class Places {
  readonly #waiting = new Set<() => void>()
  #free: number

  constructor(free: number) {
    this.#free = free
  }

  /** Settles with whether it has got a place: until the signal aborts it waits for one. */
  async take(signal: AbortSignal): Promise<boolean> {
    if (this.#free > 0) {
      this.#free--
      return true
    }
    return new Promise((resolve) => {
      const given = () => resolve(this.#waiting.delete(given))
      this.#waiting.add(given)
      signal.addEventListener('abort', () => resolve(!this.#waiting.delete(given)), { once: true })
    })
  }

  give(): void {
    const [next] = this.#waiting
    if (next) next()
    else this.#free++
  }
}

const overloaded = new Failure('this worker has as many calls as it wants', { code: 'OVERLOADED', notRun: true })

export class Shift {
  /** Settles when another stream is to be opened, or the worker is to leave. */
  readonly goodbye: Promise<void>
  /** Settles when the stream has ended, with why, when that was not well. */
  readonly over: Promise<ServiceError | undefined>
  /** Settles when the sidecar has taken the functions in, with the names that models call, by those of the functions. */
  readonly registered: Promise<Map<string, string>>
  isIn = false
  readonly #self: Self
  readonly #stream: ClientDuplexStream<Partial<WorkerMessage>, WorkerCommand>
  readonly #calls = new Map<string, AbortController>()
  /** Those without a place: calls of an earlier stream may have them all. */
  readonly #waiting = new Set<AbortController>()
  #takeIn!: (names: Map<string, string>) => void
  #bye!: () => void
  #beating: NodeJS.Timeout | undefined
  #most = 0
  #left = false
  #isOver = false

  constructor(stub: WorkerServiceStub, self: Self) {
    this.#self = self
    this.goodbye = new Promise((resolve) => (this.#bye = resolve))
    this.registered = new Promise((resolve) => (this.#takeIn = resolve))
    this.#stream = stub.serve()
    this.over = new Promise((resolve) => {
      let why: ServiceError | undefined
      this.#stream.on('data', (command: WorkerCommand) => this.#obey(command))
      this.#stream.on('error', (error: ServiceError) => (why = error))
      this.#stream.on('status', ({ code, details }: { code: number; details: string }) => {
        clearInterval(this.#beating)
        this.#isOver = true
        for (const waiting of this.#waiting) waiting.abort() // nobody hears of them
        this.#stream.end()
        resolve(code === status.OK ? undefined : (why ?? (Object.assign(new Error(details), { code, details }) as ServiceError)))
      })
    })
    const tools = [...self.functions.values()].map(({ declared }) => declared) as WorkerRegister['tools']
    this.#say({ register: { worker: self.name, protocolVersion: PROTOCOL, maxInFlight: self.maxInFlight, tools, backend: self.backend, client: self.client } })
  }

  /** Takes no more calls; the stream ends with those that it has. */
  leave(): void {
    if (!this.#left) this.#say({ leave: {} })
    this.#left = true
    this.#bye()
  }

  /** Ends the stream, and tells the functions. */
  end(): void {
    this.#stream.cancel()
    for (const running of this.#calls.values()) running.abort(new Failure('the worker has ended'))
  }

  /** On a stream that has ended it goes nowhere. */
  #say(message: Partial<WorkerMessage>): void {
    if (!this.#isOver) this.#stream.write(message)
  }

  /** Does what the sidecar says, and nothing of what is not known here. */
  #obey({ registered, invoke, cancel, goodbye }: WorkerCommand): void {
    if (registered && !this.isIn) this.#register(registered)
    if (invoke) this.#begin(invoke)
    if (cancel) this.#calls.get(cancel.invocationId)?.abort(new Failure('the call was cancelled'))
    if (goodbye) this.#bye()
  }

  #register({ heartbeatInterval, maxMessageBytes, tools }: WorkerRegistered): void {
    this.isIn = true
    this.#most = maxMessageBytes
    const every = heartbeatInterval ? heartbeatInterval.seconds * 1000 + heartbeatInterval.nanos / 1e6 : 0
    if (every > 0) this.#beating = setInterval(() => this.#say({ heartbeat: {} }), every / 2)
    this.#takeIn(new Map(tools.filter((tool) => !tool.leftOut).map((tool) => [tool.name, tool.toolName])))
  }

  #begin(invoke: WorkerInvoke): void {
    const one = this.#self.functions.get(invoke.tool)
    if (one === undefined) {
      this.#answer(invoke, failureOf(new Failure(`this worker has no function ${invoke.tool}`, { code: 'NOT_FOUND', notRun: true })))
    } else if (this.#calls.size >= this.#self.maxInFlight) {
      this.#answer(invoke, failureOf(overloaded))
    } else {
      void this.#run(one, invoke)
    }
  }

  /** Runs a call, whose place is taken until the function has ended. */
  async #run(one: Served, invoke: WorkerInvoke): Promise<void> {
    const running = new AbortController()
    this.#calls.set(invoke.invocationId, running)
    const left = invoke.deadline ? invoke.deadline.seconds * 1000 + invoke.deadline.nanos / 1e6 : undefined
    const timer = left === undefined ? undefined : setTimeout(() => running.abort(new Failure('the time of the call is over')), Math.min(left, LONGEST))
    this.#waiting.add(running)
    const hasPlace = await this.#self.places.take(running.signal)
    this.#waiting.delete(running)
    const result = hasPlace ? await this.#serve(one, invoke, running.signal, left) : failureOf(overloaded)
    if (hasPlace) this.#self.places.give()
    clearTimeout(timer)
    this.#calls.delete(invoke.invocationId)
    this.#answer(invoke, result)
  }

  async #serve(one: Served, invoke: WorkerInvoke, signal: AbortSignal, left?: number): Promise<Partial<WorkerResult>> {
    let hasRun = false
    try {
      const given = await argumentsFor(one, invoke)
      const context = this.#context(invoke, signal, left)
      const value = await serving(context, () => one.run(given, context))
      if (isGenerator(value)) throw new TypeError('it returned a generator, which nobody runs')
      hasRun = true
      return fit(resultOf(value), this.#most)
    } catch (error) {
      const clean = one.clean === true && signal.aborted ? [] : one.clean // that it was broken off says nothing
      return fit(hasRun ? unreadable(error) : failureOf(error, clean), this.#most)
    }
  }

  #context({ tool, toolUseId, conversationId, turnId, idempotencyKey, attempt, traceparent, baggage, invocationId }: WorkerInvoke, signal: AbortSignal, left?: number): Context {
    const progress = (note = '') => {
      if (this.#stream.writableLength <= CROWDED) this.#say({ progress: { invocationId, note: readable(String(note).slice(0, LONGEST_NOTE)) } })
    }
    const deadline = left === undefined ? undefined : Date.now() + left
    return { tool, toolUseId, conversationId, turnId, idempotencyKey, attempt, traceparent, baggage, deadline, signal, progress }
  }

  #answer({ invocationId }: WorkerInvoke, result: Partial<WorkerResult>): void {
    this.#say({ result: { ...result, invocationId } as WorkerResult })
  }
}

const isGenerator = (value: unknown) => /Generator\]$/.test(Object.prototype.toString.call(value))

/** The arguments as the function takes them; what it cannot have is a failure before it has begun. */
async function argumentsFor(one: Served, { argumentsJson }: WorkerInvoke): Promise<unknown> {
  try {
    return await one.arguments.read(JSON.parse(argumentsJson || '{}'))
  } catch (error) {
    throw new Failure(`the arguments cannot be read: ${(error as Error).message}`, { code: 'INVALID_ARGS', notRun: true })
  }
}
