// The command of the package, and what is no sidecar. The program is a script that stands for it.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { Sidecall } from '@sidecall/client'

const command = fileURLToPath(new URL('../bin/sidecall', import.meta.url))
const directory = mkdtempSync(path.join(tmpdir(), 's-'))
after(() => rmSync(directory, { recursive: true }))

function program(name, text) {
  const file = path.join(directory, name)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, text, { mode: 0o700 })
  return file
}

/** Runs the command by a link, as npm makes one, with a program or with what is on the PATH. */
function run(SIDECALL_BINARY, places = [], more = {}) {
  const link = path.join(directory, 'linked', 'sidecall')
  mkdirSync(path.dirname(link), { recursive: true })
  rmSync(link, { force: true })
  symlinkSync(command, link)
  const PATH = [...places, path.dirname(process.execPath), '/usr/bin', '/bin'].join(':')
  return spawnSync(link, ['check', 'a b'], { env: { PATH, SIDECALL_BINARY, ...more }, encoding: 'utf8' })
}

test('the command is the program', () => {
  const sidecar = program('sidecall', '#!/bin/sh\necho $0 "$@"\nexit 7\n')
  assert.deepEqual([run(sidecar).stdout, run(sidecar).status], [`${sidecar} check a b\n`, 7])
  assert.equal(run(program('killed', '#!/bin/sh\nkill -TERM $$\n')).signal, 'SIGTERM')
})

test('what is printed when node starts is not the program', () => {
  const noisy = program('noisy.cjs', 'console.log("hello")\n')
  const sidecar = program('sidecall', '#!/bin/sh\necho $0\n')
  assert.equal(run(sidecar, [], { NODE_OPTIONS: `--require ${noisy}` }).stdout, `${sidecar}
`)
})

test('a command without a program says so', () => {
  const { stdout, stderr, status } = run('/no/program')
  assert.deepEqual([stdout, stderr, status], ['', 'sidecall: /no/program: there is no such program\n', 3])
})

test('the command of a client is no sidecar', () => {
  const none = [
    program('pip/sidecall', '#!/usr/bin/python3\nimport sys\nfrom sidecall._binary import command\nsys.exit(command())\n'),
    program('pnpm/sidecall', '#!/bin/sh\nexec /bin/sh "$basedir/../@sidecall/client/bin/sidecall" "$@"\n'),
    command,
  ]
  for (const file of none) assert.match(run(file).stderr, /is the command of a client/)
  const places = [...none.map((file) => path.dirname(file)), path.join(directory, 'linked')]
  assert.match(run('', places).stderr, /none on the PATH: install that package \(make npm PLATFORMS=here in a clone\)/)
  const sidecar = program('real/sidecall', '#!/bin/sh\necho $0\n')
  assert.equal(run('', [...places, path.dirname(sidecar)]).stdout, `${sidecar}\n`)
})

test('where there is none it says what to do', async () => {
  const platform = Object.getOwnPropertyDescriptor(process, 'platform')
  Object.defineProperty(process, 'platform', { ...platform, value: 'win32' })
  try {
    await assert.rejects(Sidecall.launch({}), {
      name: 'LaunchFailed', message: /^there is no sidecar for win32: run it in WSL or in a container, and connect by address/,
    })
  } finally {
    Object.defineProperty(process, 'platform', platform)
  }
})
