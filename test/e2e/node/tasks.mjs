// An MCP client, of the official SDK, that pays by a task, and prints a line for what it hears of it.
//
// usage: tasks.mjs URL
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const client = new Client({ name: 'test', version: '1' }, { capabilities: {} })
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])))
await client.listTools()
const stream = client.experimental.tasks.callToolStream(
  { name: 'pay', arguments: { cents: 5 }, _meta: { 'dev.sidecall/toolUseId': 't-1', 'dev.sidecall/conversationId': 'c-1' } },
  undefined, { task: { ttl: 60000 } },
)
let task
for await (const said of stream) {
  task ??= said.task?.taskId
  console.log(JSON.stringify({ type: said.type, status: said.task?.status ?? '', text: said.result?.content?.[0]?.text ?? said.error?.message ?? '' }))
}
const status = (await client.experimental.tasks.getTask(task)).status
let refused = ''
try {
  await client.experimental.tasks.cancelTask(task)
} catch (error) {
  refused = String(error.code)
}
console.log(JSON.stringify({ type: 'after', status, text: refused }))
await client.close()
