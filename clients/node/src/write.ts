/**
 * Makes of the results of a turn's calls the messages that are to be appended; nothing else
 * may come in between:
 *
 *     anthropic         one user message, its tool_result blocks first and in order
 *     openai            one tool message per call, then, when there are pictures, a user
 *                       message that has them
 *     openai-responses  one function_call_output item per call
 */
import { BrokenAnswer, WrongMessage } from './errors.js'
import type { ExecuteToolResponse, Recovery, Tool, ToolError } from './generated/messages.js'
import { FORMATS, ToolMessages } from './messages.js'
import type {
  AnthropicBlock, AnthropicMessage, AnthropicToolResult, Appended, ChatMessage, ChatPart, Format, ResponsesItem, ResponsesPart, Schema,
  ToolsOf, Turn,
} from './messages.js'
import { shown } from './request.js'

/** What is to be appended for the results of a turn's calls. */
export function answers(turn: Turn, results: readonly ExecuteToolResponse[]): ToolMessages {
  if (results.length === 0) return new ToolMessages()
  const make = { anthropic: toAnthropic, openai: toOpenAI, 'openai-responses': toResponses }[turn.format]
  return new ToolMessages<Appended>(make(results), results)
}

/** The results of the calls of a message that was cut: none of them is run, as nobody knows whether it is what the model
 * meant. */
export function notRun(turn: Turn): ExecuteToolResponse[] {
  const error: ToolError = {
    code: 'CANCELLED',
    field: '',
    constraint: `the message ends early (${turn.cut}), so its calls may be incomplete`,
    received: '',
    hint: 'Nothing was run. Make the calls again, fewer of them or with shorter arguments in one message.',
  }
  return turn.calls.map(({ toolUseId }) => refused(toolUseId, 'RECOVERY_CLASS_TRANSIENT', error))
}

/** The result of a call that no request can hold: the sidecar has not even read it. */
export function tooLarge(call: { toolUseId?: string; toolName?: string; argumentsJson?: string }, most: string): ExecuteToolResponse {
  return refused(call.toolUseId ?? '', 'RECOVERY_CLASS_MALFORMED', {
    code: 'INVALID_ARGS',
    field: '',
    constraint: `a call has at most ${most} bytes (limits.max_request_bytes)`,
    received: `(${Buffer.byteLength(call.argumentsJson ?? '')} bytes of arguments)`,
    hint: `Nothing was run. Shorten the arguments, or split them, then call ${call.toolName} again: once for each part.`,
  })
}

/** A result that does not come from the sidecar, of a call that the model may make otherwise. */
function refused(toolUseId: string, recoveryClass: Recovery['class'], error: ToolError): ExecuteToolResponse {
  return {
    toolUseId, outcome: 'OUTCOME_ERROR', isError: true, content: JSON.stringify(error), error, violations: [error],
    recovery: {
      class: recoveryClass, retryable: true, retriesExhausted: false, retryAfter: null, allowedAlternatives: [], attempts: 0,
      context: '', suggestedArgumentsJson: '', suggestedToolName: '', requireEscalation: false,
    },
    replayed: false, recorded: false, items: [], truncation: null, budget: null, structuredContentJson: '', structuredOutputRef: '',
    duration: null, blocks: [], notices: [], resolution: null, stop: false, loop: null, earlier: null, traceparent: '',
  }
}

/** Refuses what is no format. */
export function checkFormat(format: unknown): Format {
  if (FORMATS.includes(format as Format)) return format as Format
  throw new WrongMessage(`want a format of ${FORMATS.join(', ')}, got ${shown(format)}`)
}

/** The tools as a provider takes them in its tools parameter. */
export function tools<F extends Format>(listed: readonly Tool[], format: F): ToolsOf[F][] {
  return listed.map((tool) => described(tool, format) as ToolsOf[F])
}

function described(tool: Tool, format: Format): ToolsOf[Format] {
  const about = { name: tool.name, description: tool.description }
  const schema = schemaOf(tool)
  if (format === 'anthropic') return { ...about, input_schema: schema }
  // Schemas of tools are not written for a provider's strict mode.
  const definition = { ...about, parameters: schema, strict: false } as const
  return format === 'openai' ? { type: 'function', function: definition } : { type: 'function', ...definition }
}

function schemaOf(tool: Tool): Schema {
  try {
    return JSON.parse(tool.inputSchemaJson) as Schema
  } catch {
    throw new BrokenAnswer(`the schema of the tool ${tool.name} is no JSON`)
  }
}

const pictureTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const

type PictureType = (typeof pictureTypes)[number]

export const isPicture = (type: string): type is PictureType => pictureTypes.includes(type as PictureType)

/** A document too may stand in a tool_result. */
const isShownByAnthropic = (type: string): type is PictureType | 'application/pdf' => isPicture(type) || type === 'application/pdf'

/** All that a result has in words: its content word for word, then what was tried before it, what is to be noticed, and
 * blocks that are text or cannot be shown. */
export function texts(result: ExecuteToolResponse, isShown: (type: string) => boolean): string[] {
  const words = [result.content, result.recovery?.context ?? '', ...result.notices]
  for (const block of result.blocks) {
    if (block.data.length > 0 && isShown(block.mimeType)) continue
    if (block.text) words.push(block.uri ? `${block.uri}\n${block.text}` : block.text)
    else if (block.type === 'resource_link') words.push(`${block.name} ${block.uri}`.trim())
    // Of one with a handle the notices speak.
    else if (!block.outputRef) words.push(`(${block.type} of ${block.mimeType || 'unknown type'}, ${block.size} bytes: it cannot be shown here)`)
  }
  return words.filter((word) => word !== '')
}

/** The blocks of a result that can be shown, as base64. */
export function pictures<T extends string>(result: ExecuteToolResponse, isShown: (type: string) => type is T): { type: T; data: string }[] {
  return result.blocks.flatMap(({ data, mimeType }) => (data.length > 0 && isShown(mimeType) ? [{ type: mimeType, data: data.toString('base64') }] : []))
}

function toAnthropic(results: readonly ExecuteToolResponse[]): AnthropicMessage[] {
  return [{ role: 'user', content: results.map(toolResult) }]
}

export function toolResult(result: ExecuteToolResponse): AnthropicToolResult {
  const words = texts(result, isShownByAnthropic)
  const blocks: AnthropicBlock[] = words.map((text) => ({ type: 'text', text }))
  for (const { type, data } of pictures(result, isShownByAnthropic)) {
    blocks.push(type === 'application/pdf'
      ? { type: 'document', source: { type: 'base64', media_type: type, data } }
      : { type: 'image', source: { type: 'base64', media_type: type, data } })
  }
  const isContentAlone = blocks.length === 0 || (blocks.length === 1 && words[0] === result.content)
  return {
    type: 'tool_result',
    tool_use_id: result.toolUseId,
    content: isContentAlone ? result.content : blocks,
    ...(result.isError ? { is_error: true as const } : {}),
  }
}

const url = ({ type, data }: { type: string; data: string }) => `data:${type};base64,${data}`

function toOpenAI(results: readonly ExecuteToolResponse[]): ChatMessage[] {
  // As one text: not every server that speaks this format takes a list.
  const messages = results.map((r): ChatMessage => ({ role: 'tool', tool_call_id: r.toolUseId, content: texts(r, isPicture).join('\n\n') }))
  const seen = results.flatMap((result): ChatPart[] => {
    const found = pictures(result, isPicture).map((picture): ChatPart => ({ type: 'image_url', image_url: { url: url(picture) } }))
    return found.length > 0 ? [{ type: 'text', text: `Returned by ${result.toolUseId}:` }, ...found] : []
  })
  return seen.length > 0 ? [...messages, { role: 'user', content: seen }] : messages // a tool message has none
}

function toResponses(results: readonly ExecuteToolResponse[]): ResponsesItem[] {
  return results.map((result) => {
    const words = texts(result, isPicture)
    const seen = pictures(result, isPicture).map((picture): ResponsesPart => ({ type: 'input_image', image_url: url(picture) }))
    const said = words.map((text): ResponsesPart => ({ type: 'input_text', text }))
    return { type: 'function_call_output', call_id: result.toolUseId, output: seen.length > 0 ? [...said, ...seen] : words.join('\n\n') }
  })
}
