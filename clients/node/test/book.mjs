// One conversation, as a sidecar keeps it.
import grpc from '@grpc/grpc-js'

import { answered, readMessage } from './reading.mjs'

const { ABORTED, FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE } = grpc.status

export class Book {
  texts = []
  provider = ''
  /** Messages in a page. */
  page = 100
  pending = []
  /** Before which message results are left out, as it says. */
  compactedBefore = 0
  /** Of the last append. */
  prompt = ''
  /** What appends were answered, by their ids. */
  told = new Map()
  /** Appends that say of a call what is not so. */
  contradicted = 0
  /** Answers of appends that nobody will hear. */
  lost = 0
  /** Appends that are to be refused. */
  refused = 0

  append({ expectedVersion: at, messagesJson, provider, appendId, promptId }) {
    if (this.refused-- > 0) throw { code: INVALID_ARGUMENT, details: 'as the test wants it' }
    if (this.told.has(appendId)) return { version: this.told.get(appendId) }
    if (this.contradicted-- > 0) throw { code: FAILED_PRECONDITION, details: 'the call toolu_1 is running: resume the conversation' }
    if (at !== this.texts.length) {
      throw this.#stale(`expected_version is ${at}, and the conversation has ${this.texts.length} messages`)
    }
    this.texts.push(...messagesJson)
    this.provider = provider
    this.prompt = promptId
    this.told.set(appendId, this.texts.length)
    if (this.lost-- > 0) throw { code: UNAVAILABLE, details: 'the answer is lost' }
    return { version: this.texts.length }
  }

  /** Makes the calls that are pending again. */
  open({ openAtVersion, shared }, execute) {
    if (openAtVersion !== this.texts.length) throw this.#stale('somebody has appended')
    const made = new Map(this.texts.flatMap((text) => this.#calls(JSON.parse(text)).map((call) => [call[0], call])))
    return answered(this.provider, execute(this.pending.map(({ toolUseId, turnId }) => {
      const [, toolName, argumentsJson] = made.get(toolUseId)
      return { ...shared, toolUseId, toolName, argumentsJson, turnId, messageId: turnId }
    })))
  }

  #calls(message) {
    if (this.provider === 'openai-responses') return readMessage({ messageJson: JSON.stringify({ object: 'response', output: [message] }) }).made
    return message.role === 'assistant' ? readMessage({ messageJson: JSON.stringify(message) }).made : []
  }

  #stale(details) {
    const metadata = new grpc.Metadata()
    metadata.set('sidecall-conversation-version', String(this.texts.length))
    return { code: ABORTED, details, metadata }
  }

  resume() {
    if (this.texts.length === 0) throw { code: NOT_FOUND, details: 'there is none' }
    return { ...this.pageFrom(0), pending: this.pending, compactedBefore: this.compactedBefore, promptId: this.prompt }
  }

  pageFrom(first) {
    const end = first + this.page
    const nextVersion = end < this.texts.length ? end : 0
    return { version: this.texts.length, provider: this.provider, messagesJson: this.texts.slice(first, end), nextVersion }
  }
}

/** A request, by what it is about. */
export function about([rpc, request]) {
  if (rpc === 'executeTools') return `calls ${request.calls.map((c) => `${c.turnId}/${c.toolUseId}`).join(' ')}`
  if (rpc !== 'appendMessages') return rpc
  const roles = request.messagesJson.map((text) => JSON.parse(text).role ?? JSON.parse(text).type)
  return `append ${request.expectedVersion} ${roles.join('+')}${request.turnId && ` ${request.turnId}`}`
}
