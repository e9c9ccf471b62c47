/**
 * Sidecall in Vercel's AI SDK.
 *
 *     const { text } = await generateText({
 *       model, messages, tools: await tools(sidecall, { conversationId }), stopWhen: [isStepCount(20), stopWhenTold] })
 *
 * What a call is known by: the model's id of the call, the conversationId that you give, which of the messages is the
 * user's last (prompt), and how many the model was sent (turn). Messages that are sent again after a crash have the same
 * ones, so their calls are answered from the record.
 */
import { asSchema, dynamicTool, jsonSchema, ToolCallRepairError, type ModelMessage, type StopCondition, type Tool, type ToolCallRepairFunction, type ToolExecutionOptions, type ToolSet } from 'ai'

import type { Sidecall } from '../client.js'
import { Failure, WrongTool } from '../errors.js'
import type { ExecuteToolResponse } from '../generated/messages.js'
import { object } from '../request.js'
import { Reply } from '../worker.js'
import { Calls, noAnswer, type Asked, type Found, type IdOf, type Interrupts, type Options } from './calls.js'
import { replyOf, unread, type Body, type Declared } from './own.js'
import { isPicture, pictures, texts } from './shown.js'

/** What the SDK knows of a call. context is there when a tool is run, and not when its call is repaired. */
export type CallOf = Pick<ToolExecutionOptions<unknown>, 'toolCallId' | 'messages'> & Partial<Pick<ToolExecutionOptions<unknown>, 'abortSignal' | 'context'>>

export interface VercelOptions extends Options<CallOf>, Interrupts {
  conversationId: IdOf<CallOf>
  /** Tools of the program's own, which run through the sidecar then: it needs a worker backend for that. */
  functions?: ToolSet | undefined
}

/** A tool of the sidecar: its output is a text, or parts where there are pictures. */
export type SidecallTool = Tool<any, any, any>

/** A tool has failed. Its text, which the SDK gives the model, is all that the sidecar has to say. */
export class ToolFailed extends Error {
  override name = 'ToolFailed'
  /** What the sidecar has answered. */
  readonly result: ExecuteToolResponse

  constructor(result: ExecuteToolResponse) {
    super(texts(result, () => false).join('\n\n'))
    this.result = result
  }

  /** Word for word: the SDK gives the model an error as its string. */
  override toString(): string {
    return this.message
  }
}

/** The sidecar has not answered. That is for the program, to which stopWhenTold throws the cause; the model, which the SDK
 * tells of every error, learns that the outcome is unknown. */
export class NoAnswer extends Error {
  override name = 'NoAnswer'

  constructor(cause: unknown) {
    super(noAnswer(cause), { cause })
  }

  override toString(): string {
    return this.message
  }
}

/** The tools that tools has made, so that calls of others are left alone. */
const ours = new WeakSet<object>()

/**
 * The sidecar's tools, and the functions of the program's own behind them. Calls that the SDK makes at once are one request.
 * @param client
 * @param options As for repairToolCall.
 */
export async function tools(client: Sidecall, options: VercelOptions): Promise<Record<string, SidecallTool>> {
  const calls = callsOf(client, options)
  const own = await Promise.all(Object.entries(options.functions ?? {}).map(([name, tool]) => ownOf(name, tool)))
  await calls.register(own)
  const found = (await calls.tools()).map(({ name, description, input_schema }) =>
    [name, dynamicTool({ description, ...through(calls, name, input_schema) })] as const)
  const all = [...found, ...own.map(({ name, tool, schema, body }) => [name, wrapped(tool, through(calls, name, schema, body))] as const)]
  const made = options.interruptHeld ? all.map(([name, tool]) => [name, interrupting(calls, name, tool)] as const) : all
  for (const [, tool] of made) ours.add(tool)
  return Object.fromEntries(made)
}

/** What sends a tool's calls to the sidecar. */
function through(calls: Calls<CallOf>, name: string, schema: object, body?: (of: Running) => Body) {
  return {
    // Without validation: the sidecar is the one to find fault with arguments, and to say how they are corrected.
    inputSchema: jsonSchema<unknown>(schema),
    execute: async (input: unknown, of: Running) => {
      const asked = { id: of.toolCallId, name, arguments: JSON.stringify(input), signal: of.abortSignal }
      return output(await answered(calls, asked, of, body?.(of)))
    },
    toModelOutput: ({ output }: { output: unknown }): ToolResultOutput =>
      Array.isArray(output) ? { type: 'content', value: output as Part[] } : { type: 'text', value: output as string },
  }
}

type Running = ToolExecutionOptions<any>

interface Own extends Declared {
  tool: SidecallTool
  body: (of: Running) => Body
}

async function ownOf(name: string, tool: SidecallTool): Promise<Own> {
  const { type, execute, description, inputSchema, toModelOutput } = object(tool, `functions.${name}`) as SidecallTool
  if (type === 'provider' || typeof execute !== 'function') {
    throw new WrongTool(`the function ${name} cannot be a tool: ${type === 'provider' ? 'it is the provider\'s' : 'it has no execute'}`)
  }
  const { jsonSchema, validate } = asSchema(inputSchema)
  const body = (of: Running): Body => async (given, { signal }) => {
    const read = (await validate?.(given)) ?? { success: true, value: given }
    if (!read.success) throw unread(read.error)
    const returned = await last(execute(read.value, { ...of, abortSignal: signal }))
    return toModelOutput === undefined ? returned : said(await toModelOutput({ toolCallId: of.toolCallId, input: read.value, output: returned }))
  }
  return { name, description: typeof description === 'string' ? description : '', schema: (await jsonSchema) as Declared['schema'], tool, body }
}

/** A tool of the program's own, whose output is the sidecar's. Who has to be asked is asked only about what may run. */
function wrapped(tool: SidecallTool, made: ReturnType<typeof through>): SidecallTool {
  const { outputSchema: _, inputSchema, needsApproval, ...rest } = tool
  const { validate } = asSchema(inputSchema)
  const asks = typeof needsApproval !== 'function' ? needsApproval : async (given: unknown, of: Parameters<typeof needsApproval>[1]) => {
    const read = (await validate?.(given)) ?? { success: true, value: given }
    return read.success && (await needsApproval(read.value, of))
  }
  return { ...rest, ...made, needsApproval: asks } as SidecallTool
}

/** A tool whose run ends at a call that is held. Its own user is asked besides: whoever allows it for the one has not for the
 * other. */
function interrupting(calls: Calls<CallOf>, name: string, tool: SidecallTool): SidecallTool {
  const asks: SidecallTool['needsApproval'] = async (input: unknown, of: CallOf) => {
    const held = await calls.isHeld({ id: of.toolCallId, name, arguments: JSON.stringify(input) }, of, found(of))
    const { needsApproval } = tool
    return held || (typeof needsApproval === 'function' ? await needsApproval(input, of as never) : needsApproval === true)
  }
  return { ...tool, needsApproval: asks } as SidecallTool
}

/** The last thing that a tool gives: one that gives several shows what it is at. */
async function last(given: unknown): Promise<unknown> {
  if (typeof given !== 'object' || given === null || !(Symbol.asyncIterator in given)) return given
  let found: unknown
  for await (const one of given as AsyncIterable<unknown>) found = one
  return found
}

/** What a tool shows the model, as the sidecar takes it. */
function said(shown: ToolResultOutput): unknown {
  if (shown.type === 'error-text' || shown.type === 'error-json') throw new Failure(typeof shown.value === 'string' ? shown.value : JSON.stringify(shown.value))
  if (shown.type === 'json') return new Reply('', { structured: shown.value })
  if (shown.type !== 'content') return new Reply(shown.type === 'text' ? shown.value : JSON.stringify(shown))
  return replyOf(shown.value.map((part) => ({
    text: part.type === 'text' ? part.text : JSON.stringify(part),
    picture: part.type === 'file' && part.data.type === 'data' && typeof part.data.data === 'string' && isPicture(part.mediaType)
      ? { type: part.mediaType, data: part.data.data } : undefined,
  })))
}

/**
 * A repairToolCall that has the sidecar explain what the SDK would refuse in its own words: calls of tools that do not
 * exist, and arguments that are no JSON. Nothing is guessed: the model is told what to correct.
 * @param client
 * @param options As for tools.
 */
export function repairToolCall(client: Sidecall, options: VercelOptions): ToolCallRepairFunction<ToolSet> {
  const calls = callsOf(client, options)
  return async ({ toolCall, tools, messages, abortSignal }) => {
    const called = Object.hasOwn(tools, toolCall.toolName) ? tools[toolCall.toolName] : undefined
    if (called !== undefined && !ours.has(called)) return null
    const asked = { id: toolCall.toolCallId, name: toolCall.toolName, arguments: toolCall.input, signal: abortSignal }
    throw new ToolFailed(await answered(calls, asked, { toolCallId: toolCall.toolCallId, messages, abortSignal }))
  }
}

/** A stopWhen that ends a run in which the model goes round in circles, when the sidecar says stop. Where it has not
 * answered, it throws the error. */
export const stopWhenTold: StopCondition<any, any> = ({ steps }) => {
  const errors = steps.at(-1)?.content.map((part) => ('error' in part ? part.error : undefined)) ?? []
  // What repairToolCall throws is the cause of an error of the SDK's.
  const found = errors.map((error) => (ToolCallRepairError.isInstance(error) ? error.cause : error))
  const missing = found.find((error) => error instanceof NoAnswer)
  if (missing !== undefined) throw missing.cause
  return found.some((error) => error instanceof ToolFailed && error.result.stop)
}

async function answered(calls: Calls<CallOf>, asked: Asked, of: CallOf, body?: Body): Promise<ExecuteToolResponse> {
  try {
    return await calls.run(asked, of, found(of), body)
  } catch (error) {
    throw asked.signal?.aborted ? error : new NoAnswer(error)
  }
}

function callsOf(client: Sidecall, options: VercelOptions): Calls<CallOf> {
  const { functions = {}, interruptHeld: _, ...rest } = object(options, 'options') as VercelOptions
  return new Calls<CallOf>(client, rest, undefined, Object.keys(object(functions, 'functions')))
}

/** A run with the history of those before it has more messages. One that goes on after an approval has the message itself
 * that made the call: it is found by the approval that stands last, as ids of calls may start again. */
function found({ messages, toolCallId }: CallOf): Found {
  const approved = new Set(partsOf(messages.at(-1)).map((part) => part.type === 'tool-approval-response' && part.approvalId))
  const made = messages.findIndex((message) =>
    partsOf(message).some((part) => part.type === 'tool-approval-request' && part.toolCallId === toolCallId && approved.has(part.approvalId)))
  const before = made < 0 ? messages : messages.slice(0, made)
  return { turnId: before.length, promptId: before.map((message) => message.role).lastIndexOf('user') }
}

const partsOf = (message: ModelMessage | undefined) =>
  ((message?.role === 'assistant' || message?.role === 'tool') && typeof message.content !== 'string' ? message.content : [])

type ToolResultOutput = Awaited<ReturnType<NonNullable<SidecallTool['toModelOutput']>>>

type Part = { type: 'text'; text: string } | { type: 'file'; mediaType: string; data: { type: 'data'; data: string } }

function output(result: ExecuteToolResponse): string | Part[] {
  if (result.isError) throw new ToolFailed(result)
  const words = texts(result, isPicture).join('\n\n')
  const seen = pictures(result, isPicture).map(({ type, data }): Part => ({ type: 'file', mediaType: type, data: { type: 'data', data } }))
  return seen.length > 0 ? [...(words ? [{ type: 'text' as const, text: words }] : []), ...seen] : words
}
