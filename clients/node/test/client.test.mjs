// The client against a sidecar that answers as it is told to.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import grpc from '@grpc/grpc-js'

import { BrokenAnswer, ClientClosed, Sidecall } from '@sidecall/client'

let fake, server, client, port, socket, directory

const bind = (address) =>
  new Promise((resolve, reject) =>
    server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error, p) => (error ? reject(error) : resolve(p))))

beforeEach(async () => {
  fake = { requests: [], answer: () => ({}), status: undefined }
  const serve = ({ request }, done) => {
    fake.requests.push(request)
    const refusal = fake.refuse?.(request)
    if (refusal !== undefined) return done(refusal)
    if (fake.status !== undefined) return done({ code: fake.status, details: 'as the test wants it' })
    const answer = fake.answer(request)
    if (answer !== undefined) done(null, answer) // undefined: never
  }
  server = new grpc.Server({ 'grpc.max_send_message_length': -1 })
  const { service } = new Sidecall().stub.constructor
  server.addService(service, { executeTool: serve, executeTools: serve, listTools: serve, getExecution: serve, readOutput: serve })
  directory = mkdtempSync(path.join(tmpdir(), 'sidecall-'))
  socket = `unix://${directory}/s`
  port = await bind('127.0.0.1:0')
  await bind(socket)
  client = new Sidecall(`tcp://127.0.0.1:${port}`)
})

afterEach(() => {
  client.close()
  server.forceShutdown()
  rmSync(directory, { recursive: true })
})

test('every part of a call arrives', async () => {
  fake.answer = (r) => ({ toolUseId: r.toolUseId, content: '42', outcome: 'OUTCOME_OK' })
  const call = { toolUseId: 'toolu_1', toolName: 'answer', argumentsJson: '{"q": 1.0}' }
  const rest = {
    conversationId: 'c', turnId: 't', messageId: 'm', promptId: 'p', profile: 'research', validateOnly: true,
    timeout: { seconds: 1, nanos: 500_000_000 }, maxOutputChars: 100, tokensUsed: 7, labels: { team: 'shop' },
    allowDuplicateEffect: true, holdOnly: true,
  }
  const result = await client.executeTool(call, rest)
  assert.equal(result.content, '42')
  assert.equal(result.outcome, 'OUTCOME_OK')
  assert.deepEqual(JSON.parse(JSON.stringify(fake.requests)), [{ ...call, ...rest }])
})

test('a client that is closed says so', async () => {
  const call = { toolUseId: 'a', toolName: 'x', conversationId: 'c' }
  fake.answer = () => undefined
  const under = client.executeTool(call, {}, { rpcTimeout: 20_000 }).catch((error) => error)
  await client.close()
  client.tool({ name: 'x', input: { type: 'object' } }, () => 'x')
  for (const ask of [() => client.executeTool(call), () => client.tools(), () => client.conversation('c', 'anthropic'), () => client.work()]) {
    await assert.rejects(ask, (error) => error instanceof ClientClosed && /the client is closed/.test(error.message))
  }
  server.forceShutdown()
  assert.ok((await under) instanceof ClientClosed)
})

test('a failed tool is a result', async () => {
  fake.answer = () => ({ isError: true, error: { code: 'NOT_FOUND' }, recovery: { class: 'RECOVERY_CLASS_HARD' } })
  const result = await client.executeTool({ toolUseId: '1', toolName: 'get_order', conversationId: 'c' })
  assert.deepEqual(result.error, { code: 'NOT_FOUND', field: '', constraint: '', received: '', hint: '' })
  assert.equal(result.recovery.class, 'RECOVERY_CLASS_HARD')
})

test('nothing is sent twice', async () => {
  fake.status = grpc.status.UNAVAILABLE
  await assert.rejects(client.executeTool({ toolUseId: '1', toolName: 'refund', conversationId: 'c' }), { code: grpc.status.UNAVAILABLE })
  assert.equal(fake.requests.length, 1)
})

test('a batch has one result per call, in order', async () => {
  fake.answer = ({ calls }) => ({ results: calls.map((c) => ({ toolUseId: c.toolUseId, content: c.turnId })) })
  const results = await client.executeTools([{ toolUseId: 'b' }, { toolUseId: 'a' }], { conversationId: 'c', turnId: '7' })
  assert.deepEqual(results.map((r) => [r.toolUseId, r.content]), [['b', '7'], ['a', '7']])
})

for (const ids of [['a'], ['a', 'b', 'b'], ['b', 'a']]) {
  test(`a batch of a and b with the results of ${ids} is broken`, async () => {
    fake.answer = () => ({ results: ids.map((toolUseId) => ({ toolUseId })) })
    await assert.rejects(client.executeTools([{ toolUseId: 'a' }, { toolUseId: 'b' }], { conversationId: 'c' }), BrokenAnswer)
  })
}

/** Refuses requests as a sidecar does that takes so many calls, by their arguments. */
function takesAtMost(fits) {
  fake.answer = ({ calls }) => ({ results: calls.map((c) => ({ toolUseId: c.toolUseId, content: 'ran' })) })
  fake.refuse = (request) => {
    if (fits(request.calls ?? [request])) return undefined
    const metadata = new grpc.Metadata()
    metadata.set('sidecall-max-request-bytes', '4194304')
    return { code: grpc.status.RESOURCE_EXHAUSTED, details: 'the request has too many bytes', metadata }
  }
}

const large = (id) => ({ toolUseId: id, toolName: 'save', argumentsJson: 'ä'.repeat(100) })
const small = (id) => ({ toolUseId: id, toolName: 'save', argumentsJson: '{}' })

test('a call that no request can hold costs one result', async () => {
  takesAtMost((calls) => !calls.some((c) => c.argumentsJson.length > 50))
  const results = await client.executeTools([small('a'), large('b'), small('c'), small('d')], { conversationId: 'c' })
  assert.deepEqual(results.map((r) => [r.toolUseId, r.content === 'ran', r.isError]), [['a', true, false], ['b', false, true], ['c', true, false], ['d', true, false]])
  const { error, content, recovery } = results[1]
  assert.deepEqual(JSON.parse(content), error)
  assert.deepEqual(error, {
    code: 'INVALID_ARGS', field: '', constraint: 'a call has at most 4194304 bytes (limits.max_request_bytes)', received: '(200 bytes of arguments)',
    hint: 'Nothing was run. Shorten the arguments, or split them, then call save again: once for each part.',
  })
  assert.deepEqual([recovery.class, recovery.retryable], ['RECOVERY_CLASS_MALFORMED', true])
  assert.deepEqual((await client.executeTool(large('e'), { conversationId: 'c' })).error, error)
})

test('calls that do not fit into one request go in several', async () => {
  takesAtMost((calls) => calls.length <= 2)
  const calls = [...'abcdefg'].map(small)
  const results = await client.executeTools(calls, { conversationId: 'c' })
  assert.deepEqual(results.map((r) => [r.toolUseId, r.content]), calls.map((c) => [c.toolUseId, 'ran']))
})

test('a request that is refused for want of room is no call of a model', async () => {
  fake.status = grpc.status.RESOURCE_EXHAUSTED
  await assert.rejects(client.executeTools([small('a')], { conversationId: 'c' }), { code: grpc.status.RESOURCE_EXHAUSTED })
})

test('calls of no conversation are not sent', async () => {
  const nameless = { name: 'WrongField', message: /every call belongs to a conversation/ }
  for (const none of [undefined, null]) {
    const fields = { conversationId: none }
    await assert.rejects(client.executeTool(small('a'), fields), nameless)
    await assert.rejects(client.executeTools([{ ...small('a'), conversationId: 'c' }, small('b')], fields), { ...nameless, field: 'calls[1].conversationId' })
    await assert.rejects(client.runTools({ role: 'assistant', content: 'done' }, fields), nameless)
  }
  assert.deepEqual(fake.requests, [])
})

test('a turn without calls asks nobody', async () => {
  assert.deepEqual(await client.executeTools([]), [])
  assert.deepEqual(fake.requests, [])
})

test('a result may be large', async () => {
  const large = 'x'.repeat(8 << 20)
  fake.answer = () => ({ content: large })
  assert.equal((await client.executeTool({ toolUseId: '1' }, { conversationId: 'c' })).content, large)
})

test('all pages are listed', async () => {
  const next = { '': '2', 2: '3', 3: '' }
  fake.answer = (r) => ({ tools: [{ name: `tool_${r.pageToken ?? ''}` }], nextPageToken: next[r.pageToken ?? ''] })
  assert.deepEqual((await client.listTools()).map((t) => t.name), ['tool_', 'tool_2', 'tool_3'])
})

test('targets', async () => {
  fake.answer = (r) => ({ tools: [{ name: r.profile }] })
  // A proxy that is set for the rest of the machine is none of our business.
  process.env.grpc_proxy = 'http://127.0.0.1:1'
  try {
    for (const target of [`tcp://127.0.0.1:${port}`, `127.0.0.1:${port}`, socket]) {
      const one = new Sidecall(target)
      assert.equal((await one.listTools('code', { rpcTimeout: 10_000 }))[0].name, 'code', target)
      one.close()
    }
  } finally {
    delete process.env.grpc_proxy
  }
})

test('waiting ends', async () => {
  fake.answer = () => undefined
  await assert.rejects(client.executeTool({ toolUseId: '1' }, { conversationId: 'c' }, { rpcTimeout: 50 }), { code: grpc.status.DEADLINE_EXCEEDED })
})

test('the package holds the contract', () => {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const [pack] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--loglevel=error'], { cwd: root, encoding: 'utf8' }))
  const files = pack.files.map((f) => f.path)
  for (const file of ['dist/esm/index.js', 'dist/esm/index.d.ts', 'dist/cjs/index.js', 'dist/cjs/index.d.ts', 'dist/cjs/package.json', 'package.json', 'proto/sidecall/v1/tool_service.proto']) assert.ok(files.includes(file), file)
  assert.ok(!files.some((f) => /^(test|src|scripts)\//.test(f)))
})
