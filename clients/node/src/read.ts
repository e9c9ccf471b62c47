/**
 * Reads what an assistant's message asks for. Tools that the provider runs itself
 * (server_tool_use, web_search_call) are left alone: it has answered them.
 */
import { WrongMessage } from './errors.js'
import type { Turn } from './messages.js'

/** The calls in an assistant's message: what the provider's SDK gives, or the same as plain objects. */
export function read(message: unknown): Turn {
  if (set(message, 'choices')) return ofCompletion(message)
  if (set(message, 'message') && get(message, 'finish_reason') !== undefined) return ofChoice(message, '', 0)
  if (get(message, 'object') === 'response' || Array.isArray(get(message, 'output'))) return ofResponse(message)
  ofAssistant(message)
  return isAnthropic(message) ? ofAnthropic(message) : ofChoice({ message }, '', 0)
}

/** What is given as plain data, without what is undefined: as it is sent to the provider. */
export function plain(of: unknown): unknown {
  if (of === undefined) return undefined
  try {
    return JSON.parse(JSON.stringify(of))
  } catch (error) {
    throw new WrongMessage(`want a message that JSON can hold: ${firstLine(error)}`)
  }
}

/** A field of an object; undefined of what is none. */
function get(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? (of as Record<string, unknown>)[name] : undefined
}

function set(of: unknown, name: string): boolean {
  const value = get(of, name)
  return value !== undefined && value !== null
}

function list(of: unknown, name: string): unknown[] {
  const value = get(of, name)
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new WrongMessage(`want an array in ${name}, got ${named(value)}`)
  return value
}

function text(of: unknown, name: string): string {
  const value = get(of, name)
  return typeof value === 'string' ? value : ''
}

function count(usage: unknown, ...names: string[]): number {
  const numbers = names.map((name) => get(usage, name))
  return numbers.reduce<number>((sum, n) => (typeof n === 'number' && Number.isSafeInteger(n) && n > 0 ? sum + n : sum), 0)
}

function named(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return 'an array'
  if (typeof value !== 'object') return `a ${typeof value}`
  return `an object of ${Object.keys(value).sort().slice(0, 6).join(', ') || 'nothing'}`
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0]!
}

function ofAssistant(message: unknown): void {
  const role = get(message, 'role')
  if (role === 'assistant') return
  throw new WrongMessage(`want the message of an assistant, got ${typeof role === 'string' ? `one of role '${role}'` : named(message)}`)
}

const ofAnthropicAlone = new Set([
  'tool_use', 'thinking', 'redacted_thinking', 'server_tool_use', 'web_search_tool_result', 'mcp_tool_use',
])

function isAnthropic(message: unknown): boolean {
  if (set(message, 'tool_calls')) return false
  if (get(message, 'type') === 'message' || set(message, 'stop_reason')) return true
  const content = get(message, 'content')
  return Array.isArray(content) && (content.length === 0 || content.some((block) => ofAnthropicAlone.has(text(block, 'type'))))
}

const cutOfAnthropic = new Set(['max_tokens', 'model_context_window_exceeded', 'refusal'])

function ofAnthropic(message: unknown): Turn {
  const content = get(message, 'content')
  const blocks = typeof content === 'string' ? [] : list(message, 'content')
  const reason = text(message, 'stop_reason')
  return {
    format: 'anthropic',
    calls: blocks.filter((block) => get(block, 'type') === 'tool_use').map((block) => call(block, 'id', block, 'input')),
    id: text(message, 'id'),
    cut: cutOfAnthropic.has(reason) ? reason : '',
    reason,
    tokens: count(get(message, 'usage'), 'input_tokens', 'output_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'),
    messages: [{ role: 'assistant', content: plain(content) }],
  }
}

/** One call: its id is a field of one object, its name and arguments are of another. */
function call(of: unknown, idName: string, by: unknown, input: string): Turn['calls'][number] {
  const toolUseId = get(of, idName) ?? ''
  if (typeof toolUseId !== 'string') throw new WrongMessage(`want a text as the id of a call, got ${named(toolUseId)}`)
  return { toolUseId, toolName: text(by, 'name'), argumentsJson: argumentsOf(get(by, input)) }
}

/** Arguments that are no object are for the sidecar to find fault with. */
function argumentsOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  try {
    return JSON.stringify(value) ?? ''
  } catch (error) {
    throw new WrongMessage(`want arguments that JSON can hold: ${firstLine(error)}`)
  }
}

function ofCompletion(completion: unknown): Turn {
  const [choice] = list(completion, 'choices')
  if (choice === undefined) throw new WrongMessage('want a completion with a choice, got none')
  return ofChoice(choice, text(completion, 'id'), count(get(completion, 'usage'), 'total_tokens'))
}

const notAFunction = (type: unknown) => new WrongMessage(`want calls of functions, got one of type '${String(type)}', which is for the program to run`)

function ofChoice(choice: unknown, id: string, tokens: number): Turn {
  const message = get(choice, 'message')
  ofAssistant(message)
  const reason = text(choice, 'finish_reason')
  return {
    format: 'openai',
    calls: list(message, 'tool_calls').map((one) => {
      if (!set(one, 'function')) throw notAFunction(get(one, 'type'))
      return call(one, 'id', get(one, 'function'), 'arguments')
    }),
    id,
    cut: reason === 'length' || reason === 'content_filter' ? reason : '',
    reason,
    tokens,
    messages: [plain(message)],
  }
}

function ofResponse(response: unknown): Turn {
  const items = list(response, 'output')
  const custom = items.find((item) => get(item, 'type') === 'custom_tool_call')
  if (custom !== undefined) throw notAFunction('custom_tool_call')
  const calls = items.filter((item) => get(item, 'type') === 'function_call')
  let cut = ''
  if (get(response, 'status') === 'incomplete') cut = text(get(response, 'incomplete_details'), 'reason') || 'incomplete'
  else if (calls.some((item) => get(item, 'status') === 'incomplete')) cut = 'incomplete'
  return {
    format: 'openai-responses',
    calls: calls.map((item) => call(item, 'call_id', item, 'arguments')),
    id: text(response, 'id'),
    cut,
    reason: cut || text(response, 'status'),
    tokens: count(get(response, 'usage'), 'total_tokens'),
    messages: items.map(plain),
  }
}
