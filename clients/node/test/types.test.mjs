// The types of the package, as a program's compiler sees them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('types', import.meta.url))
const tsc = path.join(path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')

/** What the compiler has to say of a file. */
function compiled(...files) {
  const options = ['--noEmit', '--strict', '--pretty', 'false', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--lib', 'es2022,esnext.disposable']
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, '--ignoreConfig', ...options, ...files], { cwd: here, encoding: 'utf8' })
  return stdout + stderr
}

test('what a program may write compiles, as ESM and as CommonJS', () => {
  assert.equal(compiled('accepted.ts', 'required.cts'), '')
})

test('what it may not write does not, line by line', () => {
  const lines = readFileSync(path.join(here, 'refused.ts'), 'utf8').split('\n')
  const wrong = lines.flatMap((line, i) => (line.endsWith('// wrong') ? [i + 1] : []))
  const refused = [...compiled('refused.ts').matchAll(/^refused\.ts\((\d+),/gm)].map(([, line]) => Number(line))
  assert.deepEqual([...new Set(refused)].sort((a, b) => a - b), wrong)
})
