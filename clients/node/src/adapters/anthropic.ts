/**
 * Sidecall in the tool runner of Anthropic's SDK.
 *
 *     const runner = anthropic.beta.messages.toolRunner({
 *       model, max_tokens: 4096, messages, tools: await tools(sidecall, { conversationId, promptId }) })
 *     for await (const message of untilTold(runner)) console.log(message.content)
 *
 * What a call is known by: the id of its tool_use block, which is Anthropic's and unlike all others, and the conversationId
 * and promptId that you give. A runner tells a tool nothing of the messages around its call, so a server that starts its ids again in
 * every turn is one for runTools and runLoop, which read the message itself.
 */
import type { BetaRunnableTool, BetaToolRunContext } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool'
import { ToolError } from '@anthropic-ai/sdk/lib/tools/ToolError'

import type { Sidecall } from '../client.js'
import { Failure, WrongTool } from '../errors.js'
import type { ExecuteToolResponse } from '../generated/messages.js'
import type { AnthropicBlock, AnthropicTool, Schema } from '../messages.js'
import { object, shown as shownOf } from '../request.js'
import { Reply } from '../worker.js'
import { Calls, noAnswer, type Asked, type IdOf, type Options } from './calls.js'
import { read, replyOf, type Body } from './own.js'
import { isShownByAnthropic, pictures, texts } from './shown.js'

/** What the SDK knows of a call. */
export type CallOf = BetaToolRunContext

export interface AnthropicOptions extends Options<CallOf> {
  conversationId: IdOf<CallOf>
  /** Functions of the program's own, as betaZodTool and betaTool make them, which run through the sidecar then: it needs a
   * worker backend for that. */
  functions?: readonly BetaRunnableTool[] | undefined
}

/** A tool of the sidecar. */
export type SidecallTool = BetaRunnableTool<unknown>

/** The contents of results with which the sidecar said stop. */
const told = new WeakSet<object>()

/** The contents that stand for results which the sidecar has not given, and why. */
const missing = new WeakMap<object, { cause: unknown }>()

/**
 * The sidecar's tools, for a tool runner, and the functions of its own behind them. Calls that it makes at once are one
 * request.
 * @param client
 * @param options
 */
export async function tools(client: Sidecall, options: AnthropicOptions): Promise<SidecallTool[]> {
  const { functions = [], ...rest } = object(options, 'options') as AnthropicOptions
  const own = functions.map(runnable)
  const calls = new Calls<CallOf>(client, rest, undefined, own.map(({ name }) => name))
  await calls.register(own.map(({ name, description = '', input_schema }) => ({ name, description, schema: input_schema as Schema })))
  const found = (await calls.tools()).map((tool) => made(calls, tool))
  return [...found, ...own.map((tool) => ({ ...tool, ...made(calls, tool as AnthropicTool, bodyOf(tool)) }) as SidecallTool)]
}

/** What untilTold needs of a tool runner. */
export interface Runner<M> extends AsyncIterable<M> {
  generateToolResponse(): Promise<{ content: string | readonly object[] } | null>
}

type Said = { stop_reason: string | null }

/**
 * The messages of a tool runner, or its streams, until there is none or the sidecar says stop: the model goes round in
 * circles, and was told so. Where the sidecar has not answered, it throws the error, of which a runner would only tell the
 * model.
 */
export async function* untilTold<M extends Said | { finalMessage(): Promise<Said> }>(runner: Runner<M>): AsyncGenerator<M, void, undefined> {
  for await (const message of runner) {
    yield message
    const { stop_reason } = 'finalMessage' in message ? await message.finalMessage() : message
    // The calls of a message that was cut are not run.
    if (stop_reason === 'tool_use' && isTold(await runner.generateToolResponse())) return
  }
}

function isTold(answer: { content: string | readonly object[] } | null): boolean {
  const contents = Array.isArray(answer?.content) ? answer.content.map((block: { content?: unknown }) => block.content) : []
  const ours = contents.filter((content): content is object => typeof content === 'object' && content !== null)
  const failed = ours.map((content) => missing.get(content)).find((why) => why !== undefined)
  if (failed !== undefined) throw failed.cause
  return ours.some((content) => told.has(content))
}

type OwnTool = BetaRunnableTool & { name: string; description?: string; input_schema: object }

function runnable(tool: BetaRunnableTool): OwnTool {
  const { type, name, run, parse } = (tool ?? {}) as Partial<OwnTool>
  if ((type ?? 'custom') !== 'custom' || typeof run !== 'function' || typeof parse !== 'function') {
    throw new WrongTool(`the function ${name} cannot be a tool: want what betaZodTool or betaTool makes, got ${shownOf(tool)}`)
  }
  return tool as OwnTool
}

/** How the runner runs a tool: its arguments are parsed, and its run is given what the runner knows of the call. */
const bodyOf = (tool: OwnTool) => (of: CallOf | undefined): Body => async (input, { signal }) => {
  const parsed = read(() => tool.parse(input) as unknown)
  try {
    return said(await tool.run(parsed, { ...of!, signal }))
  } catch (error) {
    throw error instanceof ToolError ? Object.assign(new Failure(said(error.content).content), { cause: error }) : error
  }
}

/** What a tool has returned, as the sidecar takes it. */
function said(content: string | readonly { type: string }[]): Reply {
  if (typeof content === 'string') return new Reply(content)
  const parts = (content as AnthropicBlock[]).map((block) => ({
    text: block.type === 'text' ? block.text : JSON.stringify(block),
    picture: block.type === 'image' && block.source.type === 'base64' ? { type: block.source.media_type, data: block.source.data } : undefined,
  }))
  return replyOf(parts)
}

function made(calls: Calls<CallOf>, { name, description, input_schema }: AnthropicTool, bodyOf?: (of: CallOf | undefined) => Body): SidecallTool {
  return {
    type: 'custom',
    name,
    description,
    input_schema,
    parse: (input) => input, // arguments are the sidecar's to find fault with
    run: async (input, of) =>
      shown(await answered(calls, { id: of?.toolUse.id, name, arguments: JSON.stringify(input), signal: of?.signal }, of, bodyOf?.(of))),
  }
}

async function answered(calls: Calls<CallOf>, asked: Asked, of: CallOf | undefined, body?: Body): Promise<ExecuteToolResponse> {
  try {
    return await calls.run(asked, of!, {}, body) // without it there is no id, and nothing is asked of it
  } catch (cause) {
    if (asked.signal?.aborted) throw cause
    const blocks: AnthropicBlock[] = [{ type: 'text', text: noAnswer(cause) }]
    missing.set(blocks, { cause })
    throw new ToolError(blocks)
  }
}

function shown(result: ExecuteToolResponse): string | AnthropicBlock[] {
  const blocks: AnthropicBlock[] = texts(result, isShownByAnthropic).map((text) => ({ type: 'text', text }))
  for (const { type, data } of pictures(result, isShownByAnthropic)) {
    blocks.push(type === 'application/pdf'
      ? { type: 'document', source: { type: 'base64', media_type: type, data } }
      : { type: 'image', source: { type: 'base64', media_type: type, data } })
  }
  if (!result.isError) return blocks.every(({ type }) => type === 'text') && blocks.length < 2 ? result.content : blocks
  if (result.stop) told.add(blocks)
  throw new ToolError(blocks)
}
