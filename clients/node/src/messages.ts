/** What goes to a provider, and what comes from it: the sidecar knows the formats, and these are their types. */
import { WrongMessage } from './errors.js'
import type { ExecuteToolResponse, RunMessageResponse } from './generated/messages.js'
import { jsonText, shown } from './request.js'

/** The wire formats of providers: Anthropic messages, Chat Completions, Responses. */
export type Format = 'anthropic' | 'openai' | 'openai-responses'

export const FORMATS: readonly Format[] = ['anthropic', 'openai', 'openai-responses']

export interface AnthropicText {
  type: 'text'
  text: string
}

export interface AnthropicImage {
  type: 'image'
  source: { type: 'base64'; media_type: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'; data: string }
}

export interface AnthropicDocument {
  type: 'document'
  source: { type: 'base64'; media_type: 'application/pdf'; data: string }
}

export type AnthropicBlock = AnthropicText | AnthropicImage | AnthropicDocument

/** The result of one call in an Anthropic message. */
export interface AnthropicToolResult {
  type: 'tool_result'
  tool_use_id: string
  content: string | AnthropicBlock[]
  is_error?: true
}

/** The one user message that answers an Anthropic message: a MessageParam. */
export interface AnthropicMessage {
  role: 'user'
  content: AnthropicToolResult[]
}

/** The result of one call for Chat Completions. */
export interface ChatToolMessage {
  role: 'tool'
  tool_call_id: string
  content: string
}

export type ChatPart = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } }

/** The message that has the pictures of the results before it, since a tool message has none. */
export interface ChatPictures {
  role: 'user'
  content: ChatPart[]
}

export type ChatMessage = ChatToolMessage | ChatPictures

export type ResponsesPart = { type: 'input_text'; text: string } | { type: 'input_image'; image_url: string }

/** The result of one call for Responses. */
export interface ResponsesItem {
  type: 'function_call_output'
  call_id: string
  output: string | ResponsesPart[]
}

export type Appended = AnthropicMessage | ChatMessage | ResponsesItem

/** What answers a message of this type. Where the type does not tell, any of them. */
export type AnswerTo<M> = unknown extends M ? Appended : M extends unknown ? AnswerToOne<keyof M> : never

/** By the fields that only one of the formats has. */
type AnswerToOne<Field> = Extract<Field, 'choices' | 'finish_reason' | 'tool_calls'> extends never
  ? 'output' extends Field
    ? ResponsesItem
    : 'stop_reason' extends Field
      ? AnthropicMessage
      : Appended
  : ChatMessage

/** A JSON Schema of a tool's arguments. */
export interface Schema {
  type: 'object'
  [keyword: string]: unknown
}

export interface AnthropicTool {
  name: string
  description: string
  input_schema: Schema
}

/** A function, as both APIs of OpenAI describe it. */
export interface FunctionDefinition {
  name: string
  description: string
  parameters: { [keyword: string]: unknown }
  strict: false
}

export interface ChatTool {
  type: 'function'
  function: FunctionDefinition
}

export interface ResponsesTool extends FunctionDefinition {
  type: 'function'
}

/** The tools of each format, as its tools parameter takes them. */
export interface ToolsOf {
  anthropic: AnthropicTool
  openai: ChatTool
  'openai-responses': ResponsesTool
}

/**
 * The messages to append after an assistant's message, in this order and before any other; none when it calls no tool.
 *
 *     messages.push(...(await sidecall.runTools(message, { conversationId })))
 */
export class ToolMessages<M = Appended> extends Array<M> {
  // Of no use to whoever maps them.
  static override get [Symbol.species](): ArrayConstructor {
    return Array
  }

  readonly #answer: Partial<RunMessageResponse>

  constructor(answer: Partial<RunMessageResponse> = {}) {
    super()
    for (const text of answer.messagesJson ?? []) this.push(JSON.parse(text) as M)
    this.#answer = answer
  }

  /** The results of the calls, in order. */
  get results(): readonly ExecuteToolResponse[] {
    return this.#answer.results ?? []
  }

  /** The loop has to end now: the model goes round in circles, and was told so. */
  get stop(): boolean {
    return this.#answer.stop ?? false
  }

  /** A person has to be asked before the model goes on. */
  get requireEscalation(): boolean {
    return this.#answer.requireEscalation ?? false
  }

  /** The results of the calls that wait for a person. To append any of the messages closes them: run the same message again
   * once they are decided. */
  get held(): readonly ExecuteToolResponse[] {
    return this.results.filter((r) => r.hold)
  }
}

/** Refuses what is no format. */
export function checkFormat(format: unknown): Format {
  if (FORMATS.includes(format as Format)) return format as Format
  throw new WrongMessage(`want a format of ${FORMATS.join(', ')}, got ${shown(format)}`)
}

/** What is given as plain data, without what is undefined: as it is sent to the provider. */
export function plain(of: unknown): unknown {
  return of === undefined ? undefined : JSON.parse(sent(of))
}

/** The JSON text of what a provider's SDK gave, or of the same as plain objects. */
export function sent(message: unknown): string {
  let text: string | undefined
  try {
    text = typeof message === 'string' ? message : JSON.stringify(message)
  } catch (error) {
    throw new WrongMessage(`want a message that JSON can hold: ${String(error instanceof Error ? error.message : error).split('\n', 1)[0]}`)
  }
  if (text === undefined) throw new WrongMessage(`want the message of an assistant, got ${shown(message)}`)
  return jsonText(text, 'message')
}
