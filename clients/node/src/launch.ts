/** A sidecar that belongs to this process. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'

import type { Client } from '@grpc/grpc-js'

import { platform, program } from './binary.js'
import { LaunchFailed, WrongField } from './errors.js'
import { Lines } from './lines.js'
import { labels, shown, type Checks } from './request.js'

/** How a sidecar of this process's own is started. */
export interface LaunchOptions {
  /** The program; without it, it is the one that SIDECALL_BINARY names, that came as a package, or that is on the PATH. */
  binary?: string | undefined
  /** Added to the environment of the sidecar. */
  env?: Record<string, string> | undefined
  /** Is given each line of the sidecar's log. Without it they are dropped, but for the last, which a failure quotes. */
  log?: ((line: string) => void) | undefined
}

export const launchFields: Checks = { binary: aPath, env: labels, log: aFunction }

function aPath(value: unknown, at: string): string {
  if (typeof value !== 'string' || value === '') throw new WrongField(at, `want the path of a program, got ${shown(value)}`)
  return value
}

export function aFunction(value: unknown, at: string): unknown {
  if (typeof value !== 'function') throw new WrongField(at, `want a function, got ${shown(value)}`)
  return value
}

/** How long a sidecar has to answer, in milliseconds. */
const START = 60_000

/** How long one has to end: it lets calls in flight end. */
const END = 40_000

/** How long is waited for the rest of what an ended one has said: a process of its own may hold its log open. */
const REST = 5_000

/** The longest path that a unix socket can have everywhere. */
const LONGEST_SOCKET = 100

type Process = ChildProcessByStdio<Writable, null, Readable>

/** Starts a sidecar; it may not answer yet. */
export async function launch(config: unknown, options: LaunchOptions): Promise<Launched> {
  const named = configFile(config)
  const written = named === undefined ? asText(config) : ''
  const file = await program(options.binary)
  const directory = mkdtempSync(path.join(tmpdir(), 'sidecall-')) // of this user alone
  try {
    const configPath = named ?? path.join(directory, 'sidecall.yaml') // which JSON is
    if (named === undefined) writeFileSync(configPath, written, { mode: 0o600 })
    const target = await listenAt(directory)
    const args = ['serve', '--config', configPath, '--listen', target, '--until-eof']
    return new Launched(await started(file, args, options.env ?? {}), target, directory, options.log)
  } catch (error) {
    rmSync(directory, { recursive: true, force: true })
    throw error
  }
}

/** A running sidecar. It ends when stop is called, or when this process ends, however it does: it waits for the end of
 * its standard input. */
export class Launched {
  readonly target: string
  readonly directory: string
  readonly #process: Process
  readonly #lines: Lines
  readonly #ended: Promise<unknown>
  readonly #remove = () => rmSync(this.directory, { recursive: true, force: true })
  #stopping: Promise<void> | undefined

  constructor(sidecar: Process, target: string, directory: string, log: LaunchOptions['log']) {
    this.#process = sidecar
    this.target = target
    this.directory = directory
    this.#lines = new Lines(sidecar.stderr, log)
    this.#ended = new Promise((resolve) => sidecar.once('exit', resolve))
    for (const one of [sidecar, sidecar.stdin]) one.on('error', () => {}) // it is gone already
    process.once('exit', this.#remove)
  }

  /** Settles when the sidecar answers, or when it is clear that it never will. */
  async awaitReady(client: Client): Promise<void> {
    const end = performance.now() + START
    // A short wait at a time, since one cannot be called off.
    while (!(await isReady(client, 100))) {
      if (this.hasEnded()) throw await this.end()
      if (performance.now() > end) throw new LaunchFailed(`the sidecar does not answer after ${START / 1000} s:\n${this.#lines.last()}`)
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
    for (const pipe of [this.#process.stdin, this.#process.stderr]) (pipe as unknown as { unref?(): void }).unref?.()
  }

  hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  /** Lets the sidecar finish what it has begun, and ends it. It may be called again. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    this.#process.ref()
    this.#process.stdin.end()
    if (!this.hasEnded() && !(await within(END, this.#ended))) {
      this.#process.kill('SIGKILL')
      await this.#ended
    }
    await within(REST, this.#lines.ended)
    this.#process.stderr.destroy()
    process.removeListener('exit', this.#remove)
    this.#remove()
  }
}

/** Whether a client is connected before a time, in milliseconds, is over. */
function isReady(client: Client, time: number): Promise<boolean> {
  return new Promise((resolve) => client.waitForReady(Date.now() + time, (error) => resolve(!error)))
}

/** Whether a promise has settled before a time, in milliseconds, is over. */
async function within(time: number, settles: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, time, false)))
  try {
    return await Promise.race([settles.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

async function started(file: string, args: string[], env: Record<string, string>): Promise<Process> {
  const sidecar = spawn(file, args, {
    stdio: ['pipe', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
    detached: process.platform !== 'win32', // Ctrl-C is for this process, which then ends the sidecar
    windowsHide: true,
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
  if (typeof value === 'number') return !Number.isFinite(value)
  return ['bigint', 'function', 'symbol'].includes(typeof value) || value instanceof Map || value instanceof Set || value instanceof Promise
}

/** Where it is to listen: in the directory, which is this user's alone. */
async function listenAt(directory: string): Promise<string> {
  if (process.platform === 'win32') return `tcp://127.0.0.1:${await freePort()}` // Go and Node share no other way there
  const socket = path.join(directory, 'agent.sock')
  if (Buffer.byteLength(socket) > LONGEST_SOCKET) {
    throw new LaunchFailed(`${socket} is too long for a unix socket: set TMPDIR to a shorter directory`)
  }
  return `unix://${socket}`
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  await once(server.close(), 'close')
  return port
}
