/** A sidecar that belongs to this process. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'

import { platform, program } from './binary.js'
import { LaunchFailed, WrongField } from './errors.js'
import { Lines } from './lines.js'
import { labels, milliseconds, shown, type Checks } from './request.js'

/** How a sidecar of this process's own is started. */
export interface LaunchOptions {
  /** The program; without it, it is the one that SIDECALL_BINARY names, that came as a package, or that is on the PATH. */
  binary?: string | undefined
  /** Added to the environment of the sidecar. */
  env?: Record<string, string> | undefined
  /** Is given each line of the sidecar's log. Without it they are dropped, but for the last, which a failure quotes. */
  log?: ((line: string) => void) | undefined
  /** Bounds, in milliseconds, how long the sidecar of an earlier process, whose last calls end, and backends that find their
   * tools by themselves are waited for; 60,000 unless it is given. */
  startTimeout?: number | undefined
}

export const launchFields: Checks = { binary: aPath, env: labels, log: aFunction, startTimeout: milliseconds }

function aPath(value: unknown, at: string): string {
  if (typeof value !== 'string' || value === '') throw new WrongField(at, `want the path of a program, got ${shown(value)}`)
  return value
}

export function aFunction(value: unknown, at: string): unknown {
  if (typeof value !== 'function') throw new WrongField(at, `want a function, got ${shown(value)}`)
  return value
}

/** How long a sidecar has to be ready, in milliseconds, unless launch is told otherwise. */
const START = 60_000

/** How much longer it has to say that it is not. */
const GRACE = 5_000

/** How long one has to end: it lets calls in flight end. */
const END = 40_000

/** How long is waited for the rest of what an ended one has said: a process of its own may hold its log open. */
const REST = 5_000

type Process = ChildProcessByStdio<Writable, Readable, Readable>

/** What a sidecar tells the program that has started it: where it serves, and which backends are missing; later perhaps
 * that it goes on for others. */
interface Told {
  listen?: string
  missing?: Record<string, string>
  stays?: boolean
}

/** Starts a sidecar, and settles when it is ready. */
export async function launch(config: unknown, options: LaunchOptions): Promise<Launched> {
  const named = configFile(config)
  const written = named === undefined ? asText(config) : ''
  const file = await program(options.binary)
  const timeout = options.startTimeout ?? START
  const args = ['serve', '--launched', `--start-timeout=${Math.round(timeout)}ms`]
  const directory = named === undefined ? mkdtempSync(path.join(tmpdir(), 'sidecall-')) : undefined // of this user alone
  let one: Launched | undefined
  try {
    if (directory === undefined) {
      args.push('--config', named!)
    } else {
      const configPath = path.join(directory, 'sidecall.yaml') // which JSON is
      writeFileSync(configPath, written, { mode: 0o600 })
      args.push('--config', configPath, '--watch=false') // others may go on with it when the file is gone
    }
    // Relative paths of a config that is no file are seen from where this process is.
    const env = directory === undefined ? { ...options.env } : { SIDECALL_DIR: process.env.SIDECALL_DIR || process.cwd(), ...options.env }
    one = new Launched(await started(file, args, env), directory, options.log)
    await one.awaitReady(timeout)
    return one
  } catch (error) {
    await one?.stop()
    remove(directory)
    throw error
  }
}

function remove(directory: string | undefined): void {
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
}

/** A running sidecar. It ends when stop is called, or when this process ends, however it does: it waits for the end of
 * its standard input. One that other programs have launched too goes on for them. */
export class Launched {
  /** Where it serves, once it is awaited. */
  target = ''
  readonly directory: string | undefined
  readonly #process: Process
  readonly #lines: Lines
  readonly #told: Told[] = []
  readonly #heard: Lines
  readonly #ended: Promise<unknown>
  #tells = () => {}
  readonly #remove = () => remove(this.directory)
  #stopping: Promise<void> | undefined

  constructor(sidecar: Process, directory: string | undefined, log: LaunchOptions['log']) {
    this.#process = sidecar
    this.directory = directory
    this.#lines = new Lines(sidecar.stderr, log)
    this.#heard = new Lines(sidecar.stdout, (line) => {
      const told = parsed(line)
      if (told === undefined) return // a script around it has said it
      this.#told.push(told)
      this.#tells()
    })
    this.#ended = new Promise((resolve) => sidecar.once('exit', resolve))
    for (const one of [sidecar, sidecar.stdin]) one.on('error', () => {}) // it is gone already
    process.once('exit', this.#remove)
  }

  /** Settles when the sidecar is ready or has had its time, which is said, or when it is clear that it never will. */
  async awaitReady(timeout: number): Promise<void> {
    const told = new Promise<void>((resolve) => (this.#tells = resolve))
    if (!(await within(timeout + GRACE, Promise.race([told, this.#ended])))) {
      throw new LaunchFailed(`the sidecar does not answer after ${timeout / 1000} s:\n${this.#lines.last()}`)
    }
    const [answer] = this.#told
    if (answer?.listen === undefined) throw await this.end()
    this.target = answer.listen
    for (const [backend, why] of Object.entries(answer.missing ?? {})) {
      process.emitWarning(
        `the tools of the backend ${backend} are not there after ${timeout / 1000} s (${why}): they are not listed until they are. ` +
          'Ask for tools() again later; with optional: true the backend is not waited for', 'SidecallWarning')
    }
    this.#holdsNothing()
  }

  /** How it ended, and what it said at last. */
  async end(): Promise<LaunchFailed> {
    await within(REST, this.#lines.ended)
    const { exitCode, signalCode } = this.#process
    return new LaunchFailed(`the sidecar ended with ${signalCode ? `signal ${signalCode}` : `exit code ${exitCode}`}:\n${this.#lines.last()}`)
  }

  /** A program that has nothing left to do ends, and its sidecar with it. */
  #holdsNothing(): void {
    this.#process.unref()
    for (const pipe of this.#process.stdio) (pipe as unknown as { unref?(): void }).unref?.()
  }

  hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  /** Lets the sidecar finish what it has begun, and ends it, unless others have launched it too. It may be called again. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    this.#process.ref()
    for (const pipe of this.#process.stdio) (pipe as unknown as { ref?(): void } | null)?.ref?.()
    this.#process.stdin.end()
    const letGo = Promise.race([this.#ended, this.#heard.ended])
    const isInTime = this.hasEnded() || (await within(END, letGo))
    if (this.#told.some((told) => told.stays)) {
      this.#process.unref()
    } else {
      if (!isInTime) this.#process.kill('SIGKILL')
      await this.#ended
    }
    await within(REST, this.#lines.ended)
    for (const pipe of [this.#process.stdout, this.#process.stderr]) pipe.destroy()
    process.removeListener('exit', this.#remove)
    this.#remove()
  }
}

function parsed(line: string): Told | undefined {
  try {
    const told = JSON.parse(line) as Told | null
    return told?.listen !== undefined || told?.stays !== undefined ? told : undefined
  } catch {
    return undefined
  }
}

/** The longest time that a timer holds, in milliseconds: one for more ends at once. */
export const LONGEST = 2 ** 31 - 1

/** Whether a promise has settled before a time, in milliseconds, is over. */
export async function within(time: number, settles: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, Math.min(time, LONGEST), false)))
  try {
    return await Promise.race([settles.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

async function started(file: string, args: string[], env: Record<string, string>): Promise<Process> {
  const sidecar = spawn(file, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
    detached: true, // Ctrl-C is for this process, which then ends the sidecar
  })
  try {
    await once(sidecar, 'spawn')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOEXEC') throw new LaunchFailed(`${file} is no program for ${platform}`)
    throw new LaunchFailed(`${file} cannot be started: ${code ?? message}`)
  }
  return sidecar
}

/** The path of a config file; undefined when the config is given itself. */
function configFile(config: unknown): string | undefined {
  if (typeof config === 'object' && config !== null && !Array.isArray(config)) return undefined
  if (typeof config !== 'string') throw new WrongField('config', `want the path of a config file, or an object, got ${shown(config)}`)
  if (!statSync(config, { throwIfNoEntry: false })?.isFile()) throw new LaunchFailed(`${config}: there is no such config file`)
  return config
}

function asText(config: unknown): string {
  try {
    return JSON.stringify(config, (key, value) => {
      if (cannotBeWritten(value)) throw new TypeError(`${key} is ${shown(value)}`)
      return value as unknown
    }, 2)
  } catch (error) {
    throw new LaunchFailed(`this config cannot be written as YAML: ${String((error as Error).message).split('\n', 1)[0]}`)
  }
}

/** What JSON would leave out, or would write as something else. */
function cannotBeWritten(value: unknown): boolean {
  return isLost(value) || ['bigint', 'function', 'symbol'].includes(typeof value)
}

/** What JSON would write as something else. */
export function isLost(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value)
  return [Map, Set, Promise, Error].some((one) => value instanceof one) || ArrayBuffer.isView(value)
}
