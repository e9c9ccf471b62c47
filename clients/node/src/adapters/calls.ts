/**
 * The way of a framework's calls to the sidecar, which is the same for all of them.
 *
 * A framework runs each tool call of a turn by itself. Those that it begins before the event loop comes to rest belong
 * together: they are sent as one ExecuteTools, so that a tool marked sequential keeps its order, and all of them count as
 * one turn.
 *
 * Calls of functions of the framework's own come here too: see own.
 */
import type { Sidecall } from '../client.js'
import { WrongField } from '../errors.js'
import type { ExecuteToolResponse } from '../generated/messages.js'
import type { AnthropicTool } from '../messages.js'
import { callFields, checked, object, shown, waitFields, type Call, type Fields, type Id, type Wait } from '../request.js'
import { Batch } from './batch.js'
import { Own, type Body, type Declared, type OwnOptions } from './own.js'

/** An id, or what gives it for a call. */
export type IdOf<C> = Id | ((call: C) => Id | null | undefined)

/** What an adapter is told: fields of all its calls, and how a call's ids are found. C is what a framework knows of one. */
export interface Options<C> extends Omit<Fields, 'conversationId' | 'promptId' | 'turnId' | 'messageId' | 'tokensUsed'>, Pick<Wait, 'rpcTimeout'>, OwnOptions {
  /** Which conversation the calls belong to. */
  conversationId?: IdOf<C> | undefined
  /** Which message of the user: budgets and loops are counted by it. */
  promptId?: IdOf<C> | undefined
  /** Which message of the model: for providers that start their ids of calls again in every turn. */
  turnId?: IdOf<C> | undefined
  /** The sidecar's tools, as client.tools() gives them, for whoever has asked already; they are asked for when it is not
   * given. */
  listed?: readonly AnthropicTool[] | undefined
}

/** One call, as a framework has it. */
export interface Asked {
  id: string | undefined
  name: string
  /** The JSON text. */
  arguments: string
  signal?: AbortSignal | null | undefined
}

/** What a call belongs to, as far as the framework says. */
export interface Found {
  conversationId?: Id | null | undefined
  promptId?: Id | null | undefined
  /** Counted within the prompt. */
  turnId?: Id | null | undefined
}

/** What those adapters are told beside it whose framework asks before it runs a tool. */
export interface Interrupts {
  /** Ends a run at a call that waits for a person, as the framework does where one has to approve a call, in place of telling
   * the model so. What is approved there goes on, and waits again until the sidecar was told to allow it. */
  interruptHeld?: boolean | undefined
}

type Ids = { conversationId: string } & Record<'promptId' | 'turnId' | 'messageId', string | undefined>

/** The calls of one adapter. */
export class Calls<C> {
  readonly #client: Sidecall
  readonly #options: Options<C>
  readonly #fields: Fields & Wait
  readonly #own: Own
  readonly #how: string
  readonly #open = new Map<string, Batch>()

  /**
   * @param client
   * @param options
   * @param how How else the id of a conversation is given, where the framework has one of its own.
   * @param functions The names of the framework's own functions among the tools.
   */
  constructor(client: Sidecall, options: Options<C>, how?: string, functions: readonly string[] = []) {
    if (typeof (client as Partial<Sidecall> | null)?.runTools !== 'function') throw new WrongField('client', `want a Sidecall, got ${shown(client)}`)
    const { conversationId, promptId, turnId, listed, effects, failsCleanly, worker, ...fields } = object(options, 'options') as Options<C>
    this.#client = client
    this.#options = { conversationId, promptId, turnId, listed }
    // What is wrong is said now, and not at the first call.
    this.#fields = checked(fields, sharedFields)
    this.#how = how === undefined ? 'give conversationId' : `${how}, or give conversationId`
    const given = Object.entries({ conversationId, promptId, turnId }).filter(([, option]) => typeof option !== 'function')
    checked(Object.fromEntries(given), callFields)
    if (how === undefined && (conversationId ?? '') === '') throw this.#nameless()
    this.#own = new Own(client, functions, { effects, failsCleanly, worker })
  }

  /** Makes functions of the framework's own tools of the sidecar, all or none of them. */
  async register(functions: readonly Declared[]): Promise<void> {
    await this.#own.start(functions)
  }

  /** The tools that the profile may call, without those that are the framework's own. */
  async tools(): Promise<readonly AnthropicTool[]> {
    const { profile } = this.#fields
    const listed = this.#options.listed ?? (await this.#client.tools('anthropic', profile ? { profile } : {}))
    return listed.filter(({ name }) => !this.#own.serves(name)).map((tool) => ({ ...tool, input_schema: { ...anyObject, ...tool.input_schema } }))
  }

  /** Runs a call, together with those that are begun beside it. One that is aborted leaves the others alone; the last one
   * cancels the request. One of the framework's own functions comes back to the body; what has begun there goes on when it
   * is aborted. */
  async run(asked: Asked, of: C, found: Found, body?: Body): Promise<ExecuteToolResponse> {
    asked.signal?.throwIfAborted()
    const call = this.#call(asked)
    const ids = this.#ids(of, found)
    const result = () => this.#batch(ids, call).result(call, asked.signal)
    return body === undefined ? result() : this.#own.waiting({ ...ids, toolUseId: String(call.toolUseId) }, asked, body, result)
  }

  /** Whether a call waits for a person, for frameworks that ask before they run it: it is held then, and nothing is run in
   * either case. */
  async isHeld(asked: Asked, of: C, found: Found): Promise<boolean> {
    const call = this.#call(asked)
    return (await this.#batch(this.#ids(of, found), call, true).result(call, asked.signal)).hold !== null
  }

  /** Checked alone, so that one that cannot be sent spoils nobody else's. */
  #call({ id, name, arguments: argumentsJson }: Asked): Call {
    const call = checked({ toolUseId: id, toolName: this.#own.nameOf(name), argumentsJson }, callFields) as unknown as Call
    if (!call.toolUseId) throw new WrongField('toolUseId', 'this call has no id: tools are to be called by the tool calls of a model')
    return call
  }

  #ids(of: C, found: Found): Ids {
    const given = (name: 'conversationId' | 'promptId' | 'turnId') => {
      const option = this.#options[name]
      return typeof option === 'function' ? option(of) : option
    }
    const promptId = given('promptId') ?? found.promptId
    // Turns are counted within a prompt, so those of the next one have the same numbers.
    const counted = [promptId, found.turnId].filter((id) => id !== undefined && id !== null).join('.')
    const turnId = given('turnId') ?? counted
    // Calls that are streamed come one after another, and are of one message all the same.
    const messageId = found.turnId === undefined || found.turnId === null ? undefined : counted
    const ids = checked({ conversationId: given('conversationId') ?? found.conversationId, promptId, turnId, messageId }, callFields) as Ids
    if (!ids.conversationId) throw this.#nameless()
    return ids
  }

  #nameless(): WrongField {
    return new WrongField('conversationId', `this run has none: ${this.#how}`)
  }

  #batch(ids: Ids, call: Call, holdOnly = false): Batch {
    const key = JSON.stringify([ids.conversationId, ids.promptId, ids.turnId, holdOnly])
    let batch = this.#open.get(key)
    if (batch === undefined || batch.has(call.toolUseId)) {
      const mine: Batch = (batch = new Batch(async (calls, signal) => {
        if (this.#open.get(key) === mine) this.#open.delete(key) // what comes later is another one
        return calls.length === 0 ? [] : (await this.#client.runTools(message(calls), { ...this.#fields, ...ids, ...(holdOnly && { holdOnly }), signal })).results
      }))
      this.#open.set(key, batch)
    }
    return batch
  }
}

/**
 * What the model is told where a framework tells it of every error: the sidecar has not answered, which is for the program
 * to know. What was sent may have been done, and the model's next call of the kind would be another one.
 */
export function noAnswer(error: unknown): string {
  const why = error instanceof Error ? error.message : String(error)
  return JSON.stringify({
    code: 'OUTCOME_UNKNOWN', field: '', constraint: `this call has no answer: ${why}`, received: '',
    hint: 'It may have been done. Do not make it again; tell the user that its outcome is unknown.',
  })
}

/** Schemas of arguments that name nothing are an object's too: frameworks want to read that. */
const anyObject = { type: 'object', properties: {} } as const

const sharedFields = Object.fromEntries(Object.entries({ ...callFields, rpcTimeout: waitFields.rpcTimeout! }).filter(
  ([name]) => !['toolUseId', 'toolName', 'argumentsJson', 'messageId', 'tokensUsed'].includes(name)))

/** Calls as the message of a model, which runTools sends again while the sidecar is away. */
const message = (calls: readonly Call[]) => ({
  role: 'assistant' as const,
  tool_calls: calls.map((call) => ({ id: call.toolUseId, type: 'function', function: { name: call.toolName, arguments: call.argumentsJson } })),
})
