/** The log of a sidecar, line by line. */
import type { Readable } from 'node:stream'

/** The last lines that a failure quotes. */
const KEPT = 20

/** The longest line; what is longer comes in parts. */
const LONGEST = 64 * 1024

/** Reads a log to its end, whether or not somebody wants the lines: a sidecar whose log nobody reads loses lines. */
export class Lines {
  readonly #last: string[] = []
  readonly #log: ((line: string) => void) | undefined
  #begun = ''

  /** Settles when there is nothing more to come. */
  readonly ended: Promise<unknown>

  constructor(from: Readable, log: ((line: string) => void) | undefined) {
    this.#log = log
    this.ended = new Promise((resolve) => from.once('close', resolve))
    from.setEncoding('utf8')
    from.on('data', (text: string) => this.#read(text))
    from.on('end', () => this.#read('\n'))
    from.on('error', () => {}) // its end
  }

  /** The last lines. */
  last(): string {
    return this.#last.join('\n') || 'it said nothing'
  }

  #read(text: string): void {
    const parts = (this.#begun + text).split('\n')
    const begun = parts.pop()!
    this.#begun = begun.length > LONGEST ? '' : begun
    for (const line of this.#begun === begun ? parts : [...parts, begun]) {
      if (line !== '') this.#add(line.trimEnd())
    }
  }

  #add(line: string): void {
    this.#last.push(line)
    if (this.#last.length > KEPT) this.#last.shift()
    this.#log?.(line)
  }
}
