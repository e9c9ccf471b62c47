/** The loop around the calls: asks the model and runs its tools until it is done, or the sidecar says stop. */
import { randomUUID } from 'node:crypto'

import { WrongField } from './errors.js'
import type { ExecuteToolResponse } from './generated/messages.js'
import type { ToolMessages, Turn } from './messages.js'
import { plain, read } from './read.js'
import { callFields, checked, id, integer, object, shown, waitFields, type Fields, type Id, type Wait } from './request.js'

/** The turns of a loop that sets no other limit. */
export const MAX_TURNS = 200

/** The calls of a loop: what they share, and when it ends. */
export interface LoopOptions extends Omit<Fields, 'conversationId' | 'turnId' | 'tokensUsed'>, Wait {
  conversationId: Id
  /** How often the model is asked at most; 200 unless it is given. */
  maxTurns?: number | undefined
  /** Is given what the tools answered where a person has to be asked before the model goes on, and says whether it may.
   * Without it the loop ends there. */
  onEscalation?: ((answered: ToolMessages) => boolean | Promise<boolean>) | undefined
}

/** Asks the model: is given all messages so far, and gives the provider's answer. */
export type Ask<M, A> = (messages: M[], wait: { signal?: AbortSignal }) => A | Promise<A>

/** Why a loop ended: end_turn; max_tokens or refusal, of the provider; loop_detected, when the sidecar said stop;
 * escalation, when a person has to be asked; budget_exceeded; max_turns. */
export type ExitReason = 'end_turn' | 'max_tokens' | 'refusal' | 'loop_detected' | 'escalation' | 'budget_exceeded' | 'max_turns'

/** How a loop has ended. */
export interface Loop<M = unknown, A = unknown> {
  /** All messages: those that it was given, and what came to them. */
  messages: M[]
  exitReason: ExitReason
  /** The last message of the model, as the provider's SDK gave it. */
  message: A
  /** The prompt that the calls belong to. */
  promptId: string
  /** How often the model was asked. */
  turns: number
  /** Tokens that it used, as far as the provider says. */
  tokens: number
  /** The results of the last turn that called tools. */
  results: readonly ExecuteToolResponse[]
}

/** What a loop needs of a sidecar. */
export interface Sidecar {
  run(turn: Turn, fields: Record<string, unknown>, wait: Wait): Promise<ToolMessages>
  endPrompt(request: { conversationId: string; promptId: string; profile: string; exitReason: string }): Promise<unknown>
}

/** What a provider calls the end of a message, as an exit reason. */
const reasons: Record<string, ExitReason> = {
  max_tokens: 'max_tokens', length: 'max_tokens', max_output_tokens: 'max_tokens', model_context_window_exceeded: 'max_tokens',
  refusal: 'refusal', content_filter: 'refusal',
}

/** Everything that a loop is told, checked before the model is asked for the first time. */
function begun(ask: unknown, messages: unknown, options: unknown) {
  if (typeof ask !== 'function') throw new WrongField('ask', `want a function, got ${shown(ask)}`)
  if (!Array.isArray(messages)) throw new WrongField('messages', `want an array of messages, got ${shown(messages)}`)
  const { rpcTimeout, signal, maxTurns, onEscalation, promptId, ...fields } = object(options ?? {}, 'options') as LoopOptions
  const shared = checked(fields, callFields)
  for (const own of ['toolUseId', 'toolName', 'argumentsJson', 'turnId', 'tokensUsed']) {
    if (own in shared) throw new WrongField(own, 'a loop says that itself')
  }
  if (shared.conversationId === undefined) throw new WrongField('conversationId', 'a loop needs one')
  if (onEscalation !== undefined && typeof onEscalation !== 'function') {
    throw new WrongField('onEscalation', `want a function, got ${shown(onEscalation)}`)
  }
  return {
    fields: { ...shared, promptId: promptId === undefined || promptId === null ? randomUUID() : id(promptId, 'promptId') },
    wait: checked({ rpcTimeout, signal }, waitFields) as Wait,
    most: maxTurns === undefined ? MAX_TURNS : integer(1)(maxTurns, 'maxTurns'),
    onEscalation,
  }
}

type Begun = ReturnType<typeof begun>

export async function runLoop<M, A>(sidecar: Sidecar, ask: Ask<M, A>, messages: readonly M[], options: LoopOptions): Promise<Loop<M, A>> {
  const it = begun(ask, messages, options)
  const { promptId, ...shared } = it.fields as { promptId: string; conversationId?: string; profile?: string }
  const loop: Loop<M, A> = {
    messages: plain(messages) as M[], exitReason: 'max_turns', message: undefined as A, promptId, turns: 0, tokens: 0, results: [],
  }
  let exitReason: string = 'error'
  try {
    loop.exitReason = await turns(sidecar, loop, ask, it)
    exitReason = loop.exitReason
    return loop
  } catch (error) {
    if (it.wait.signal?.aborted) exitReason = 'cancelled'
    throw error
  } finally {
    // It is for the figures alone, and the prompt ends by itself later.
    await sidecar.endPrompt({ conversationId: shared.conversationId!, promptId, profile: shared.profile ?? '', exitReason }).catch(() => {})
  }
}

async function turns<M, A>(sidecar: Sidecar, loop: Loop<M, A>, ask: Ask<M, A>, it: Begun): Promise<ExitReason> {
  const { signal } = it.wait
  let toldToWrapUp = false
  while (loop.turns < it.most) {
    signal?.throwIfAborted()
    loop.message = await ask([...loop.messages], signal === undefined ? {} : { signal })
    loop.turns++
    const turn = read(loop.message)
    loop.tokens += turn.tokens
    const place = loop.messages.push(...(turn.messages as M[])) - turn.messages.length
    if (turn.calls.length === 0) return reasons[turn.reason] ?? 'end_turn'
    const answered = await sidecar.run(turn, { ...it.fields, ...told(turn, place, loop) }, it.wait)
    loop.messages.push(...(answered as unknown as M[]))
    loop.results = answered.results
    if (answered.stop) return 'loop_detected'
    if (answered.requireEscalation && !(await it.onEscalation?.(answered))) return 'escalation'
    const spent = answered.results.every((r) => r.error?.code === 'BUDGET_EXCEEDED')
    if (spent && toldToWrapUp) return 'budget_exceeded'
    toldToWrapUp ||= spent
  }
  return 'max_turns'
}

/** What tells one turn's calls from another's. A message without an id is known by its place among all messages: its
 * calls may have the ids of an earlier one's, and a loop that is begun again with the same messages finds it there. */
function told(turn: Turn, place: number, loop: Loop): { turnId: string; tokensUsed?: number } {
  const turnId = turn.id || `${loop.promptId}/${place}`
  return loop.tokens > 0 ? { turnId, tokensUsed: loop.tokens } : { turnId }
}
