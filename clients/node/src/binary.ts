/** Which program is the sidecar: whether it is there, and whether it is one for this machine. */
import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs'
import path from 'node:path'

import { LaunchFailed } from './errors.js'

/** The platform as the packages of binaries are named, such as linux-x64. */
export const platform = `${process.platform}-${process.arch}`

/**
 * The program: the one that is named, by the caller or in the environment, or the one that came with this package, or
 * one on the PATH.
 */
export async function program(binary: string | undefined): Promise<string> {
  if (!['linux', 'darwin'].includes(process.platform)) {
    throw new LaunchFailed(
      `there is no sidecar for ${process.platform}: run it in WSL or in a container, and connect by address, ` +
        "as in new Sidecall('tcp://127.0.0.1:8470')")
  }
  const named = binary ?? process.env.SIDECALL_BINARY ?? ''
  const found = named === '' ? ((await packaged()) ?? which('sidecall').find((file) => !isCommand(file))) : which(named)[0]
  if (found !== undefined) {
    if (isCommand(found)) throw new LaunchFailed(`${found} is the command of a client, which starts a sidecar, and is none itself`)
    checkPlatform(found)
    return found
  }
  if (named !== '') throw new LaunchFailed(`${named}: there is no such program`)
  throw new LaunchFailed(
    `there is no sidecar for ${platform} beside this package (@sidecall/${platform}), and none on the PATH: ` +
      'install that package (make npm PLATFORMS=here in a clone), or name one with binary, or in SIDECALL_BINARY')
}

/** The binary of the package for this platform, an optional dependency of this one. */
async function packaged(): Promise<string | undefined> {
  const name = `@sidecall/${platform}`
  try {
    const { binary } = (await import(name)) as { binary?: unknown }
    return typeof binary === 'string' && isProgram(binary) ? binary : undefined
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') return undefined
    throw new LaunchFailed(`${name} cannot be loaded: ${String(error)}`)
  }
}

/** The programs that a name stands for: one by its path, or those of that name on the PATH. */
function which(name: string): string[] {
  const places = path.basename(name) === name ? (process.env.PATH ?? '').split(path.delimiter).filter((place) => place !== '') : ['']
  return places.map((place) => path.resolve(place, name)).filter(isProgram)
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** What the commands of the clients for Node and Python have in them: they stand for a sidecar and are none. */
const commands = ['@sidecall/client', 'sidecall._binary']

function isCommand(file: string): boolean {
  const head = start(file, 4096).toString('latin1')
  return head.startsWith('#!') && commands.some((name) => head.includes(name))
}

/** The processors of ELF files, by the names that Node has for them. */
const machines: Record<number, string> = { 0x03: 'ia32', 0x28: 'arm', 0x3e: 'x64', 0xb7: 'arm64', 0xf3: 'riscv64', 0x16: 's390x', 0x15: 'ppc64' }

/**
 * Refuses a binary of another platform. It has to be seen before: a system that cannot run a file gives it to the
 * shell, as if it were a script.
 */
function checkPlatform(file: string): void {
  const head = start(file, 20)
  const isELF = head.toString('latin1', 0, 4) === '\x7fELF'
  const isMach = ['cffaedfe', 'cafebabe'].includes(head.toString('hex', 0, 4))
  if (!isELF && !isMach) return // a script
  const machine = head[5] === 2 ? head.readUInt16BE(18) : head.readUInt16LE(18)
  const fits = isELF ? process.platform === 'linux' && machines[machine] === process.arch : process.platform === 'darwin'
  if (!fits) throw new LaunchFailed(`${file} is no program for ${platform}`)
}

/** The first bytes of a file, with zeros for those that it does not have. */
function start(file: string, bytes: number): Buffer {
  const head = Buffer.alloc(bytes)
  try {
    const open = openSync(file, 'r')
    try {
      readSync(open, head)
    } finally {
      closeSync(open)
    }
  } catch {
    // One may be allowed to run it and not to read it.
  }
  return head
}
