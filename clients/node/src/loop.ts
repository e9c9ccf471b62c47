/** The loop around the calls: asks the model and runs its tools until it is done, or the sidecar says stop. */
import { randomUUID } from 'node:crypto'

import { MAX_MESSAGE_BYTES, MAX_RESPONSE_BYTES } from './channel.js'
import { Conversation, kept } from './conversation.js'
import { WrongField } from './errors.js'
import type { ExecuteToolResponse, ReadMessageResponse } from './generated/messages.js'
import { plain, sent, type ToolMessages } from './messages.js'
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
  /** Is given what was answered where calls wait for a person, waits, and says whether to make them again. Without it the
   * loop ends, and none of the answers is kept: one with keep goes on from there. */
  onHeld?: ((answered: ToolMessages) => boolean | Promise<boolean>) | undefined
  keep?: undefined
}

/** Those of a loop whose messages the sidecar keeps; conversationId is that of the conversation. */
export interface KeptLoopOptions extends Omit<LoopOptions, 'conversationId' | 'keep'> {
  keep: Conversation
  conversationId?: Id | undefined
}

/** Asks the model: is given all messages so far, and gives the provider's answer. */
export type Ask<M, A> = (messages: M[], wait: { signal?: AbortSignal }) => A | Promise<A>

/** Why a loop ended: end_turn; max_tokens or refusal, of the provider; loop_detected, when the sidecar said stop;
 * escalation, when a person has to be asked; held, when calls wait for one: what answers them is not among the messages;
 * budget_exceeded; max_turns. */
export type ExitReason = 'end_turn' | 'max_tokens' | 'refusal' | 'loop_detected' | 'escalation' | 'held' | 'budget_exceeded' | 'max_turns'

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
  read(messageJson: string, wait: Wait): Promise<ReadMessageResponse>
  /** What answers the calls has no more bytes than most. */
  run(messageJson: string, fields: Record<string, unknown>, wait: Wait, most: number): Promise<ToolMessages>
  endPrompt(request: { conversationId: string; promptId: string; profile: string; exitReason: string }): Promise<unknown>
}

/** Everything that a loop is told, checked before the model is asked for the first time. */
function begun(ask: unknown, messages: unknown, options: unknown) {
  if (typeof ask !== 'function') throw new WrongField('ask', `want a function, got ${shown(ask)}`)
  if (!Array.isArray(messages)) throw new WrongField('messages', `want an array of messages, got ${shown(messages)}`)
  const given = object(options ?? {}, 'options') as LoopOptions | KeptLoopOptions
  const { rpcTimeout, signal, maxTurns, onEscalation, onHeld, promptId, keep, ...fields } = given
  const shared = checked(fields, callFields)
  if (keep !== undefined) shared.conversationId = nameOf(keep, shared.conversationId)
  for (const own of ['toolUseId', 'toolName', 'argumentsJson', 'turnId', 'tokensUsed']) {
    if (own in shared) throw new WrongField(own, 'a loop says that itself')
  }
  if (shared.conversationId === undefined) throw new WrongField('conversationId', 'a loop needs one, or a conversation to keep')
  for (const [name, given] of Object.entries({ onEscalation, onHeld })) {
    if (given !== undefined && typeof given !== 'function') throw new WrongField(name, `want a function, got ${shown(given)}`)
  }
  return {
    fields: { ...shared, promptId: promptId === undefined || promptId === null ? randomUUID() : id(promptId, 'promptId') },
    wait: checked({ rpcTimeout, signal }, waitFields) as Wait,
    most: maxTurns === undefined ? MAX_TURNS : integer(1)(maxTurns, 'maxTurns'),
    onEscalation,
    onHeld,
    isNamed: promptId !== undefined && promptId !== null,
    keep: keep && kept(keep),
  }
}

function nameOf(keep: unknown, conversationId: unknown): string {
  if (!(keep instanceof Conversation)) throw new WrongField('keep', `want what conversation() gives, got ${shown(keep)}`)
  if (conversationId === undefined || conversationId === keep.id) return keep.id
  throw new WrongField('conversationId', `the conversation to keep is ${shown(keep.id)}, and this is ${shown(conversationId)}`)
}

type Begun = ReturnType<typeof begun>

export async function runLoop<M, A>(sidecar: Sidecar, ask: Ask<M, A>, messages: readonly M[], options: LoopOptions | KeptLoopOptions): Promise<Loop<M, A>> {
  const it = begun(ask, messages, options)
  const left = it.keep && (await untilDecided(() => it.keep!.resume(it.fields, it.wait), it))
  if (it.keep && left && left.held.length > 0) {
    const { promptId } = it.keep
    return { messages: it.keep.texts.map((text) => JSON.parse(text) as M), exitReason: 'held', message: undefined as A, promptId, turns: 0, tokens: 0, results: left.results }
  }
  const all = it.keep ? await it.keep.begin(messages, it.fields, it.isNamed, it.wait) : plain(messages)
  if (it.keep) it.fields.promptId = it.keep.promptId
  const { promptId, ...shared } = it.fields as { promptId: string; conversationId?: string; profile?: string }
  const loop: Loop<M, A> = {
    messages: all as M[], exitReason: 'max_turns', message: undefined as A, promptId, turns: 0, tokens: 0, results: [],
  }
  if (messages.length === 0 && it.keep?.hasEnded()) return { ...loop, exitReason: 'end_turn' }
  let exitReason: string = 'error'
  try {
    loop.exitReason = await turns(sidecar, loop, ask, it)
    exitReason = loop.exitReason
    return loop
  } catch (error) {
    if (it.wait.signal?.aborted) exitReason = 'cancelled'
    throw error
  } finally {
    // It is for the figures alone, and the prompt ends by itself later. One that waits for a person has not ended.
    if (exitReason !== 'held') await sidecar.endPrompt({ conversationId: shared.conversationId!, promptId, profile: shared.profile ?? '', exitReason }).catch(() => {})
  }
}

async function turns<M, A>(sidecar: Sidecar, loop: Loop<M, A>, ask: Ask<M, A>, it: Begun): Promise<ExitReason> {
  const { signal } = it.wait
  let toldToWrapUp = false
  while (loop.turns < it.most) {
    signal?.throwIfAborted()
    loop.message = await ask([...loop.messages], signal === undefined ? {} : { signal })
    loop.turns++
    const text = sent(loop.message)
    const turn = await sidecar.read(text, it.wait)
    loop.tokens += turn.tokens
    const of = told(turn, loop)
    const run = () => sidecar.run(text, { ...it.fields, ...of }, it.wait, it.keep ? MAX_MESSAGE_BYTES : MAX_RESPONSE_BYTES)
    // Calls of a message that was cut are not run, and have their answers with them: whoever goes on would run them. The
    // others are kept before anything is run: whoever goes on finds what became of them.
    const cut = turn.cut && turn.calls > 0 ? await run() : undefined
    const own = turn.messagesJson.map((one) => JSON.parse(one) as unknown)
    await add(loop, [...own, ...(cut ?? [])], it, of.turnId, cut === undefined && turn.calls > 0)
    if (turn.calls === 0) return turn.exitReason as ExitReason
    const answered = cut ?? (await untilDecided(run, it))
    loop.results = answered.results
    if (answered.held.length > 0) return 'held' // what answers a held call closes it
    if (cut === undefined) await add(loop, answered, it)
    if (answered.stop) return 'loop_detected'
    const spent = answered.results.every((r) => r.error?.code === 'BUDGET_EXCEEDED')
    if (spent && toldToWrapUp) return 'budget_exceeded'
    toldToWrapUp ||= spent
    if (answered.requireEscalation && !(await it.onEscalation?.(answered))) return 'escalation'
  }
  return 'max_turns'
}

/** Runs calls, and once more whenever onHeld says so, until none waits for a person. */
async function untilDecided(run: () => Promise<ToolMessages>, it: Begun): Promise<ToolMessages> {
  for (;;) {
    const answered = await run()
    if (answered.held.length === 0 || !(await it.onHeld?.(answered))) return answered
  }
}

/** Takes in messages, once they are kept. */
async function add<M>(loop: Loop<M>, messages: readonly unknown[], it: Begun, turnId = '', isOpen = false): Promise<void> {
  const taken = it.keep ? await it.keep.append(messages, it.wait, turnId, isOpen) : messages
  for (const message of taken) loop.messages.push(message as M)
}

/** What tells one turn's calls from another's. A message without an id is known by its place among all messages: its
 * calls may have the ids of an earlier one's, and a loop that is begun again with the same messages finds it there. */
function told(turn: ReadMessageResponse, loop: Loop): { turnId: string; tokensUsed?: number } {
  const turnId = turn.id || `${loop.promptId}/${loop.messages.length}`
  return loop.tokens > 0 ? { turnId, tokensUsed: loop.tokens } : { turnId }
}
