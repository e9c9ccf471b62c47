// A program that has a sidecar of its own. The last argument is how it ends: well, by
// kill -9, or by an exception.
//
// usage: launched.mjs CONFIG END
import { readdirSync } from 'node:fs'
import path from 'node:path'

import { Sidecall } from '../../../clients/node/dist/esm/index.js'

const CALLS = {
  id: 'msg_1', type: 'message', role: 'assistant', stop_reason: 'tool_use',
  content: [
    { type: 'tool_use', id: 'toolu_1', name: 'create_ticket', input: { title: 'Printer on fire', priority: 'urgent' } },
    { type: 'tool_use', id: 'toolu_2', name: 'create_ticket', input: { title: 'Water', priority: 'urgnt' } },
  ],
}

const [config, end] = process.argv.slice(2)
process.env.TMPDIR = process.cwd() // so that its directory can be told
const sidecall = await Sidecall.launch(config)
try {
  const said = JSON.stringify({
    socket: path.resolve(readdirSync('.').find((name) => name.startsWith('sidecall-')), 'agent.sock'),
    tools: (await sidecall.tools('anthropic')).map((tool) => tool.name),
    first: await sidecall.runTools(CALLS, { conversationId: 'c' }),
    again: await sidecall.runTools(CALLS, { conversationId: 'c' }),
  })
  await new Promise((resolve) => process.stdout.write(said, resolve))
  if (end === 'kill') process.kill(process.pid, 'SIGKILL')
  if (end === 'exception') throw new Error('the agent is broken')
} finally {
  await sidecall.close()
}
