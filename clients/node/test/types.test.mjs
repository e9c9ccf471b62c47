// The types of the package, as a program's compiler sees them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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

test('what the README shows compiles', () => {
  const readme = readFileSync(path.join(here, '..', '..', 'README.md'), 'utf8')
  const code = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block).join('{}\n')
  const imports = code.match(/^import .*$/gm).join('\n')
  const page = `${imports}
    declare const anthropic: { messages: { create(asked: object, options: { signal?: AbortSignal }): Promise<object> } }
    declare const message: any, messages: any[], conversationId: string, promptId: string, model: string, question: string
    declare function askSomebody(results: readonly object[]): Promise<boolean>
    for (;;) {\n${code.replace(/^import .*$/gm, '')}}`
  const place = mkdtempSync(path.join(here, 'readme-'))
  try {
    writeFileSync(path.join(place, 'page.ts'), page)
    assert.equal(compiled(path.join(place, 'page.ts')), '')
  } finally {
    rmSync(place, { recursive: true })
  }
})
