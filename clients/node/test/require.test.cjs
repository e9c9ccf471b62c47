// The package as CommonJS has it: the same, with the contract in it.
const assert = require('node:assert/strict')
const { test } = require('node:test')

const { Sidecall, WrongField } = require('@sidecall/client')

test('the package can be required', async () => {
  const esm = await import('@sidecall/client')
  const cjs = require('@sidecall/client')
  assert.deepEqual(Object.keys(cjs).filter((name) => name !== '__esModule').sort(), Object.keys(esm).filter((name) => name !== 'default' && name !== 'module.exports').sort())
  assert.notEqual(cjs.Sidecall, esm.Sidecall) // two builds, so that none depends on the other
})

test('what is required works', async () => {
  const { fakeSidecar } = await import('./fake.mjs')
  const fake = await fakeSidecar()
  const sidecall = new Sidecall(fake.target)
  const result = await sidecall.executeTool({ toolUseId: '1', toolName: 't', argumentsJson: '{"a":1}' }, { conversationId: 'c' })
  assert.equal(result.content, '{"a":1}')
  await assert.rejects(sidecall.executeTool({ id: '1' }), (e) => e instanceof WrongField)
  await sidecall.close()
  fake.end()
})

test('so can its adapters', async () => {
  const esmAlone = process.features.require_module ? ['vercel'] : [] // as the AI SDK itself is
  for (const name of ['anthropic', 'openai-agents', ...esmAlone]) {
    const cjs = require(`@sidecall/client/${name}`)
    const esm = await import(`@sidecall/client/${name}`)
    assert.deepEqual(Object.keys(cjs).filter((key) => key !== '__esModule').sort(), Object.keys(esm).filter((key) => key !== 'default' && key !== 'module.exports').sort())
  }
  const { fakeSidecar } = await import('./fake.mjs')
  const fake = await fakeSidecar()
  const sidecall = new Sidecall(fake.target)
  const [tool] = await require('@sidecall/client/anthropic').tools(sidecall, { conversationId: 'c' })
  assert.equal(await tool.run({ a: 1 }, { toolUse: { id: '1' } }), '{"a":1}')
  await sidecall.close()
  fake.end()
})
