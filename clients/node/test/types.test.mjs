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

/** What the compiler has to say of a file. The types of agent frameworks are for browsers too, and are not looked at. */
function compiled(...files) {
  const options = ['--noEmit', '--strict', '--skipLibCheck', String(files.some((file) => /adapters|page/.test(file))), '--pretty', 'false', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--lib', 'es2022,esnext.disposable']
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, '--ignoreConfig', ...options, ...files], { cwd: here, encoding: 'utf8' })
  return stdout + stderr
}

test('what a program may write compiles, as ESM and as CommonJS', () => {
  assert.equal(compiled('accepted.ts', 'required.cts'), '')
})

test('so does what it may write with an agent framework', () => {
  assert.equal(compiled('adapters.ts'), '')
})

for (const file of ['refused.ts', 'adapters-refused.ts']) {
  test(`what it may not write does not, line by line: ${file}`, () => {
    const lines = readFileSync(path.join(here, file), 'utf8').split('\n')
    const wrong = lines.flatMap((line, i) => (line.endsWith('// wrong') ? [i + 1] : []))
    const refused = [...compiled(file).matchAll(/^[a-z-]+\.ts\((\d+),/gm)].map(([, line]) => Number(line))
    assert.deepEqual([...new Set(refused)].sort((a, b) => a - b), wrong)
  })
}

const readme = readFileSync(path.join(here, '..', '..', 'README.md'), 'utf8')
const blocks = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block)

/** One page of the README's code, compiled. */
function page(blocks) {
  const code = blocks.join('{}\n')
  const imports = /^import .*$/gm
  const text = `${(code.match(imports) ?? []).join('\n')}
    declare const anthropic: { messages: { create(asked: object, options: { signal?: AbortSignal }): Promise<object> } }
    declare const message: any, messages: any[], conversationId: string, promptId: string, question: string
    declare const sidecall: import('@sidecall/client').Sidecall, model: any, client: import('@anthropic-ai/sdk').default
    declare const bank: { refund(key: string, orderId: string, cents: number, how: { signal: AbortSignal }): Promise<{ cents: number }> }
    declare function ask(messages: unknown[]): Promise<object>
    declare function askSomebody(results: readonly object[]): Promise<boolean>
    export {}
    for (;;) {\n${code.replace(imports, '')}}`
  const place = mkdtempSync(path.join(here, 'readme-'))
  try {
    writeFileSync(path.join(place, 'page.ts'), text)
    return compiled(path.join(place, 'page.ts'))
  } finally {
    rmSync(place, { recursive: true })
  }
}

test('what the README shows compiles', () => {
  const isAdapter = (block) => /from '@sidecall\/client\//.test(block)
  // What is said of all adapters is a page of its own too.
  const isOfAll = (block) => block.includes('currentCall')
  assert.equal(page(blocks.filter((block) => !isAdapter(block) && !isOfAll(block))), '')
  assert.equal(page(blocks.filter(isOfAll)), '')
  // The adapters have the same names for the same things, so each is a page of its own.
  const adapters = blocks.filter(isAdapter)
  assert.equal(adapters.length, 3)
  for (const block of adapters) assert.equal(page([block]), '')
})
