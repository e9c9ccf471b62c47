import { setTimeout as sleep } from 'node:timers/promises'

import { Failure, Sidecall } from '@sidecall/client'

const sidecall = await Sidecall.launch('sidecall.yaml')
const input = { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] }
sidecall.tool({ name: 'refund', effect: 'keyed', input }, ({ cents }, { attempt }) => {
  if (attempt === 1) throw new Failure('the bank is away', { notRun: true })
  return `refunded ${cents} in attempt ${attempt}`
})
await sidecall.work()
while (!(await sidecall.tools()).some(({ name }) => name === 'files_list_directory')) await sleep(50) // until the MCP server has said what it has
const calls = [
  { toolUseId: '1', toolName: 'refund', argumentsJson: '{"cents": 5}' },
  { toolUseId: '2', toolName: 'files_list_directory', argumentsJson: '{"path": "."}' },
]
for (const _ of [1, 2]) {
  const results = await sidecall.executeTools(calls, { conversationId: 'c' })
  for (const { replayed, content } of results) console.log(replayed ? 'again' : 'ran', content)
}
await sidecall.close()
