// A worker for the tests of test/e2e/worker, or an agent that is its own worker: as
// test/e2e/python/worker.py.
import { appendFileSync, closeSync, fsyncSync, openSync } from 'node:fs'
import process from 'node:process'

import { Sidecall } from '../../../clients/node/dist/esm/index.js'
import { WorkerService } from '../../../clients/node/dist/esm/contract.js'

const [agent] = process.argv.slice(2)
const { SIDECALL_TEST_WORKER_OF, SIDECALL_TEST_WORKER_LEDGER, SIDECALL_TEST_WORKER_PLACES, SIDECALL_TEST_WORKER_DIES } = process.env

function die() {
  process.kill(process.pid, 'SIGKILL')
  for (;;); // it is on its way
}

const at = (step) => step === SIDECALL_TEST_WORKER_DIES && die()

function note(line) {
  const file = openSync(SIDECALL_TEST_WORKER_LEDGER, 'a', 0o600)
  appendFileSync(file, `${line}\n`)
  fsyncSync(file)
  closeSync(file)
}

async function act({ key, then = '' }, { attempt, signal }) {
  at('begun')
  note(`ran ${key}`)
  at('done')
  if (then === 'die' || (then === 'die in the first' && attempt === 1)) die()
  if (then === 'hang') {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    note(`ended ${key}`)
    throw signal.reason
  }
  return `${key} by ${process.pid}`
}

// The steps of a call, as the stream sees them.
const { serve } = WorkerService.prototype
WorkerService.prototype.serve = function (...how) {
  const stream = serve.apply(this, how)
  const { write } = stream
  stream.write = (message) => {
    if (message.result) at('answering')
    const more = write.call(stream, message)
    if (message.result) at('answered')
    return more
  }
  stream.on('data', (command) => {
    if (command.invoke) at('invoked')
    if (command.registered) (agent ? process.stderr : process.stdout).write('registered\n')
  })
  return stream
}

const sidecall = new Sidecall(SIDECALL_TEST_WORKER_OF)
const input = {
  type: 'object', additionalProperties: false, required: ['key'],
  properties: { key: { type: 'string' }, then: { type: 'string', description: 'hang, or die' } },
}
sidecall.tool({ name: 'act', description: 'Acts.', input }, act)
sidecall.tool({ name: 'again', effect: 'keyed', input }, act)
sidecall.tool({ name: 'undo', cancelWithCaller: true, input }, act)
sidecall.tool({ name: 'whoami', effect: 'read_only' }, () => process.pid)

const work = await sidecall.work({ name: 'program', ...(Number(SIDECALL_TEST_WORKER_PLACES) ? { maxInFlight: Number(SIDECALL_TEST_WORKER_PLACES) } : {}) })
process.on('SIGTERM', () => work.leave())
if (agent) {
  at('ready')
  const call = { type: 'tool_use', id: agent, name: 'act', input: { key: agent } }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', stop_reason: 'tool_use', content: [call] }
  const { results: [result] } = await sidecall.runTools(message, { conversationId: 'c' })
  at('heard')
  console.log(JSON.stringify({ code: result.error?.code ?? '', content: result.content, replayed: result.replayed }))
  await work.stop()
}
await work.ended
await sidecall.close()
