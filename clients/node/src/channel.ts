/**
 * How a client is connected: the channel options that keep the promise "never twice", what
 * is done about a sidecar that is away, and which sockets are nobody's to trust.
 */
import { statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

import * as grpc from '@grpc/grpc-js'

import { ClientClosed, UnsafeSocket } from './errors.js'
import { traceContext } from './trace.js'

/** Where a sidecar listens when its config does not say. */
export const DEFAULT_TARGET = 'tcp://127.0.0.1:8470'

/** Bounds one response, in bytes. A batch of results can be much larger than gRPC's own default of 4 MiB. */
export const MAX_RESPONSE_BYTES = 256 * 1024 * 1024

/** Bounds one message of a conversation that the sidecar keeps. */
export const MAX_MESSAGE_BYTES = 3 * 1024 * 1024

/** How long requests are sent again, in milliseconds, while a sidecar is away: it is being replaced, say. */
export const PATIENCE = 30_000

export const channelOptions: grpc.ChannelOptions = {
  // There is one retry layer, and it is in the sidecar.
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  // A sidecar is next door: never through http_proxy, and back at once when it is.
  'grpc.enable_http_proxy': 0,
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 1000,
  'grpc.max_receive_message_length': MAX_RESPONSE_BYTES,
  'grpc.max_send_message_length': -1, // the sidecar is the one to refuse
}

type Method = (
  request: object, metadata: grpc.Metadata, options: grpc.CallOptions, answered: (error: grpc.ServiceError | null, response?: unknown) => void,
) => grpc.ClientUnaryCall

/** The metadata in which a client says what it calls itself. */
const CLIENT = 'sidecall-client'

export function isClosed(stub: grpc.Client): boolean {
  return stub.getChannel().getConnectivityState(false) === grpc.connectivityState.SHUTDOWN
}

/** One request of a client, and its answer. */
export async function unary(
  client: string, stub: grpc.Client, method: string, request: object, wait: { rpcTimeout?: number | undefined; signal?: AbortSignal | undefined },
): Promise<unknown> {
  const { rpcTimeout, signal } = wait
  signal?.throwIfAborted()
  if (isClosed(stub)) throw new ClientClosed()
  const options = rpcTimeout === undefined ? {} : { deadline: Date.now() + rpcTimeout }
  const metadata = traceContext()
  metadata.set(CLIENT, client)
  return new Promise((resolve, reject) => {
    const abort = () => call.cancel()
    const call = (stub as unknown as Record<string, Method>)[method]!.call(stub, request, metadata, options, (error, response) => {
      signal?.removeEventListener('abort', abort)
      if (!error) resolve(response)
      else if (isClosed(stub)) reject(new ClientClosed())
      else reject(signal?.aborted && error.code === grpc.status.CANCELLED ? signal.reason : error)
    })
    signal?.addEventListener('abort', abort, { once: true })
  })
}

/**
 * Asks again, for as long as the patience lasts, while the sidecar is draining or gone. What was sent may have been
 * begun: the same ids, and only they, are safe to send again. Of one that is gone for good nothing more is to be hoped.
 */
export async function insisting<T>(
  patience: number, signal: AbortSignal | undefined, ask: () => Promise<T>, isGone: () => boolean,
): Promise<T> {
  const end = performance.now() + patience
  for (let pause = 50; ; pause = Math.min(2 * pause, 1000)) {
    try {
      return await ask()
    } catch (error) {
      if (!isAway(error) || isGone() || performance.now() + pause >= end) throw error
    }
    await sleep(pause, undefined, { signal }).catch(() => signal?.throwIfAborted())
  }
}

/** How many bytes a request may have, when one was refused for having more: nothing of it was begun. Undefined of any other
 * error. */
export function mostBytes(error: unknown): string | undefined {
  const { code, metadata } = error as Partial<grpc.ServiceError>
  const [most] = (code === grpc.status.RESOURCE_EXHAUSTED && metadata?.get('sidecall-max-request-bytes')) || []
  return most?.toString()
}

export function isAway(error: unknown): boolean {
  return error instanceof Error && (error as Partial<grpc.ServiceError>).code === grpc.status.UNAVAILABLE
}

/**
 * Refuses a unix socket that is open to other users, or is theirs: who can open it can call tools, and whoever has made
 * it answers in the sidecar's place.
 */
export function checkSocket(target: string): void {
  const path = /^unix:(?:\/\/)?(.+)$/.exec(target)?.[1]
  const me = process.getuid?.()
  if (path === undefined || me === undefined) return
  const found = statSync(path, { throwIfNoEntry: false, bigint: false })
  if (found === undefined) return // connecting will say so
  if (found.uid !== 0 && found.uid !== me) {
    throw new UnsafeSocket(`${path}: this socket is of the user ${found.uid}, and you are ${me}: what answers may be no sidecar of yours`)
  }
  if (found.mode & 0o002) {
    throw new UnsafeSocket(`${path}: any user of this machine may open this socket and call tools: give it mode 0600`)
  }
}
