// What the tests of the adapters share: a sidecar with a desk that takes payments.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import * as grpc from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'

import { currentCall, Failure, Sidecall, status } from '@sidecall/client'

const object = (more = {}) => ({ type: 'object', additionalProperties: false, ...more })

// Each payment is a line in a file: one more means that it was made once more.
const PAY = 'given=$(cat); printf "%s\\n" "$given" | tee -a payments.jsonl'

const config = (directory) => ({
  admin: 'off',
  operator: `unix://${directory}/op.sock`,
  store: { embedded: { path: path.join(directory, 'sidecall.db') } },
  pins: { path: path.join(directory, 'sidecall.pins') },
  backends: { desk: { exec: { dir: directory, env: ['PATH'] } } },
  tools: {
    pay: {
      backend: 'desk', description: 'Pay.', effect: 'non_idempotent', exec: { argv: ['sh', '-c', PAY] },
      input_schema: object({
        required: ['cents'],
        properties: { cents: { type: 'integer', minimum: 1 }, how: { type: 'string', enum: ['cash', 'card'] } },
      }),
    },
    paid: {
      backend: 'desk', description: 'What was paid.', effect: 'read_only', input_schema: object(),
      exec: { argv: ['sh', '-c', 'cat payments.jsonl 2>/dev/null || true'] },
    },
    broken: {
      backend: 'desk', description: 'Is broken.', effect: 'read_only', input_schema: object(),
      exec: { argv: ['sh', '-c', 'echo the drawer is stuck >&2; exit 1'] },
    },
    // Says that it has begun, and is done when the test says so.
    wait: {
      backend: 'desk', description: 'Wait.', effect: 'read_only', input_schema: object(),
      exec: { argv: ['sh', '-c', 'echo >>begun; cat gate'] },
    },
  },
})

/** A sidecar that takes functions of the program's own, and calls them otherwise. */
export const OWN = { own: { worker: {}, prefix: 'my_' } }

/** Asks the service of operators, as a person does at its socket. */
const operator = (directory, method, request) => new Promise((resolve, reject) => {
  const { OperatorService } = grpc.loadPackageDefinition(loadSync('sidecall/v1/operator_service.proto', { includeDirs: [PROTO] })).sidecall.v1
  const client = new OperatorService(`unix://${directory}/op.sock`, grpc.credentials.createInsecure())
  client[method](request, (error, response) => {
    client.close()
    if (error) reject(error)
    else resolve(response)
  })
})

const PROTO = path.join(import.meta.dirname, '../../proto')

/** Starts one, which ends with the test. Of payments that pass a condition somebody is to be asked. */
export async function desk(t, backends = {}, approveWhen = undefined) {
  const directory = mkdtempSync(path.join(tmpdir(), 'desk-'))
  const asked = config(directory)
  if (approveWhen !== undefined) asked.tools.pay.approve_when = approveWhen
  const launch = () => Sidecall.launch({ ...asked, backends: { ...asked.backends, ...backends } })
  const sidecall = await launch()
  t.after(async () => {
    await sidecall.close()
    rmSync(directory, { recursive: true })
  })
  const it = {
    sidecall,
    /** Another client of the same sidecar, as another process has one. */
    another: async () => {
      const other = await launch()
      t.after(() => other.close())
      return other
    },
    /** The calls of each request, and the results of each answer. */
    batches: [],
    answers: [],
    /** How the requests ended that have no answer. */
    errors: [],
    cancelled: async () => {
      while (it.errors.length === 0) await sleep(10)
      assert.equal(it.errors[0].code, status.CANCELLED)
    },
    /** The calls that wait, as an operator is shown them. */
    held: async () => (await operator(directory, 'ListHeld', {})).executions,
    /** What one says of the only one of them: ApproveExecution or DenyExecution. */
    decide: async (how) => {
      const [{ conversationId, turnId, toolUseId }, ...more] = await it.held()
      assert.equal(more.length, 0)
      await operator(directory, how, { conversationId, turnId, toolUseId, decidedBy: 'ada', reason: 'asked the customer' })
    },
    payments: () => (existsSync(path.join(directory, 'payments.jsonl')) ? lines(path.join(directory, 'payments.jsonl')).map((line) => JSON.parse(line)) : []),
    /** From now on each request ends like this. */
    breaks: () => {
      sidecall.stub.runMessage = (request, metadata, options, answered) => {
        setImmediate(() => answered(Object.assign(new Error('13 INTERNAL: broken'), { code: status.INTERNAL })))
        return { cancel: () => {} }
      }
    },
    /** Closes the gate that the tool wait waits at. */
    shut: () => execFileSync('mkfifo', [path.join(directory, 'gate')]),
    begun: async () => {
      while (!existsSync(path.join(directory, 'begun'))) await sleep(10)
    },
    /** The keys of what functions of the program did. */
    done: [],
    /** What one of them does: the second time that it is tried. */
    refund: (cents) => {
      const { attempt, idempotencyKey } = currentCall()
      if (attempt === 1) throw new Failure('not yet', { notRun: true })
      it.done.push(idempotencyKey)
      return `refunded ${cents} in attempt ${attempt}`
    },
    /** The turn REFUND, twice with the same messages: each call ran as the sidecar wants it, once, and the model was told. */
    assertRefunded: async (provider) => {
      await it.assertHeard(provider, it.answers.at(-1))
      const told = texts((await provider.heard()).requests.at(-1)).join('\n')
      assert.match(told, /refunded 5 in attempt 2/)
      assert.match(told, /Hello Zoë/)
      assert.deepEqual(it.codes(), ['ok', 'INVALID_ARGS', 'ok', 'ok', 'INVALID_ARGS', 'ok'])
      assert.deepEqual(it.results().map((r) => r.replayed), [false, false, false, true, false, true])
      assert.equal(it.done.length, 1)
      // One request a turn, by the names that the sidecar has for them.
      assert.deepEqual(it.batches.map((calls) => calls.map((c) => c.toolName)), Array(2).fill(['my_refund', 'my_refund', 'my_greet']))
    },
    /** All results so far, in the order of the answers. */
    results: () => it.answers.flat(),
    codes: () => it.results().map((r) => r.error?.code ?? 'ok'),
    /** The model was told all of that, word for word, and the provider had no complaint. */
    assertHeard: async (provider, results = it.results()) => {
      const { requests, refusals } = await provider.heard()
      assert.deepEqual(refusals, [])
      const told = texts(requests.at(-1))
      for (const result of results) {
        for (const words of [result.content, result.recovery?.context ?? '', ...result.notices]) {
          assert.ok(told.some((text) => text.includes(words)), `not told: ${words}\n${told.join('\n')}`)
        }
      }
    },
  }
  const real = sidecall.stub.runMessage
  sidecall.stub.runMessage = (request, metadata, options, answered) => {
    const message = JSON.parse(request.messageJson)
    const blocks = (message.content ?? []).filter(({ type }) => type === 'tool_use')
    const calls = message.tool_calls ?? blocks.map(({ id, name, input }) => ({ id, function: { name, arguments: JSON.stringify(input) } }))
    it.batches.push(calls.map(({ id, function: { name, arguments: argumentsJson } }) => ({ ...request.shared, toolUseId: id, toolName: name, argumentsJson })))
    return real.call(sidecall.stub, request, metadata, options, (error, response) => {
      if (error) it.errors.push(error)
      else it.answers.push(response.results)
      answered(error, response)
    })
  }
  return it
}

/** All texts in a value, and in what is JSON in one of them: some providers' packages write {"error": "..."} around it. */
function texts(value) {
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(texts)
  if (typeof value !== 'string') return []
  try {
    return [value, ...texts(JSON.parse(value))]
  } catch {
    return [value]
  }
}

const lines = (file) => readFileSync(file, 'utf8').split('\n').filter((line) => line !== '')

export const PAY_BOTH = [{ calls: [['pay', { cents: 5 }], ['pay', { cents: 7 }]] }, { text: 'Paid.' }]

/** Two calls, of which the first is one that somebody is asked about. */
export const HELD = [{ calls: [['pay', { cents: 101 }], ['pay', { cents: 7 }]] }, { text: 'Paid.' }]

export const REFUND = [{ calls: [['refund', { cents: 5 }], ['refund', { cents: '5' }], ['greet', { name: 'Zoë' }]] }, { text: 'Done.' }]

/** Both are wrong; the provider's format allows what is no JSON. */
export const WRONG = [{ calls: [['pay', { cents: '5' }], ['pay', { how: 'cahs', cents: 1 }], ['broken', {}]] }, { text: 'I see.' }]

export const ROUND = [{ calls: [['pay', { cents: 0 }]] }]

export const WAIT = [{ calls: [['wait', {}]] }, { text: 'Done.' }]
