// What a program may write: this has to compile under --strict.
import {
  Failure, LaunchFailed, Reply, Sidecall, status, ToolMessages, WorkerRefused, WrongField,
  type Call, type Context, type Conversation, type ExecuteToolResponse, type Loop, type Recovery, type ServiceError, type Tool, type ToolError, type Work,
} from '@sidecall/client'
import { z } from 'zod'

// As the providers' SDKs have them, as far as it matters here.
type MessageParam = { role: 'user' | 'assistant'; content: string | ContentBlockParam[] }
type ContentBlockParam =
  | { type: 'text'; text: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown }
  | { type: 'tool_result'; tool_use_id: string; content?: string | ResultBlock[]; is_error?: boolean }
type ResultBlock =
  | { type: 'text'; text: string }
  | { type: 'image'; source: { type: 'base64'; data: string; media_type: 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp' } }
  | { type: 'document'; source: { type: 'base64'; data: string; media_type: 'application/pdf' } }
interface AnthropicSays { id: string; type: 'message'; role: 'assistant'; stop_reason: string | null; content: ContentBlockParam[] }
interface AnthropicTool { name: string; description?: string; input_schema: { type: 'object'; properties?: unknown; [k: string]: unknown } }
interface ChatSays { role: 'assistant'; content: string | null; tool_calls?: object[] }
interface Completion { id: string; choices: [{ message: ChatSays; finish_reason: string }] }
type ChatParam = { role: 'tool'; tool_call_id: string; content: string } | { role: 'user'; content: string | object[] }
interface Response { id: string; object: 'response'; output: object[] }
type Item = { type: 'function_call_output'; call_id: string; output: string | object[] }

export async function agent(anthropic: (tools: AnthropicTool[], messages: MessageParam[]) => Promise<AnthropicSays>): Promise<string> {
  await using sidecall = await Sidecall.launch({ store: { memory: {} } }, { binary: '/usr/bin/sidecall', env: { A: '1' }, log: console.error })
  const messages: MessageParam[] = [{ role: 'user', content: await sidecall.instructions() }]
  const message = await anthropic(await sidecall.tools('anthropic'), messages)
  const answers = await sidecall.runTools(message, { conversationId: 'c', turnId: 1, promptId: 2n, signal: AbortSignal.timeout(1000) })
  messages.push(...answers)
  const loop: Loop<MessageParam, AnthropicSays> = await sidecall.runLoop(
    async (seen, { signal }) => (signal?.throwIfAborted(), anthropic([], seen)), messages,
    { conversationId: 'c', maxTurns: 5, onEscalation: (answered) => answered.results.length > 0 })
  return `${loop.exitReason} ${loop.message.id} ${answers.stop} ${answers.requireEscalation}`
}

export async function others(sidecall: Sidecall, completion: Completion, response: Response, any: any): Promise<void> {
  const chat: ChatParam[] = await sidecall.runTools(completion, { conversationId: 'c' })
  const [choice] = completion.choices
  chat.push(...(await sidecall.runTools(choice, { conversationId: 'c', turnId: 1 })), ...(await sidecall.runTools(choice.message, { conversationId: 'c', turnId: 2 })))
  const items: Item[] = await sidecall.runTools(response, { conversationId: 'c' })
  const known: ToolMessages = await sidecall.runTools(any, { conversationId: 'c' })
  const [tool] = await sidecall.tools('openai', { profile: 'code' })
  const name: string | undefined = tool?.function.name
  const [other] = await sidecall.tools('openai-responses')
  const same: 'function' | undefined = other?.type
  console.log(chat, items, known, name, same)
}

export async function kept(sidecall: Sidecall, message: AnthropicSays): Promise<void> {
  const conversation: Conversation = await sidecall.conversation('c', 'anthropic', { rpcTimeout: 1000 })
  await conversation.append([message, '{"role":"user","content":"Go on."}'], { turnId: message.id })
  const answers: ToolMessages = await conversation.resume({ promptId: 'p', signal: AbortSignal.timeout(1000) })
  const loop = await sidecall.runLoop(() => message, [], { keep: conversation, maxTurns: 5 })
  console.log(answers.results, loop.exitReason, conversation.texts[0]?.length, conversation.pending[0]?.state === 'PENDING_DONE')
}

export async function results(sidecall: Sidecall): Promise<void> {
  const call: Call = { toolUseId: 'toolu_1', toolName: 'get_order', argumentsJson: '{}' }
  const [result] = await sidecall.executeTools([call], { conversationId: 'c', timeout: { seconds: 5 } }, { rpcTimeout: 1000 })
  const one: ExecuteToolResponse | undefined = result
  const error: ToolError | null | undefined = one?.error
  const recovery: Recovery | null | undefined = one?.recovery
  const tools: Tool[] = await sidecall.listTools('code')
  console.log(error?.hint, recovery?.retryAfter?.seconds, tools[0]?.effect === 'EFFECT_READ_ONLY')
  sidecall.stub.getExecution({ conversationId: 'c', toolUseId: 'toolu_1' }, (_, execution) => console.log(execution?.state === 'EXECUTION_STATE_DONE'))
}

export function handled(error: unknown): string {
  if (error instanceof WrongField) return error.field
  if (error instanceof LaunchFailed) return error.message
  return (error as ServiceError).code === status.UNAVAILABLE ? 'away' : 'unknown'
}

export async function own(sidecall: Sidecall): Promise<Work> {
  const input = z.object({ cents: z.int(), how: z.enum(['cash', 'card']).default('cash') })
  sidecall.tool({ name: 'pay', effect: 'keyed', input }, async ({ cents, how }, { idempotencyKey, signal, deadline }) => {
    signal.throwIfAborted()
    const left: number | undefined = deadline
    return new Reply(`${how.toUpperCase()} ${idempotencyKey}`, { structured: { cents: cents.toFixed(), left } })
  })
  sidecall.tool({ name: 'look', input: { type: 'object', properties: { at: { type: 'string' } } } }, ({ at }) => (typeof at === 'string' ? at : null))
  sidecall.tool({ name: 'now' }, (_, context: Context) => (context.progress('now'), Date.now()))
  sidecall.tool({ name: 'fail' }, () => { throw new Failure('not now', { notRun: true }) })
  const work = await sidecall.work({ name: 'desk', maxInFlight: 4 })
  const name: string | undefined = work.names.get('pay')
  await work.ended.catch((error: unknown) => error instanceof WorkerRefused && error.code === status.NOT_FOUND && name)
  return work
}
