/** The span that a request belongs to, for programs that have OpenTelemetry. */
import * as grpc from '@grpc/grpc-js'

/**
 * What all copies of @opentelemetry/api 1.x in a process share, under a name of their own. It is looked up there, so that
 * the package is no dependency of this one, and nothing is loaded where nobody traces.
 */
interface Shared {
  context?: { active(): { getValue(key: symbol): unknown } }
}

interface Span {
  spanContext(): { traceId: string; spanId: string; traceFlags: number; traceState?: { serialize(): string } }
}

const shared = Symbol.for('opentelemetry.js.api.1')
const current = Symbol.for('OpenTelemetry Context Key SPAN')

/** The current span as W3C trace context, of which the sidecar's is a child; empty where there is none. */
export function traceContext(): grpc.Metadata {
  const metadata = new grpc.Metadata()
  const api = (globalThis as unknown as Record<symbol, Shared | undefined>)[shared]
  const span = (api?.context?.active().getValue(current) as Span | undefined)?.spanContext()
  if (span === undefined || !/^(?!0{32})[0-9a-f]{32}$/.test(span.traceId) || !/^(?!0{16})[0-9a-f]{16}$/.test(span.spanId)) return metadata
  metadata.set('traceparent', `00-${span.traceId}-${span.spanId}-${(span.traceFlags & 0xff).toString(16).padStart(2, '0')}`)
  const state = span.traceState?.serialize()
  if (state) metadata.set('tracestate', state)
  return metadata
}
