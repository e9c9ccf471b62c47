/** Calls that are sent together: each is begun, given up and answered by itself. */
import { setImmediate as atRest } from 'node:timers/promises'

import type { ExecuteToolResponse } from '../generated/messages.js'
import type { Call } from '../request.js'

/** Sends calls, and gives one result for each, in their order. */
type Send = (calls: readonly Call[], signal: AbortSignal) => Promise<readonly ExecuteToolResponse[]>

/** The calls that are begun before the event loop comes to rest. */
export class Batch {
  readonly #calls = new Map<symbol, Call>()
  readonly #nobodyWaits = new AbortController()
  readonly #answered: Promise<Map<symbol, ExecuteToolResponse>>
  #waiting = 0
  #isSent = false

  constructor(send: Send) {
    this.#answered = this.#send(send)
    this.#answered.catch(() => {}) // who waits is told; and nobody may
  }

  async #send(send: Send): Promise<Map<symbol, ExecuteToolResponse>> {
    await atRest()
    this.#isSent = true
    const places = [...this.#calls.keys()]
    const results = await send([...this.#calls.values()], this.#nobodyWaits.signal)
    return new Map(places.map((place, i) => [place, results[i]!]))
  }

  /** Whether a call with this id is among them: two in one message have no answer each. */
  has(id: Call['toolUseId']): boolean {
    return [...this.#calls.values()].some((call) => call.toolUseId === id)
  }

  /** The result of a call. One that is aborted leaves the others alone; the last one cancels the request. */
  async result(call: Call, signal: AbortSignal | null | undefined): Promise<ExecuteToolResponse> {
    const place = Symbol()
    this.#calls.set(place, call)
    this.#waiting++
    try {
      return (await orAborted(this.#answered, signal)).get(place)!
    } finally {
      this.#calls.delete(place) // given up before it was sent, it is not
      if (--this.#waiting === 0 && this.#isSent) this.#nobodyWaits.abort() // before that, others may come
    }
  }
}

/** The promise, or the reason of the signal when that is first. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', abort, { once: true })
    void promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
