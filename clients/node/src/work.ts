/** A worker at work: it registers its functions, again whenever a sidecar is there again, until it is told to leave. */
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { status, type ServiceError } from '@grpc/grpc-js'

import { WorkerRefused, WrongField, WrongTool, type SidecallError } from './errors.js'
import type { WorkerServiceStub } from './generated/messages.js'
import { within } from './launch.js'
import { checked, integer, milliseconds, object, shown, text, type Checks } from './request.js'
import { DEFAULT_PLACES, Places, Shift, type Self } from './shift.js'
import type { Served } from './worker.js'

/** How functions are served. */
export interface WorkSettings {
  /** What the workers of one program call themselves: 1 to 64 of [A-Za-z0-9._-]; the name of the program unless given. */
  name?: string | undefined
  /** The worker backend in the sidecar's config; not needed where there is only one. */
  backend?: string | undefined
  /** Most calls at a time; 16 unless given. */
  maxInFlight?: number | undefined
  /** Milliseconds that functions may go on when the work is to end; 30,000 unless given. */
  grace?: number | undefined
}

const settingsFields: Checks = { name: workerName, backend: text, maxInFlight: integer(1, 2 ** 31 - 1), grace: milliseconds }

function workerName(value: unknown, at: string): string {
  if (typeof value !== 'string' || !/^[A-Za-z0-9._-]{1,64}$/.test(value)) throw new WrongField(at, `want 1 to 64 of [A-Za-z0-9._-], got ${shown(value)}`)
  return value
}

/** Statuses after which it is in vain to come again. */
const LASTING: ReadonlySet<number> = new Set([
  status.INVALID_ARGUMENT, status.ALREADY_EXISTS, status.NOT_FOUND, status.FAILED_PRECONDITION, status.UNIMPLEMENTED,
  status.PERMISSION_DENIED, status.UNAUTHENTICATED,
])

/** How long a sidecar that a stream was opened to has to answer, in milliseconds. */
const ANSWER = 30_000

/** Bounds of the wait before a sidecar is looked for again. */
const SOON = 50
const LATE = 5_000

export class Work implements AsyncDisposable {
  /** Settles when the functions can be called; is rejected when the sidecar does not take them. */
  readonly registered: Promise<void>
  /** Settles when the work has ended; is rejected when it was not told to. */
  readonly ended: Promise<void>
  /** The names that models call, by those of the functions. */
  names: ReadonlyMap<string, string> = new Map()
  readonly #stub: WorkerServiceStub
  readonly #self: Self
  readonly #grace: number
  readonly #patience: number
  readonly #isGone: () => Promise<SidecallError | undefined>
  readonly #shifts = new Set<Shift>()
  readonly #leaving = new AbortController()
  #isIn = false

  /**
   * @param stub
   * @param client Whose calls alone it takes; empty for everybody's.
   * @param functions
   * @param settings
   * @param patience How long it looks for a sidecar that takes it in for the first time, in milliseconds.
   * @param isGone Says why there is never to be a sidecar again.
   * @param places Those that it has in common with another work; its own unless given.
   */
  constructor(
    stub: WorkerServiceStub, client: string, functions: ReadonlyMap<string, Served>, settings: WorkSettings, patience: number,
    isGone: () => Promise<SidecallError | undefined>, places?: Places,
  ) {
    const given = checked(object(settings, 'settings'), settingsFields) as WorkSettings
    if (functions.size === 0) throw new WrongTool('the worker has no functions: make one a tool first')
    this.#stub = stub
    const maxInFlight = given.maxInFlight ?? DEFAULT_PLACES
    this.#self = { name: given.name ?? program(), backend: given.backend ?? '', maxInFlight, places: places ?? new Places(maxInFlight), client, functions }
    this.#grace = given.grace ?? 30_000
    this.#patience = patience
    this.#isGone = isGone
    let takenIn!: () => void
    const first = new Promise<void>((resolve) => (takenIn = resolve))
    this.ended = this.#run(takenIn)
    this.registered = Promise.race([first, this.ended.then(() => {
      if (!this.#isIn) throw new WorkerRefused('the worker has left before the sidecar took it in')
    })])
    // Who does not look at one of them looks at the other.
    for (const promise of [this.ended, this.registered]) promise.catch(() => {})
  }

  /** Takes no more calls; those that there are go on for the grace. */
  leave(): void {
    this.#leaving.abort()
    for (const shift of this.#shifts) shift.leave()
  }

  /** Leaves, and settles when the work has ended. */
  async stop(): Promise<void> {
    this.leave()
    await this.ended.catch(() => {}) // whoever wants to know why asks ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #run(takenIn: () => void): Promise<void> {
    try {
      await this.#work(takenIn)
      await within(this.#grace, Promise.all([...this.#shifts].map((shift) => shift.over)))
    } finally {
      for (const shift of this.#shifts) shift.end()
    }
  }

  async #work(takenIn: () => void): Promise<void> {
    const begun = performance.now()
    for (let pause = SOON; !this.#leaving.signal.aborted; pause = Math.min(2 * pause, LATE)) {
      const shift = this.#open(takenIn)
      const error = await this.#watch(shift)
      if (this.#leaving.signal.aborted) return
      if (shift.isIn) pause = SOON
      if (!this.#isIn && performance.now() - begun + pause > this.#patience) {
        throw error ?? new WorkerRefused(`the sidecar has not taken the worker ${this.#self.name} in`)
      }
      if (error instanceof WorkerRefused) process.emitWarning(`${error.message}: the worker looks for it again`, 'SidecallWarning')
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal: this.#leaving.signal }).catch(() => {})
    }
  }

  #open(takenIn: () => void): Shift {
    const shift = new Shift(this.#stub, this.#self)
    this.#shifts.add(shift)
    void shift.over.then(() => this.#shifts.delete(shift))
    void shift.registered.then((names) => {
      this.names = names
      this.#isIn = true
      takenIn()
    })
    return shift
  }

  /** Settles when another stream is to be opened, or the worker is to leave; with the error that the stream ended with. */
  async #watch(shift: Shift): Promise<Error | undefined> {
    const events = [shift.over, shift.goodbye] // none outlives the stream
    const answered = await within(ANSWER, Promise.race([...events, shift.registered]))
    if (!answered) {
      shift.end()
      return undefined
    }
    const error = await Promise.race(events)
    return error ? this.#why(error) : undefined
  }

  /** The error of a stream; thrown when it is in vain to come again. */
  async #why(error: ServiceError): Promise<Error> {
    const refused = new WorkerRefused(`the sidecar refuses the worker ${this.#self.name}: ${error.details}`, error.code)
    if (LASTING.has(error.code)) throw refused
    if (error.code !== status.UNAVAILABLE) return refused
    const gone = await this.#isGone()
    if (gone !== undefined) throw gone
    return error
  }
}

/** What this program is called. */
function program(): string {
  const name = path.parse(process.argv[1] ?? '').name
  return name.replace(/[^A-Za-z0-9._-]/g, '-').slice(0, 64) || 'node'
}
