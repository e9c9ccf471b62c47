// An MCP client, of the official SDK, that pays twice under one id and makes what mistakes there are.
//
// usage: mcpclient.mjs (URL | COMMAND ARGUMENT...)
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const [to, ...args] = process.argv.slice(2)
const transport = to.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(to))
  : new StdioClientTransport({ command: to, args, env: process.env, stderr: 'inherit' })

const named = (id) => ({ 'dev.sidecall/toolUseId': id, 'dev.sidecall/conversationId': 'c-1' })
const told = (result) => ({
  text: result.content.filter((block) => block.type === 'text').map((block) => block.text).join(''),
  is_error: result.isError ?? false,
  structured: result.structuredContent ?? null,
  replayed: result._meta?.['dev.sidecall/replayed'] ?? false,
})

const asked = []
const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } })
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message)
  return { action: 'decline' }
})
await client.connect(transport)
const call = (name, args, id) => client.callTool({ name, arguments: args, _meta: named(id) })

const said = { revision: transport.protocolVersion ?? '' }
said.tools = (await client.listTools()).tools.map((tool) => tool.name).sort()
said.paid = told(await call('pay', { cents: 5 }, 't-1'))
said.again = told(await call('pay', { cents: 5 }, 't-1'))
said.wrong = told(await call('pay', { cents: 'many' }, 't-2'))
said.held = told(await call('pay', { cents: 500 }, 't-3'))
said.asked = asked
try {
  await call('pya', {}, 't-4')
} catch (error) {
  said.unknown = { code: error.code, data: error.data }
}
console.log(JSON.stringify(said))
await client.close()
