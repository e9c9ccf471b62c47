/**
 * Sidecall in the OpenAI Agents SDK.
 *
 *     const agent = new Agent({ name: 'desk', tools: await tools(sidecall), toolUseBehavior: stopWhenTold })
 *     await run(agent, '...', { context: { conversationId, promptId } })
 *
 * What a call is known by: the model's call id, the conversationId and promptId of the run's context, and how many answers
 * of the model the run has had (turn). A RunState keeps all of them.
 */
import { tool, type FunctionTool, type FunctionToolResult, type RunContext, type ToolOutputImage, type ToolOutputText, type ToolsToFinalOutputResult } from '@openai/agents'

import type { Sidecall } from '../client.js'
import { WrongTool } from '../errors.js'
import type { ExecuteToolResponse } from '../generated/messages.js'
import type { AnthropicTool } from '../messages.js'
import { object, type Id } from '../request.js'
import { faultOf } from '../schema.js'
import { Calls, type Found, type Interrupts, type Options } from './calls.js'
import { replyOf, unread, type Body, type Part } from './own.js'
import { isPicture, pictures, texts } from './shown.js'

/** What the SDK knows of a call: the context of its run. */
export type CallOf = RunContext<any>

/** A tool of the sidecar. */
export type SidecallTool = FunctionTool<any, any, any>

/** What a result was, in the custom data of the SDK's output items. */
const STOP = 'sidecallStop'

/** What the SDK's tool() is given for a function. */
export type OwnFunction = Parameters<typeof tool<any, any>>[0]

export interface AgentsOptions extends Options<CallOf>, Interrupts {
  /** Functions of the agent's own, as tool() is given them, which run through the sidecar then: it needs a worker backend
   * for that. Not what tool() makes of them: that keeps their errors to itself. */
  functions?: readonly OwnFunction[] | undefined
}

/**
 * The sidecar's tools, for an Agent, and the functions of its own behind them. Calls that the SDK makes at once are one
 * request.
 * @param client
 * @param options conversationId and promptId stand for those of the run's context.
 */
export async function tools(client: Sidecall, options: AgentsOptions = {}): Promise<SidecallTool[]> {
  const { functions = [], interruptHeld = false, ...rest } = object(options, 'options') as AgentsOptions
  const own = functions.map((given) => ({ bare: bare(given), parameters: given.parameters as unknown, attemptTimeout: given.timeoutMs }))
  const calls = new Calls<CallOf>(client, rest, 'run it with { context: { conversationId } }', own.map(({ bare }) => bare.name))
  await calls.register(own.map(({ bare: { name, description, parameters }, attemptTimeout }) => ({ name, description, schema: parameters, attemptTimeout })))
  const found = (await calls.tools()).map((tool) => made(calls, tool))
  const all = [...found, ...own.map(({ bare, parameters }) => ({ ...bare, ...through(calls, bare.name, bodyOf(bare, parameters)) }))]
  return interruptHeld ? all.map((tool) => interrupting(calls, tool)) : all
}

/** A toolUseBehavior that ends a run in which the model goes round in circles, when the sidecar says stop; its last
 * refusal is the final output. */
export function stopWhenTold(_: RunContext, results: FunctionToolResult[]): ToolsToFinalOutputResult {
  for (const result of results) {
    if (result.type === 'function_output' && result.runItem.type === 'tool_call_output_item' && result.runItem.customData?.[STOP]) {
      return { isFinalOutput: true, isInterrupted: undefined, finalOutput: String(result.output) }
    }
  }
  return { isFinalOutput: false, isInterrupted: undefined }
}

type AnyParameters = { type: 'object'; properties: Record<string, never>; required: string[]; additionalProperties: true }

/** The calls of a run to which the sidecar said stop. */
const told = new WeakMap<CallOf, Set<string>>()

/** The details of calls whose function has begun: before that, the SDK reads the arguments. */
const begun = new WeakSet<object>()

/** The SDK's own tool of a function. The sidecar is told of a failure, which the SDK would make a text of, and keeps the
 * time of an attempt. */
function bare(given: OwnFunction): SidecallTool {
  const { type, name, execute } = object(given, 'functions') as Partial<Record<string, unknown>>
  if (type !== undefined || typeof execute !== 'function') {
    throw new WrongTool(`the function ${name} cannot be a tool: want what tool() is given, and not what it makes: that keeps its errors to itself`)
  }
  const begins: typeof given.execute = (input, context, details) => {
    if (details !== undefined) begun.add(details)
    return given.execute(input, context, details)
  }
  return tool({ ...given, name: given.name ?? given.execute.name, execute: begins, errorFunction: null, timeoutMs: undefined, timeoutBehavior: undefined, timeoutErrorFunction: undefined } as OwnFunction)
}

type Invoke = SidecallTool['invoke']

/** How the SDK runs a function: with the text of the arguments that the model gave. */
const bodyOf = (bare: SidecallTool, parameters: unknown) => (...[context, text, details]: Parameters<Invoke>): Body => async (input, { signal }) => {
  const own = { ...details, signal }
  try {
    return said(await bare.invoke(context, text, own))
  } catch (error) {
    if (begun.has(own)) throw error
    // The SDK keeps what a schema finds fault with to itself.
    const why = await faultOf(parameters, input)
    throw unread(why ?? error)
  }
}

/** What a function has returned, as the sidecar takes it: what the SDK shows to the model as text is text. */
function said(returned: unknown): unknown {
  const parts = (Array.isArray(returned) ? returned : [returned]).map(partOf)
  return parts.every((part) => part !== undefined) ? replyOf(parts) : returned
}

function partOf(part: ToolOutputText | ToolOutputImage | undefined | null): Part | undefined {
  if (part?.type === 'text') return { text: part.text }
  if (part?.type !== 'image' || typeof part.image !== 'object' || !('data' in part.image)) return undefined
  const { data, mediaType = 'image/png' } = part.image
  return { text: '', picture: { type: mediaType, data: typeof data === 'string' ? data : Buffer.from(data).toString('base64') } }
}

function made(calls: Calls<CallOf>, { name, description, input_schema }: AnthropicTool): SidecallTool {
  const parameters = input_schema as unknown as AnyParameters
  // Schemas of tools are not written for a strict mode.
  return { ...tool({ name, description, parameters, strict: false, execute: () => '' }), ...through(calls, name) }
}

/** What sends a tool's calls to the sidecar. */
function through(calls: Calls<CallOf>, name: string, bodyOf?: (...call: Parameters<Invoke>) => Body): Pick<SidecallTool, 'invoke' | 'customDataExtractor'> {
  return {
    // Not what the SDK makes of the arguments, but the text that the model gave: the sidecar finds fault with it.
    invoke: async (context, text, details) => {
      const asked = { id: details?.toolCall?.callId, name, arguments: text, signal: details?.signal }
      const result = await calls.run(asked, context, found(context), bodyOf?.(context, text, details))
      if (result.stop) told.set(context, (told.get(context) ?? new Set()).add(result.toolUseId))
      return output(result)
    },
    // This is kept with the output, in a RunState too.
    customDataExtractor: ({ runContext, toolCall }) => (told.get(runContext)?.has(toolCall.callId) ? { [STOP]: true } : null),
  }
}

/** A tool whose run is interrupted at a call that is held. Its own user is asked besides: whoever allows it for the one has
 * not for the other. */
function interrupting(calls: Calls<CallOf>, tool: SidecallTool): SidecallTool {
  const needsApproval: SidecallTool['needsApproval'] = async (context, input, callId) => {
    const held = isExact(input) && (await calls.isHeld({ id: callId, name: tool.name, arguments: JSON.stringify(input) }, context, found(context)))
    return held || (await tool.needsApproval(context, input, callId))
  }
  return { ...tool, needsApproval }
}

/** Whether arguments that the SDK has read are those that the model gave: held with another number, a call could never be
 * made. One that is not asked about before is held when it is made. */
function isExact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return typeof value !== 'object' || value === null || Object.values(value).every(isExact)
}

function found({ context, usage }: CallOf): Found {
  const { conversationId, promptId } = (typeof context === 'object' && context !== null ? context : {}) as { conversationId?: Id; promptId?: Id }
  return { conversationId, promptId, turnId: usage.requests }
}

function output(result: ExecuteToolResponse): string | (ToolOutputText | ToolOutputImage)[] {
  const words = texts(result, isPicture).join('\n\n')
  const seen = pictures(result, isPicture).map(({ type, data }): ToolOutputImage => ({ type: 'image', image: { data, mediaType: type } }))
  return seen.length > 0 ? [...(words ? [{ type: 'text' as const, text: words }] : []), ...seen] : words
}
