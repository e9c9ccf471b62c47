// The example of an agent runs as it stands.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const clients = fileURLToPath(new URL('../../..', import.meta.url))

test('the Vercel agent corrects itself', (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'desk-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const config = readFileSync(path.join(clients, 'examples', 'sidecall.yaml'), 'utf8')
  writeFileSync(path.join(directory, 'sidecall.yaml'), config.replace(/^listen:.*\n/m, ''))
  const agent = path.join(clients, 'node', 'examples', 'vercel-agent.mjs')
  const said = execFileSync(process.execPath, [agent, 'sidecall.yaml'], { cwd: directory, encoding: 'utf8' })
  assert.match(said, /Did you mean/)
  assert.ok(said.endsWith('The ticket is open.\n'), said)
  const tickets = readFileSync(path.join(directory, 'tickets.jsonl'), 'utf8').split('\n').filter((line) => line !== '')
  assert.deepEqual(tickets.map((line) => JSON.parse(line)), [{ title: 'Printer on fire', priority: 'urgent' }])
})
