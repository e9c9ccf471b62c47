// An MCP client, of version 1 of the official SDK; see mcppays.mjs.
//
// usage: mcpclient.mjs (URL | COMMAND ARGUMENT...)
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { pays } from './mcppays.mjs'

const [to, ...args] = process.argv.slice(2)
const transport = to.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(to))
  : new StdioClientTransport({ command: to, args, env: process.env, stderr: 'inherit' })

const asked = []
const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } })
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message)
  return { action: 'decline' }
})
await client.connect(transport)
await pays(client, transport.protocolVersion ?? '', asked)
await client.close()
