/** Conversations that the sidecar keeps, so that another process can go on with one. */
import { randomUUID } from 'node:crypto'

import { status, type ServiceError } from '@grpc/grpc-js'

import { MAX_MESSAGE_BYTES } from './channel.js'
import { BrokenAnswer, StaleConversation, WrongField } from './errors.js'
import type { PendingCall, ResumeConversationResponse } from './generated/messages.js'
import { checkFormat, ToolMessages, type Format } from './messages.js'
import { callFields, checked, id, integer, jsonText, object, shown, waitFields, type Checks, type Fields, type Id, type Wait } from './request.js'

/** The trailing metadata that tells the version of a conversation to whom had another. */
const VERSION = 'sidecall-conversation-version'

/** What the calls of a conversation share when they are made again. */
export type ResumeOptions = Omit<Fields, 'conversationId' | 'turnId'> & Wait

/** Which results of tools are left out of a conversation that is loaded. Each becomes one line with its output_ref, by which
 * read_output returns it; those of the last turn stay, and what the sidecar keeps stays whole. */
export interface Compaction {
  /** Those that are older than the last so many turns; 0 is no bound. */
  compactAfterTurns?: number
  /** The oldest ones, until there are about so many tokens; 0 is no bound. */
  compactToTokens?: number
}

export const compactionFields: Checks = { compactAfterTurns: integer(0, 2 ** 31 - 1), compactToTokens: integer(0) }

/** What a conversation needs of a sidecar; both are asked again while it is away. */
export interface Keeper {
  ask(method: 'appendMessages' | 'loadConversation' | 'resumeConversation', request: object, wait: Wait): Promise<unknown>
  runOpen(openAtVersion: number, fields: Record<string, unknown>, wait: Wait): Promise<ToolMessages>
}

/** What a loop does with its conversation. */
let keptOf: (conversation: Conversation) => Kept
export const kept = (conversation: Conversation): Kept => keptOf(conversation)

/** One that the sidecar keeps; Sidecall.conversation loads it. One thing at a time is to be asked of it. When two processes
 * append to the same one, the second is told by StaleConversation. */
export class Conversation {
  static {
    keptOf = (conversation) => conversation.#kept
  }

  readonly #kept: Kept

  constructor(kept: Kept) {
    this.#kept = kept
  }

  /** What names it. */
  get id(): string {
    return this.#kept.id
  }

  /** Whose array its messages are. */
  get provider(): Format {
    return this.#kept.provider
  }

  /** The messages, each the JSON text that was appended, byte for byte but for results that are left out. */
  get texts(): readonly string[] {
    return this.#kept.texts
  }

  /** The messages, as a provider's SDK takes them. */
  get messages(): unknown[] {
    return this.#kept.texts.map((text) => JSON.parse(text) as unknown)
  }

  /** How many messages it has. */
  get version(): number {
    return this.#kept.texts.length
  }

  /** The prompt that the last messages belong to. */
  get promptId(): string {
    return this.#kept.promptId
  }

  /** The calls in it that had no result when it was loaded, and what had become of each. */
  get pending(): readonly PendingCall[] {
    return this.#kept.pending
  }

  /**
   * Keeps messages, all or none. While the sidecar is away, they are sent again, for the client's patience: what was kept
   * then is not kept twice. StaleConversation: somebody else has appended, or has run a call that the messages say was not
   * run.
   * @param messages What the provider's SDK takes or gives, or JSON texts. Each is written as JSON once, and is this text
   *   from then on.
   * @param options turnId is that of the calls in the messages, which are made after this and not before; promptId is the
   *   prompt that they belong to, where a message of the user begins another.
   */
  async append(messages: readonly unknown[], options: { turnId?: Id; promptId?: Id } & Wait = {}): Promise<void> {
    const { turnId, promptId, ...wait } = checked(object(options, 'options'), { turnId: id, promptId: id, ...waitFields }) as Wait & Record<'turnId' | 'promptId', string | undefined>
    if (!Array.isArray(messages)) throw new WrongField('messages', `want an array of messages, got ${shown(messages)}`)
    if (promptId !== undefined) this.#kept.promptId = promptId
    await this.#kept.append(messages, wait, turnId, !!turnId || this.pending.length > 0)
  }

  /**
   * Makes the calls that have no result, with the ids that they had: what is done is replayed, and nothing runs twice. What
   * answers them is appended and given back; it is empty where every call has its result. Where one of them waits for a
   * person (held) nothing is appended: resume once more when it is decided. After an error or a
   * StaleConversation it loads what there is first.
   * @param options The prompt is the calls' own where they have one.
   */
  async resume(options: ResumeOptions = {}): Promise<ToolMessages> {
    const { rpcTimeout, signal, ...fields } = object(options, 'options') as ResumeOptions
    for (const own of ['conversationId', 'turnId']) {
      if (own in fields) throw new WrongField(own, 'the conversation says that itself')
    }
    return this.#kept.resume(checked(fields, callFields), checked({ rpcTimeout, signal }, waitFields) as Wait)
  }
}

/** A conversation as it was when this process saw it last. */
export class Kept {
  readonly id: string
  readonly provider: Format
  texts: string[] = []
  pending: readonly PendingCall[] = []
  promptId = ''
  readonly #keeper: Keeper
  /** What is left out when it is loaded. */
  readonly #leaves: Compaction
  /** There may be more in it than this process knows, or calls without a result. */
  #unsure = false

  constructor(keeper: Keeper, name: Id, provider: Format, leaves: Compaction = {}) {
    this.#leaves = leaves
    this.provider = checkFormat(provider)
    this.id = id(name, 'conversationId')
    this.#keeper = keeper
  }

  /** Fetches all of it; one that is not there yet has no messages. */
  async load(wait: Wait): Promise<void> {
    const first = await this.#first(wait)
    if (first && first.provider !== this.provider) {
      throw new WrongField('provider', `the conversation ${this.id} is one of ${first.provider}, not of ${this.provider}`)
    }
    const texts = first?.messagesJson ?? []
    while (first && texts.length < first.version) {
      const request = { conversationId: this.id, fromVersion: texts.length, compactBefore: first.compactedBefore }
      const page = (await this.#keeper.ask('loadConversation', request, wait)) as ResumeConversationResponse
      if (page.messagesJson.length === 0) throw new BrokenAnswer(`a page of the conversation ${this.id} without messages, before its end`)
      for (const text of page.messagesJson) texts.push(text)
    }
    // Who has appended meanwhile has made this one stale: the next append says so.
    this.texts = texts.slice(0, first?.version)
    this.pending = first?.pending ?? []
    this.promptId = first?.promptId ?? ''
    this.#unsure = false
  }

  async #first(wait: Wait): Promise<ResumeConversationResponse | undefined> {
    try {
      return (await this.#keeper.ask('resumeConversation', { conversationId: this.id, ...this.#leaves }, wait)) as ResumeConversationResponse
    } catch (error) {
      if ((error as Partial<ServiceError>).code !== status.NOT_FOUND) throw error
      return undefined
    }
  }

  /** Appends messages, and gives them back as a process that loads them sees them. isOpen says that afterwards there may be
   * calls without a result. */
  async append(messages: readonly unknown[], wait: Wait, turnId = '', isOpen = false): Promise<unknown[]> {
    const texts = messages.map((message, i) => textOf(message, `messages[${i}]`))
    if (texts.length === 0) return []
    const request = {
      conversationId: this.id, expectedVersion: this.texts.length, provider: this.provider, turnId, messagesJson: texts,
      appendId: randomUUID(), promptId: this.promptId,
    }
    // Whatever comes of it: what is not known to have been refused may have been kept.
    this.#unsure = true
    await this.#keeper.ask('appendMessages', request, wait).catch((error: unknown) => {
      throw stale(error, this.texts.length) ?? error
    })
    for (const text of texts) this.texts.push(text)
    this.#unsure = isOpen
    return texts.map((text) => JSON.parse(text) as unknown)
  }

  /** Makes the calls that have no result, with the ids that they had, in the prompt that they belong to, and appends what
   * answers them. One that is forgotten is not made again. */
  async resume(fields: Fields, wait: Wait): Promise<ToolMessages> {
    if (this.#unsure) await this.load(wait)
    if (this.pending.length === 0) return new ToolMessages()
    this.promptId ||= fields.promptId ? String(fields.promptId) : ''
    const shared = { ...fields, conversationId: this.id, promptId: this.promptId }
    this.#unsure = true // whatever comes of it
    const answered = await this.#keeper.runOpen(this.texts.length, shared, wait).catch((error: unknown) => {
      throw stale(error, this.texts.length) ?? error
    })
    if (answered.held.length > 0) return answered // what answers a held call closes it
    await this.append(answered, wait)
    this.pending = []
    return answered
  }

  /** What a loop begins with: all that is kept, with the calls answered, and the messages that it is given behind it. These
   * begin the prompt of fields; without them the one that is unfinished goes on, unless the caller has named another. */
  async begin(messages: readonly unknown[], fields: Fields & { promptId: string }, isNamed: boolean, wait: Wait): Promise<unknown[]> {
    await this.resume(fields, wait)
    if (isNamed || messages.length > 0 || this.promptId === '') this.promptId = fields.promptId
    await this.append(messages, wait)
    return this.texts.map((text) => JSON.parse(text) as unknown)
  }

  /** Whether the model has said its last word: a message without calls. */
  hasEnded(): boolean {
    const last = this.texts.at(-1)
    return last !== undefined && (JSON.parse(last) as { role?: unknown } | null)?.role === 'assistant'
  }
}

/** The JSON text of a message; a text is one already. */
function textOf(message: unknown, at: string): string {
  const text = typeof message === 'string' ? jsonText(message, at) : written(message, at)
  const size = Buffer.byteLength(text)
  if (size <= MAX_MESSAGE_BYTES) return text
  const why = `has ${size} bytes, and a message that is kept has at most ${MAX_MESSAGE_BYTES}`
  throw new WrongField(at, `${why}: name pictures and files by their URL, or say less`)
}

function written(message: unknown, at: string): string {
  let text: string | undefined
  try {
    text = JSON.stringify(message)
  } catch (error) {
    throw new WrongField(at, `want a message that JSON can hold: ${(error as Error).message.split('\n', 1)[0]}`)
  }
  if (text === undefined) throw new WrongField(at, `want a message, got ${shown(message)}`)
  return text
}

/** What an append was refused with, if that was its version, or what it says of a call. */
function stale(error: unknown, known: number): StaleConversation | undefined {
  const { code, details, metadata } = error as Partial<ServiceError>
  const told = metadata?.get(VERSION)[0]
  const version = code === status.ABORTED ? told : code === status.FAILED_PRECONDITION ? (told ?? known) : undefined
  return version === undefined ? undefined : new StaleConversation(details ?? '', Number(version))
}
