/** The call that a function serves, for functions that are not given it: those of a framework's own. */
import { AsyncLocalStorage } from 'node:async_hooks'

import type { Context } from './worker.js'

const calls = new AsyncLocalStorage<Context>()

/** The call that the function serves in which this is asked; undefined outside of one. */
export function currentCall(): Context | undefined {
  return calls.getStore()
}

/** Runs a function, in which currentCall is that call. */
export function serving<T>(call: Context, run: () => T): T {
  return calls.run(call, run)
}
