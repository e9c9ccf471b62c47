/** The client. */
import { randomUUID } from 'node:crypto'

import * as grpc from '@grpc/grpc-js'

import { channelOptions, checkSocket, DEFAULT_TARGET, insisting, isAway, isClosed, MAX_MESSAGE_BYTES, MAX_RESPONSE_BYTES, mostBytes, PATIENCE, unary } from './channel.js'
import { ConversationService, ToolService, WorkerService } from './contract.js'
import { compactionFields, Conversation, Kept, type Compaction } from './conversation.js'
import { BrokenAnswer, ClientClosed, WrongMessage, WrongTool } from './errors.js'
import type {
  ConversationServiceStub, ExecuteToolResponse, ExecuteToolsResponse, GetInstructionsResponse, ListToolsResponse, ReadMessageResponse,
  RunMessageResponse, Tool, ToolServiceStub, WorkerServiceStub,
} from './generated/messages.js'
import { launch, launchFields, type Launched, type LaunchOptions } from './launch.js'
import { runLoop, type Ask, type KeptLoopOptions, type Loop, type LoopOptions } from './loop.js'
import { checkFormat, sent, ToolMessages } from './messages.js'
import type { AnswerTo, Format, ToolsOf } from './messages.js'
import {
  address, callFields, checked, listed, milliseconds, named, object, text, waitFields, type Call, type Checks, type Fields, type Id, type OfAConversation,
  type Wait,
} from './request.js'
import type { JsonSchema, StandardSchema } from './schema.js'
import type { Places } from './shift.js'
import { tooLarge } from './toolarge.js'
import { Work, type WorkSettings } from './work.js'
import { served, type Served, type ToolFunction, type ToolSettings } from './worker.js'

/** How a client is connected. */
export interface Options {
  /** Without any, the connection is plain text, as on a loopback or unix socket it may be. */
  credentials?: grpc.ChannelCredentials | undefined
  /** Further channel options of @grpc/grpc-js. */
  channel?: grpc.ChannelOptions | undefined
  /** How long runTools, runLoop, tools and instructions go on asking while the sidecar is away, in milliseconds; 30,000
   * unless it is given. */
  patience?: number | undefined
}

const launchedFields: Checks = { channel: object, patience: milliseconds }
const optionFields: Checks = { credentials: (given) => given, ...launchedFields }

const toolsFields: Checks = { profile: text, ...waitFields }

/** The most calls that one batch may have. */
const MAX_BATCH = 128

/** A call that was checked. */
type Sent = { toolUseId?: string; toolName?: string; argumentsJson?: string; conversationId?: unknown }

/** How long a loop waits for the sidecar to hear that it has ended, in milliseconds. */
const END_PROMPT = 2_000

/** Serves functions that are not the client's own, as its work does, for its own calls alone: those of an adapter. */
export let serve: (client: Sidecall, functions: ReadonlyMap<string, Served>, settings: WorkSettings, places: Places) => Promise<Work>

/** Speaks to one sidecar. One per process is enough. It connects at the first call, and again by itself. */
export class Sidecall implements AsyncDisposable {
  /** The generated client, for what has no method here: getExecution ("did it run?") and readOutput (with the
   * conversationId of its call). */
  readonly stub: ToolServiceStub
  /** The same of the service of conversations: startPrompt and endPrompt. */
  readonly conversations: ConversationServiceStub
  /** What this client calls itself: functions of adapters serve its calls alone. */
  readonly #id = randomUUID()
  readonly #patience: number
  readonly #worker: WorkerServiceStub
  readonly #functions = new Map<string, Served>()
  readonly #works = new Set<Work>()
  #launched: Launched | undefined

  static {
    serve = (client, functions, settings, places) => client.#serve(functions, settings, client.#id, places)
  }

  /**
   * @param target tcp://host:port, unix:///path or anything else that gRPC resolves.
   * @param options
   */
  constructor(target: string = DEFAULT_TARGET, options: Options = {}) {
    const given = checked(object(options, 'options'), optionFields) as Options
    const { credentials = grpc.credentials.createInsecure(), channel = {}, patience = PATIENCE } = given
    const at = address(target)
    checkSocket(at)
    this.#patience = patience
    this.stub = new ToolService(at, credentials, { ...channelOptions, ...channel })
    this.conversations = new ConversationService(at, credentials, { channelOverride: this.stub.getChannel() })
    this.#worker = new WorkerService(at, credentials, { channelOverride: this.stub.getChannel() })
  }

  /** The same as new Sidecall(target, options). */
  static connect(target: string = DEFAULT_TARGET, options: Options = {}): Sidecall {
    return new Sidecall(target, options)
  }

  /**
   * Starts a sidecar of this program's own, on a unix socket that nobody else can open, and connects to it when it is ready.
   * close ends it, and so does the end of this process, however it ends.
   *
   * Processes that launch one with the same config on one embedded store share one, which serves until the last of them has
   * gone. The sidecar of a process that was killed lets its calls end first; the next launch waits for that. startTimeout
   * bounds this, and how long backends are waited for that find their tools by themselves: a warning of the process names
   * those that are missing then. LaunchFailed says why it did not start.
   * @param config The path of a config file, or what would stand in one.
   * @param options
   */
  static async launch(config: string | object, options: LaunchOptions & Omit<Options, 'credentials'> = {}): Promise<Sidecall> {
    const given = checked(object(options, 'options'), { ...launchFields, ...launchedFields })
    const { binary, env, log, startTimeout, ...ours } = given as LaunchOptions & Options
    const started = await launch(config, { binary, env, log, startTimeout })
    try {
      const client = new Sidecall(started.target, ours)
      client.#launched = started
      return client
    } catch (error) {
      await started.stop()
      throw error
    }
  }

  /**
   * Runs one call; one whose effect must not be repeated at most once per (conversationId, turnId, toolUseId).
   * @param call
   * @param fields What it shares with other calls of its turn.
   * @param wait
   */
  async executeTool(call: Call & OfAConversation, fields?: Fields, wait?: Wait): Promise<ExecuteToolResponse>
  async executeTool(call: Call, fields: Fields & OfAConversation, wait?: Wait): Promise<ExecuteToolResponse>
  async executeTool(call: Call, fields: Fields = {}, wait: Wait = {}): Promise<ExecuteToolResponse> {
    const request: Sent = { ...checked(object(fields, 'identity'), callFields), ...checked(object(call, 'call'), callFields) }
    const limits = waiting(wait)
    named(request)
    try {
      return (await this.#ask('executeTool', request, limits)) as ExecuteToolResponse
    } catch (error) {
      const most = mostBytes(error)
      if (most === undefined) throw error
      return tooLarge(request, most)
    }
  }

  /**
   * Runs the calls of one assistant turn, in parallel where the tools allow it, and returns one result per call in the
   * order of the calls. Nothing is sent again by this: see runTools.
   * @param calls
   * @param fields What all of them share.
   * @param wait
   */
  async executeTools(calls: readonly (Call & OfAConversation)[], fields?: Fields, wait?: Wait): Promise<ExecuteToolResponse[]>
  async executeTools(calls: readonly Call[], fields: Fields & OfAConversation, wait?: Wait): Promise<ExecuteToolResponse[]>
  async executeTools(calls: readonly Call[], fields: Fields = {}, wait: Wait = {}): Promise<ExecuteToolResponse[]> {
    return this.#execute(calls, fields, waiting(wait))
  }

  /**
   * Runs the tools that an assistant's message calls, and returns the messages to append after it.
   *
   * While the sidecar is away, the same calls are sent again with the same ids, for the client's patience. Calls of a
   * message that was cut are answered and not run.
   * @param message What the provider's SDK gives, or the same as plain objects: an Anthropic message, a Chat Completion (or
   *   a choice or message of one), a Response.
   * @param options turnId is the provider's id of the message or response unless it is given; one that has none should be
   *   given one.
   */
  async runTools<M>(message: M, options: Fields & OfAConversation & Wait): Promise<ToolMessages<AnswerTo<M>>> {
    const { rpcTimeout, signal, ...fields } = object(options === undefined ? {} : options, 'options') as Fields & Wait
    const limits = waiting({ rpcTimeout, signal })
    const shared = checked(fields, callFields)
    named(shared) // of a message that calls nothing, too
    return (await this.#run({ messageJson: sent(message) }, shared, limits, MAX_RESPONSE_BYTES)) as ToolMessages<AnswerTo<M>>
  }

  /**
   * Asks the model, runs its tools, and asks again until it calls none, its budget is used up, or the sidecar says stop.
   * @param ask Is given all messages so far, and gives the provider's answer: client.messages.create(...),
   *   client.chat.completions.create(...) or client.responses.create(...).
   * @param messages The messages before the first turn; with keep, those that come behind what is kept.
   * @param options keep is the conversation that the sidecar keeps of it. The calls in it that have no result are made first,
   *   with the ids that they had, so that a loop that was killed anywhere goes on when it is run with no messages.
   */
  async runLoop<M, A>(ask: Ask<M, A>, messages: readonly M[], options: LoopOptions | KeptLoopOptions): Promise<Loop<M, A>> {
    const sidecar = {
      read: async (messageJson: string, wait: Wait) => (await this.#ofMessage('readMessage', { messageJson }, wait)) as ReadMessageResponse,
      run: (messageJson: string, fields: Record<string, unknown>, wait: Wait, most: number) => this.#run({ messageJson }, fields, wait, most),
      endPrompt: (request: object) => unary(this.#id, this.conversations, 'endPrompt', request, { rpcTimeout: END_PROMPT }),
    }
    return runLoop(sidecar, ask, messages, options)
  }

  /**
   * Loads a conversation that the sidecar keeps; one that is not there yet has no messages.
   * @param id
   * @param provider Whose array it is: anthropic, openai (Chat Completions) or openai-responses.
   * @param options rpcTimeout bounds each page of it; compactAfterTurns and compactToTokens leave results out of what is
   *   loaded.
   */
  async conversation(id: Id, provider: Format, options: Compaction & Wait = {}): Promise<Conversation> {
    const { compactAfterTurns, compactToTokens, ...wait } = object(options, 'options') as Compaction & Wait
    const leaves = checked({ compactAfterTurns, compactToTokens }, compactionFields) as Compaction
    const kept = new Kept({
      ask: (method, request, limits) => this.#ask(method, request, limits, this.#patience, this.conversations),
      runOpen: (openAtVersion, fields, limits) => this.#run({ openAtVersion }, fields, limits, MAX_MESSAGE_BYTES),
    }, id, provider, leaves)
    await kept.load(waiting(wait))
    return new Conversation(kept)
  }

  /**
   * The tools that a profile may call, as a provider's tools parameter takes them.
   * @param format anthropic, openai (Chat Completions) or openai-responses.
   * @param options
   */
  async tools<F extends Format = 'anthropic'>(format?: F, options: { profile?: string } & Wait = {}): Promise<ToolsOf[F][]> {
    const known = checkFormat(format ?? 'anthropic') as F // a wrong one is told before anything is asked
    const { profile = '', ...wait } = checked(object(options, 'options'), toolsFields) as { profile?: string } & Wait
    const asked = { profile, provider: known }
    return this.#list(asked, wait, this.#patience, (page) => page.definitionsJson.map((one) => JSON.parse(one) as ToolsOf[F]))
  }

  /**
   * The paragraph of the system prompt that teaches the model what the errors of these tools ask of it.
   * @param profile
   * @param wait
   */
  async instructions(profile = '', wait: Wait = {}): Promise<string> {
    const request = { profile: text(profile, 'profile') }
    const answer = (await this.#ask('getInstructions', request, waiting(wait), this.#patience)) as GetInstructionsResponse
    return answer.text
  }

  /**
   * Lists what a profile may call, sorted by name. A long list comes in pages; rpcTimeout bounds each.
   * @param profile
   * @param wait
   */
  async listTools(profile = '', wait: Wait = {}): Promise<Tool[]> {
    return this.#list({ profile }, waiting(wait), 0, (page) => page.tools)
  }

  /**
   * Makes a function of this program a tool, which work serves; it is given back as it is. WrongTool says what keeps it
   * from being one.
   * @param settings What models, and the sidecar, are told of it.
   * @param run Is given the arguments, which fit the schema, and the call. Text that it returns is shown to the model as it
   *   is, a Reply says more, anything else is JSON. What it throws is its failure; a Failure says more.
   */
  tool<S extends JsonSchema | StandardSchema = JsonSchema, F extends ToolFunction<S> = ToolFunction<S>>(settings: ToolSettings<S>, run: F): F {
    const one = served(settings, run)
    const name = one.declared.name!
    if (this.#functions.has(name)) throw new WrongTool(`the function ${name} cannot be a tool: there is one of that name`)
    this.#functions.set(name, one)
    return run
  }

  /**
   * Serves the functions over the connection by which calls are made, and registers them again when the sidecar restarts.
   * Settles when they can be called; WorkerRefused says why the sidecar does not take them. The work ends with the client.
   * @param settings
   */
  async work(settings: WorkSettings = {}): Promise<Work> {
    return this.#serve(new Map(this.#functions), settings)
  }

  async #serve(functions: ReadonlyMap<string, Served>, settings: WorkSettings, client = '', places?: Places): Promise<Work> {
    if (isClosed(this.stub)) throw new ClientClosed()
    const isGone = async () => (this.#launched?.hasEnded() ? this.#launched.end() : undefined)
    const work = new Work(this.#worker, client, functions, settings, this.#patience, isGone, places)
    this.#works.add(work)
    work.ended.catch(() => {}).finally(() => this.#works.delete(work))
    await work.registered
    return work
  }

  /** Closes the connection. The sidecar finishes and records what it has begun; one that was launched ends then, and the
   * promise settles when it has. Functions that serve calls may finish first. */
  async close(): Promise<void> {
    await Promise.all([...this.#works].map((work) => work.stop()))
    this.stub.close()
    await this.#launched?.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #ask(method: string, request: object, wait: Wait, patience = 0, stub: grpc.Client = this.stub): Promise<unknown> {
    const isGone = () => this.#launched?.hasEnded() ?? false
    try {
      return await insisting(patience, wait.signal, () => unary(this.#id, stub, method, request, wait), isGone)
    } catch (error) {
      throw isAway(error) && isGone() ? await this.#launched!.end() : error
    }
  }

  async #execute(calls: readonly Call[], fields: Fields, wait: Wait): Promise<ExecuteToolResponse[]> {
    if (listed(calls).length === 0) return []
    const shared = checked(object(fields, 'identity'), callFields)
    const checkedCalls: Sent[] = calls.map((call, i) => ({ ...shared, ...checked(object(call, `calls[${i}]`), callFields, `calls[${i}]`) }))
    for (const [i, call] of checkedCalls.entries()) named(call, `calls[${i}].conversationId`)
    const all: ExecuteToolResponse[] = []
    for (let first = 0; first < checkedCalls.length; first += MAX_BATCH) {
      all.push(...(await this.#batch(checkedCalls.slice(first, first + MAX_BATCH), wait)))
    }
    return all
  }

  /** A call that no request can hold costs one result, and not the others'. */
  async #batch(batch: Sent[], wait: Wait): Promise<ExecuteToolResponse[]> {
    let answer: ExecuteToolsResponse
    try {
      answer = (await this.#ask('executeTools', { calls: batch }, wait)) as ExecuteToolsResponse
    } catch (error) {
      const most = mostBytes(error)
      if (most === undefined) throw error
      if (batch.length === 1) return [tooLarge(batch[0]!, most)]
      const half = batch.length >> 1 // nothing was begun: less at a time, in their order
      const first = await this.#batch(batch.slice(0, half), wait)
      return [...first, ...(await this.#batch(batch.slice(half), wait))]
    }
    const got = JSON.stringify(answer.results.map((r) => r.toolUseId))
    const wanted = JSON.stringify(batch.map((c) => c.toolUseId ?? ''))
    if (got !== wanted) throw new BrokenAnswer(`results of the calls ${got} for the calls ${wanted}`)
    return answer.results
  }

  /** Runs calls that the sidecar finds itself: in a message, or in a conversation. What answers them has no more bytes than most. */
  async #run(what: { messageJson: string } | { openAtVersion: number }, fields: Record<string, unknown>, wait: Wait, most: number): Promise<ToolMessages> {
    const request = { ...what, shared: fields, maxResponseBytes: most }
    return new ToolMessages((await this.#ofMessage('runMessage', request, wait)) as RunMessageResponse)
  }

  async #ofMessage(method: 'readMessage' | 'runMessage', request: object, wait: Wait): Promise<unknown> {
    try {
      return await this.#ask(method, request, wait, this.#patience)
    } catch (error) {
      const { code, details = '' } = error as Partial<grpc.ServiceError>
      if (code !== grpc.status.INVALID_ARGUMENT || !details.startsWith(OF_THE_MESSAGE)) throw error
      throw new WrongMessage(details.slice(OF_THE_MESSAGE.length))
    }
  }

  async #list<T>(asked: { profile: string; provider?: Format }, wait: Wait, patience: number, of: (page: ListToolsResponse) => T[]): Promise<T[]> {
    text(asked.profile, 'profile')
    const found: T[] = []
    const seen = new Set([''])
    for (let pageToken = ''; ; seen.add(pageToken)) {
      const page = (await this.#ask('listTools', { ...asked, pageToken }, wait, patience)) as ListToolsResponse
      found.push(...of(page))
      pageToken = page.nextPageToken
      if (!pageToken) return found
      if (seen.has(pageToken)) throw new BrokenAnswer('the pages of the list of tools go round in circles')
    }
  }
}

/** How the details of an error begin that is the message's. */
const OF_THE_MESSAGE = 'message_json: '

const waiting = (wait: Wait) => checked(object(wait, 'wait'), waitFields) as Wait
