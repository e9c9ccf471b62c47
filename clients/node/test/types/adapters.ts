// What a program may write with an agent framework: this has to compile under --strict, with the framework's own types.
import Anthropic from '@anthropic-ai/sdk'
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod'
import { Agent, run, Runner, tool as agentTool } from '@openai/agents'
import { generateText, isStepCount, streamText, tool, ToolLoopAgent, type LanguageModel, type ToolSet } from 'ai'
import { z } from 'zod'

import { currentCall, Sidecall } from '@sidecall/client'
import * as anthropic from '@sidecall/client/anthropic'
import * as agents from '@sidecall/client/openai-agents'
import * as vercel from '@sidecall/client/vercel'

declare const sidecall: Sidecall, model: LanguageModel, mine: ToolSet, signal: AbortSignal

export async function withVercel(): Promise<string> {
  const options: vercel.VercelOptions = { conversationId: ({ messages, context }) => `${messages.length} ${context}`, promptId: 1, profile: 'code', rpcTimeout: 1000, interruptHeld: true }
  const given = { ...mine, ...(await vercel.tools(sidecall, options)) }
  const set: ToolSet = given
  const own = tool({ description: 'Own.', inputSchema: z.object({ n: z.number() }), execute: ({ n }) => currentCall()?.idempotencyKey ?? `${n}` })
  await vercel.tools(sidecall, { ...options, functions: { own, ...mine }, effects: { own: 'keyed' }, worker: { backend: 'local' } })
  const stopWhen = [isStepCount(20), vercel.stopWhenTold]
  const repairToolCall = vercel.repairToolCall(sidecall, { ...options, listed: await sidecall.tools() })
  const end = await generateText({ model, prompt: 'Pay.', tools: given, stopWhen, repairToolCall, abortSignal: signal })
  for (const part of end.content) {
    if (part.type === 'tool-error' && part.error instanceof vercel.ToolFailed) console.log(part.error.result.error?.code)
  }
  const agent = new ToolLoopAgent({ model, tools: set, stopWhen, repairToolCall })
  await agent.generate({ prompt: 'Pay.' })
  return streamText({ model, messages: [], tools: given, stopWhen, repairToolCall }).text
}

interface Context {
  conversationId: string
  promptId: number
}

export async function withAgents(): Promise<string | undefined> {
  const sign = agentTool({ name: 'sign', description: 'Sign.', parameters: { type: 'object', properties: {}, required: [], additionalProperties: true }, strict: false, execute: () => '' })
  const given = await agents.tools(sidecall, { conversationId: (context) => context.usage.requests, profile: 'code', interruptHeld: true })
  const own = { name: 'own', description: 'Own.', parameters: z.object({ n: z.number() }), execute: ({ n }: { n: number }) => n }
  await agents.tools(sidecall, { functions: [own], effects: { own: 'read_only' } })
  const typed = new Agent<Context>({ name: 'desk', tools: given, toolUseBehavior: agents.stopWhenTold })
  await new Runner().run(typed, 'Pay.', { context: { conversationId: 'c', promptId: 1 }, signal })
  const agent = new Agent({ name: 'desk', tools: [...given, sign], toolUseBehavior: agents.stopWhenTold })
  return (await run(agent, 'Pay.', { context: { conversationId: 'c' } })).finalOutput
}

export async function withAnthropic(): Promise<void> {
  const client = new Anthropic()
  const asked = { model: 'claude', max_tokens: 1000, messages: [{ role: 'user' as const, content: 'Pay.' }] }
  const given = await anthropic.tools(sidecall, { conversationId: ({ toolUse }) => toolUse.id, promptId: 'p' })
  const own = betaZodTool({ name: 'own', description: 'Own.', inputSchema: z.object({ n: z.number() }), run: ({ n }) => `${n}` })
  given.push(...(await anthropic.tools(sidecall, { conversationId: 'c', functions: [own], worker: { maxInFlight: 4 } })))
  for await (const message of anthropic.untilTold(client.beta.messages.toolRunner({ ...asked, tools: given }))) console.log(message.content)
  for await (const stream of anthropic.untilTold(client.beta.messages.toolRunner({ ...asked, tools: given, stream: true }))) {
    console.log((await stream.finalMessage()).usage)
  }
  const message = await client.messages.create({ ...asked, tools: await sidecall.tools('anthropic') })
  const messages: Anthropic.MessageParam[] = [...asked.messages, { role: 'assistant', content: message.content }]
  messages.push(...(await sidecall.runTools(message, { conversationId: 'c' })))
}
