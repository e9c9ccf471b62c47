// A sidecar of the process's own: why it did not start, and what becomes of it. The program
// is a script that stands for it; e2e has the real one.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { LaunchFailed, Sidecall, UnsafeSocket, WrongField } from '@sidecall/client'

let directory, restore

beforeEach(() => {
  // Everything temporary goes here, so that what is left can be told.
  directory = mkdtempSync(path.join(tmpdir(), 's-'))
  const { TMPDIR, SIDECALL_BINARY, PATH } = process.env
  restore = { TMPDIR, SIDECALL_BINARY, PATH }
  mkdirSync(path.join(directory, 'tmp'))
  process.env.TMPDIR = path.join(directory, 'tmp')
  delete process.env.SIDECALL_BINARY
})

afterEach(() => {
  for (const [name, value] of Object.entries(restore)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  rmSync(directory, { recursive: true })
})

const left = () => readdirSync(process.env.TMPDIR)

function program(text, name = 'program') {
  const file = path.join(directory, name)
  writeFileSync(file, text, { mode: 0o700 })
  return file
}

async function refused(says, config, options) {
  await assert.rejects(Sidecall.launch(config, options), (error) => {
    assert.ok(error instanceof LaunchFailed, String(error))
    assert.ok(error.message.includes(says), error.message)
    return true
  })
  assert.deepEqual(left(), [])
}

const SAYS_NO = "#!/bin/sh\necho 'sidecall: sidecall.yaml:3:1: no such key' >&2\nexit 2\n"

test('why it did not start', async () => {
  const binary = program(SAYS_NO)
  await refused('the sidecar ended with exit code 2:\nsidecall: sidecall.yaml:3:1: no such key', {}, { binary })
  await refused('the sidecar ended with exit code 0:\nit said nothing', {}, { binary: program('#!/bin/sh\n', 'silent') })
  await refused('the sidecar ended with signal SIGKILL', {}, { binary: program('#!/bin/sh\nkill -9 $$\n', 'killed') })
  await refused('/no/config.yaml: there is no such config file', '/no/config.yaml', { binary })
  await refused(`${directory}: there is no such config file`, directory, { binary })
  await refused('/no/program: there is no such program', {}, { binary: '/no/program' })
  await refused('no-such-sidecall: there is no such program', {}, { binary: 'no-such-sidecall' })
  await refused('cannot be started: ENOENT', {}, { binary: program('#!/no/interpreter\n', 'lost') })
})

test('a config that JSON cannot hold is refused', async () => {
  const binary = program(SAYS_NO)
  const circle = {}
  circle.self = circle
  for (const tools of [new Set([1, 2]), new Map(), 1n, () => {}, NaN, circle]) await refused('this config cannot be written as YAML: ', { tools }, { binary })
  for (const config of [undefined, null, 7, []]) {
    await assert.rejects(Sidecall.launch(config, { binary }), { name: 'WrongField', field: 'config' })
  }
})

test('a binary for another platform is refused, and not run', async () => {
  const elf = Buffer.alloc(64)
  elf.write('\x7fELF\x02\x01\x01', 'latin1')
  elf.writeUInt16LE(process.arch === 'arm64' ? 0x3e : 0xb7, 18)
  const mach = Buffer.concat([Buffer.from(process.platform === 'darwin' ? '' : 'cffaedfe0c000001', 'hex'), Buffer.alloc(64)])
  const foreign = { elf, mach, text: '\x7fELF of another machine' }
  for (const [name, bytes] of Object.entries(foreign)) {
    if (name === 'mach' && process.platform === 'darwin') continue
    const binary = program(bytes, name)
    await refused(`${binary} is no program for ${process.platform}-${process.arch}`, {}, { binary })
  }
})

test('where the program comes from', async () => {
  const names = (name) => program(`#!/bin/sh\necho I am ${name} >&2\nexit 1\n`, name)
  process.env.PATH = directory
  await refused('there is no sidecar for ', {}, {})
  names('sidecall')
  await refused('I am sidecall', {}, {})
  process.env.SIDECALL_BINARY = names('environment')
  await refused('I am environment', {}, {})
  await refused('I am option', {}, { binary: names('option') })
  process.env.SIDECALL_BINARY = path.join(directory, 'gone')
  await refused('gone: there is no such program', {}, {})
})

test('the last lines are quoted, and every line is told', async () => {
  const binary = program('#!/bin/sh\ni=0\nwhile [ $i -lt 30 ]; do i=$((i+1)); echo "line $i" >&2; done\nprintf "the end" >&2\nexit 3\n')
  const lines = []
  const error = await Sidecall.launch({}, { binary, log: (line) => lines.push(line) }).catch((e) => e)
  assert.equal(lines.length, 31)
  assert.equal(lines.at(-1), 'the end')
  const quoted = error.message.split('\n')
  assert.deepEqual([quoted.length, quoted[1], quoted.at(-1)], [21, 'line 12', 'the end'])
})

test('options that it does not have are refused before anything is started', async () => {
  for (const [options, field] of [
    [{ binry: 'x' }, 'binry'], [{ binary: 7 }, 'binary'], [{ env: ['A=1'] }, 'env'], [{ env: { A: 1 } }, 'env.A'], [{ log: 'stderr' }, 'log'],
    [{ patience: '5s' }, 'patience'], ['sidecall', 'options'],
  ]) {
    await assert.rejects(Sidecall.launch({}, options), (e) => e instanceof WrongField && e.field === field)
  }
})

/** A program that serves as a sidecar does: it says where, and ends when its standard input does. */
function stand() {
  const node = `
    import fs from 'node:fs'
    import grpc from ${JSON.stringify(import.meta.resolve('@grpc/grpc-js'))}
    import { Sidecall } from ${JSON.stringify(import.meta.resolve('@sidecall/client'))}
    const [, , serve, launched, timeout, , config] = process.argv
    const listen = 'unix://' + fs.mkdtempSync(${JSON.stringify(path.join(directory, 'own-'))}) + '/s'
    const any = new Sidecall()
    const server = new grpc.Server()
    server.addService(any.stub.constructor.service, {
      getInstructions: (_, done) => done(null, { text: JSON.stringify({ serve, launched, timeout, mine: process.env.MINE, pid: process.pid, config: fs.readFileSync(config, 'utf8') }) }),
    })
    server.bindAsync(listen, grpc.ServerCredentials.createInsecure(), () => {
      console.error('it serves')
      console.log(JSON.stringify({ listen }))
    })
    process.on('exit', () => fs.writeFileSync(${JSON.stringify(path.join(directory, 'ended'))}, ''))
    process.stdin.on('end', () => { console.error('it ends'); server.forceShutdown() }).resume()
  `
  const file = path.join(directory, 'stand.mjs')
  writeFileSync(file, node)
  return program(`#!/bin/sh\nexec '${process.execPath}' '${file}' "$@"\n`, 'stand')
}

test('it is started as this process wants it, and ends with close', async () => {
  const lines = []
  const sidecall = await Sidecall.launch({ store: { memory: {} } }, { binary: stand(), env: { MINE: 'yes' }, log: (line) => lines.push(line) })
  const told = JSON.parse(await sidecall.instructions())
  assert.deepEqual([told.serve, told.launched, told.timeout, told.mine], ['serve', '--launched', '--start-timeout=60000ms', 'yes'])
  assert.deepEqual(JSON.parse(told.config), { store: { memory: {} } })
  await Promise.all([sidecall.close(), sidecall.close()])
  assert.deepEqual(lines, ['it serves', 'it ends'])
  assert.ok(existsSync(path.join(directory, 'ended')))
  assert.deepEqual(left(), [])
})

test('backends that are missing are named', async () => {
  const binary = program(`#!/bin/sh\necho '{"listen": "tcp://127.0.0.1:1", "missing": {"files": "connection refused"}}'\ncat >/dev/null\n`)
  const warned = once(process, 'warning')
  const sidecall = await Sidecall.launch({}, { binary, startTimeout: 250 })
  const [warning] = await warned
  assert.equal(warning.name, 'SidecallWarning')
  assert.match(warning.message, /the tools of the backend files are not there after 0.25 s \(connection refused\)/)
  await sidecall.close()
})

test('what a script around it prints is passed over', async () => {
  const binary = program(`#!/bin/sh\necho starting\necho null\necho 1\necho '{}'\necho '{"listen": "tcp://127.0.0.1:1"}'\ncat >/dev/null\n`)
  await (await Sidecall.launch({}, { binary, startTimeout: 1000 })).close()
})

test('one that goes on for others is let go', async () => {
  const binary = program(`#!/bin/sh\necho '{"listen": "tcp://127.0.0.1:1"}'\ncat >/dev/null\necho '{"stays": true}'\nexec >/dev/null 2>&1\necho $$ >${directory}/pid\ncat ${directory}/end\n`)
  execFileSync('mkfifo', [path.join(directory, 'end')])
  await (await Sidecall.launch({}, { binary })).close()
  writeFileSync(path.join(directory, 'end'), '') // which it has to open, so it is there
  assert.ok(Number(readFileSync(path.join(directory, 'pid'), 'utf8')) > 0)
})

test('of one that has died it is said how', async () => {
  const sidecall = await Sidecall.launch({}, { binary: stand() })
  process.kill(JSON.parse(await sidecall.instructions()).pid, 'SIGKILL')
  await assert.rejects(sidecall.instructions(), { name: 'LaunchFailed', message: 'the sidecar ended with signal SIGKILL:\nit serves' })
  await sidecall.close()
  assert.deepEqual(left(), [])
})

test('a config file is read where it is', async () => {
  const config = path.join(directory, 'sidecall.yaml')
  writeFileSync(config, 'store: {memory: {}}\n')
  const sidecall = await Sidecall.launch(config, { binary: stand() })
  try {
    assert.equal(JSON.parse(await sidecall.instructions()).config, readFileSync(config, 'utf8'))
  } finally {
    await sidecall[Symbol.asyncDispose]()
  }
})

for (const [end, how] of [['without a word', ''], ['by an exception', 'throw new Error("broken")'], ['by kill -9', 'process.kill(process.pid, "SIGKILL")']]) {
  test(`it ends with a program that ends ${end}`, async () => {
    const agent = spawn(process.execPath, ['--input-type=module', '-e', `
      import { Sidecall } from ${JSON.stringify(import.meta.resolve('@sidecall/client'))}
      const sidecall = await Sidecall.launch({}, { binary: ${JSON.stringify(stand())} })
      console.log(JSON.parse(await sidecall.instructions()).serve)
      ${how}
    `], { stdio: ['ignore', 'pipe', 'ignore'] })
    let out = ''
    agent.stdout.on('data', (text) => (out += text))
    await once(agent, 'close')
    assert.equal(out, 'serve\n')
    while (!existsSync(path.join(directory, 'ended'))) await new Promise((resolve) => setTimeout(resolve, 10))
    if (!end.includes('kill')) assert.deepEqual(left(), []) // nobody is left who could remove it
  })
}

test('a binary that came as a package is found', async () => {
  // As npm lays it out: this package, and beside it the one for the platform.
  const modules = path.join(directory, 'node_modules')
  const top = fileURLToPath(new URL('..', import.meta.url))
  mkdirSync(path.join(modules, '@sidecall', 'client'), { recursive: true })
  for (const part of ['dist', 'package.json']) cpSync(path.join(top, part), path.join(modules, '@sidecall', 'client', part), { recursive: true })
  symlinkSync(path.join(top, 'node_modules', '@grpc'), path.join(modules, '@grpc'))
  const platform = path.join(modules, '@sidecall', `${process.platform}-${process.arch}`)
  mkdirSync(platform)
  writeFileSync(path.join(platform, 'package.json'), '{"main": "index.js"}')
  writeFileSync(path.join(platform, 'index.js'), `exports.binary = ${JSON.stringify(program('#!/bin/sh\necho I am packaged >&2\nexit 1\n', 'packaged'))}\n`)
  process.env.PATH = '/no'
  const esm = await import(path.join(modules, '@sidecall', 'client', 'dist', 'esm', 'index.js'))
  await assert.rejects(esm.Sidecall.launch({}), /I am packaged/)
  const cjs = createRequire(path.join(directory, 'x.js'))('@sidecall/client')
  await assert.rejects(cjs.Sidecall.launch({}), /I am packaged/)
})

test('a socket that others may open is refused', () => {
  const socket = path.join(directory, 'socket')
  writeFileSync(socket, '')
  for (const target of [`unix://${socket}`, `unix:${socket}`]) {
    chmodSync(socket, 0o666)
    assert.throws(() => new Sidecall(target), (e) => e instanceof UnsafeSocket && /any user of this machine may open this socket/.test(e.message))
    chmodSync(socket, 0o600)
    new Sidecall(target).close()
  }
  if (process.getuid() === 0) {
    chownSync(socket, 65534, 65534)
    assert.throws(() => Sidecall.connect(`unix://${socket}`), /this socket is of the user 65534, and you are 0/)
  }
})
