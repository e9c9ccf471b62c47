/**
 * A Vercel AI SDK agent whose tools a sidecar runs. The model is scripted, so it needs no account; with a real one, model
 * is anthropic('...'), or any other of the SDK's.
 *
 * usage: vercel-agent.mjs [CONFIG], such as clients/examples/sidecall.yaml
 */
import { isStepCount, ToolLoopAgent } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'

import { Sidecall } from '@sidecall/client'
import { repairToolCall, stopWhenTold, tools } from '@sidecall/client/vercel'

/** Opens a ticket, misspells its priority, and corrects that by what the error says. */
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const said = prompt.at(-1).content[0].output // of the tool, if any
    const input = JSON.stringify({ title: 'Printer on fire', priority: said?.value.includes('Did you mean') ? 'urgent' : 'urgnt' })
    const call = { type: 'tool-call', toolCallId: `call_${prompt.length}`, toolName: 'create_ticket', input }
    const isOpen = said?.type === 'text'
    return {
      content: [isOpen ? { type: 'text', text: 'The ticket is open.' } : call],
      finishReason: { unified: isOpen ? 'stop' : 'tool-calls' }, usage: { inputTokens: {}, outputTokens: {} }, warnings: [],
    }
  },
})

const sidecall = await Sidecall.launch(process.argv[2] ?? 'sidecall.yaml')
const options = { conversationId: 'c-1' }
const agent = new ToolLoopAgent({
  model, instructions: await sidecall.instructions(), stopWhen: [isStepCount(20), stopWhenTold],
  tools: await tools(sidecall, options), repairToolCall: repairToolCall(sidecall, options),
})
const { text, responseMessages } = await agent.generate({ prompt: 'The printer is on fire!' })
for (const { role, content } of responseMessages) console.log(`${role}: ${JSON.stringify(content)}`)
console.log(text)
await sidecall.close()
