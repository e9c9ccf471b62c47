/**
 * The Node client of a sidecar: a thin layer over @grpc/grpc-js.
 *
 * It adds three things and hides nothing: the channel options that keep the
 * promise "never twice" (nothing between here and the sidecar sends a request
 * again), promises instead of callbacks, and a check that a batch brought one
 * result for each call, in order.
 *
 *     const sidecall = new Client()
 *     const results = await sidecall.executeTools(
 *       calls.map((c) => ({ toolUseId: c.id, toolName: c.name, argumentsJson: c.arguments })),
 *       { conversationId, turnId })
 *     for (const r of results) history.push(toolResult(r.toolUseId, r.content, r.isError))
 *
 * A tool that fails throws nothing: the result says so (isError, error with the
 * five fields, recovery) and its content is ready for the model. A rejected
 * promise is a gRPC status, for the program; after any of them the same calls
 * may be sent again with the same ids, and only with them: what is recorded is
 * replayed, and what must not be repeated is not run a second time.
 *
 * Messages are plain objects with the fields of the contract in camelCase;
 * enums are their names, 64-bit numbers are numbers. A field that the contract
 * does not have, or a value that is none of its field, is a WrongField before
 * anything is sent.
 */
import { fileURLToPath } from 'node:url'

import grpc from '@grpc/grpc-js'
import protoLoader from '@grpc/proto-loader'

import { address, callFields, checked, listed, object, text, waitFields, WrongField } from './request.mjs'

export { WrongField }

/** Where a sidecar listens when its config does not say. */
export const DEFAULT_TARGET = 'tcp://127.0.0.1:8470'

/** Bounds one response, in bytes. A batch of results can be much larger than gRPC's own default of 4 MiB. */
export const MAX_RESPONSE_BYTES = 256 * 1024 * 1024

const definition = protoLoader.loadSync('sidecall/v1/tool_service.proto', {
  includeDirs: [fileURLToPath(new URL('./proto', import.meta.url))],
  longs: Number,
  enums: String,
  defaults: true,
  arrays: true,
})

const { ToolService } = grpc.loadPackageDefinition(definition).sidecall.v1

const fields = callFields(ToolService.service.ExecuteTool.requestType.type.field)
const optionFields = { credentials: (given) => given, channel: object }

/** The results of a batch do not belong to its calls: what answers is no sidecar of this contract. */
export class BrokenAnswer extends Error {}

/**
 * @typedef {object} Call One tool call of an assistant turn, by the fields of ExecuteToolRequest.
 * @property {string|number|bigint} toolUseId The provider's id of the call; an integer is sent as its digits, as in all ids.
 * @property {string} toolName The name that the model gave.
 * @property {string} [argumentsJson] The JSON text that the model gave, untouched, but for lone surrogates: those become
 *   their escapes (\ud83d), since nothing else can carry them. Empty means {}.
 *
 * @typedef {object} Identity What all calls of a turn share; further fields of ExecuteToolRequest may stand beside these.
 * @property {string|number|bigint} [conversationId] Part of each call's identity. Required, unless the
 *   sidecar's identity.require says otherwise.
 * @property {string|number|bigint} [turnId] Likewise. Some providers start their ids again in every turn, so this should be something
 *   stable such as the turn's index.
 * @property {string|number|bigint} [promptId] The user prompt that the calls belong to.
 * @property {{seconds?: number, nanos?: number}} [timeout] May only shorten the tool's own deadline.
 *
 * @typedef {object} Wait
 * @property {number} [rpcTimeout] Milliseconds after which waiting ends. What is running then is finished and recorded
 *   by the sidecar.
 * @property {AbortSignal} [signal] Ends waiting too; the promise is then rejected with the signal's reason.
 */

/** Speaks to one sidecar. One per process is enough. It connects at the first call, and again by itself. */
export class Client {
  /**
   * @param {string} [target] tcp://host:port, unix:///path or anything else that gRPC resolves.
   * @param {object} [options]
   * @param {grpc.ChannelCredentials} [options.credentials] Without any, the connection is plain text, as on a loopback or
   *   unix socket it may be.
   * @param {object} [options.channel] Further channel options.
   */
  constructor(target = DEFAULT_TARGET, options = {}) {
    const { credentials = grpc.credentials.createInsecure(), channel = {} } = checked(options, optionFields)
    /** The generated client, for what has no method here: getExecution ("did it run?") and readOutput (with the
     * conversationId of its call). */
    this.stub = new ToolService(address(target), credentials, {
      // There is one retry layer, and it is in the sidecar.
      'grpc.enable_retries': 0,
      'grpc.service_config_disable_resolution': 1,
      // A sidecar is next door: never through http_proxy.
      'grpc.enable_http_proxy': 0,
      'grpc.max_receive_message_length': MAX_RESPONSE_BYTES,
      'grpc.max_send_message_length': -1, // the sidecar is the one to refuse
      ...channel,
    })
  }

  /**
   * Runs one call; one whose effect must not be repeated at most once per
   * (conversationId, turnId, toolUseId).
   * @param {Call} call
   * @param {Identity} [identity]
   * @param {Wait} [wait]
   */
  async executeTool(call, identity = {}, wait = {}) {
    return this.#unary('executeTool', { ...checked(object(identity, 'identity'), fields), ...checked(object(call, 'call'), fields) }, wait)
  }

  /**
   * Runs the calls of one assistant turn, in parallel where the tools allow it, and returns one result per call in the
   * order of the calls.
   * @param {Call[]} calls
   * @param {Identity} [identity]
   * @param {Wait} [wait]
   */
  async executeTools(calls, identity = {}, wait = {}) {
    if (listed(calls).length === 0) return []
    const shared = checked(object(identity, 'identity'), fields)
    const sent = calls.map((call, i) => ({ ...shared, ...checked(object(call, `calls[${i}]`), fields, `calls[${i}]`) }))
    const { results } = await this.#unary('executeTools', { calls: sent }, wait)
    const got = JSON.stringify(results.map((r) => r.toolUseId))
    const wanted = JSON.stringify(sent.map((c) => c.toolUseId))
    if (got !== wanted) throw new BrokenAnswer(`results of the calls ${got} for the calls ${wanted}`)
    return results
  }

  /**
   * Lists what a profile may call, sorted by name. A long list comes in pages;
   * rpcTimeout bounds each.
   * @param {string} [profile]
   * @param {Wait} [wait]
   */
  async listTools(profile = '', wait = {}) {
    let tools = []
    const named = text(profile, 'profile')
    for (let pageToken = ''; ;) {
      const page = await this.#unary('listTools', { profile: named, pageToken }, wait)
      tools = tools.concat(page.tools)
      pageToken = page.nextPageToken
      if (!pageToken) return tools
    }
  }

  /** Closes the connection. The sidecar finishes and records what it has begun. */
  close() {
    this.stub.close()
  }

  #unary(method, request, wait) {
    const { rpcTimeout, signal } = checked(object(wait, 'wait'), waitFields)
    signal?.throwIfAborted()
    const options = rpcTimeout === undefined ? {} : { deadline: Date.now() + rpcTimeout }
    return new Promise((resolve, reject) => {
      const abort = () => call.cancel()
      const call = this.stub[method](request, options, (error, response) => {
        signal?.removeEventListener('abort', abort)
        if (!error) resolve(response)
        else reject(signal?.aborted && error.code === grpc.status.CANCELLED ? signal.reason : error)
      })
      signal?.addEventListener('abort', abort, { once: true })
    })
  }
}
