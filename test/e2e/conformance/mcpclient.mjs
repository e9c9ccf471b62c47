// An MCP client, of version 2 of the official SDK; see ../node/mcppays.mjs.
//
// usage: mcpclient.mjs (legacy | REVISION) (URL | COMMAND ARGUMENT...)
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { pays } from '../node/mcppays.mjs'

const [revision, to, ...args] = process.argv.slice(2)
const transport = to.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(to))
  : new StdioClientTransport({ command: to, args, env: process.env, stderr: 'inherit' })

const asked = []
const mode = revision === 'legacy' ? revision : { pin: revision }
const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} }, versionNegotiation: { mode } })
client.setRequestHandler('elicitation/create', async (request) => {
  asked.push(request.params.message)
  return { action: 'decline' }
})
await client.connect(transport)
await pays(client, client.getNegotiatedProtocolVersion(), asked)
await client.close()
