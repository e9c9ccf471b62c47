/** The span that a request belongs to, for programs that have OpenTelemetry. */
import * as grpc from '@grpc/grpc-js'
import { readable } from './request.js'

/**
 * What all copies of @opentelemetry/api 1.x in a process share, under a name of their own. It is looked up there, so that
 * the package is no dependency of this one, and nothing is loaded where nobody traces.
 */
interface Shared {
  context?: { active(): Active }
}

interface Active {
  getValue(key: symbol): unknown
}

interface Span {
  spanContext(): { traceId: string; spanId: string; traceFlags: number; traceState?: { serialize(): string } }
}

const shared = Symbol.for('opentelemetry.js.api.1')
const current = Symbol.for('OpenTelemetry Context Key SPAN')
const carried = Symbol.for('OpenTelemetry Baggage Key')

/** The current span and baggage as W3C has them; empty where there is neither. The sidecar's span is a child of that one. */
export function traceContext(): grpc.Metadata {
  const metadata = new grpc.Metadata()
  const active = (globalThis as unknown as Record<symbol, Shared | undefined>)[shared]?.context?.active()
  const baggage = active && baggageOf(active)
  if (baggage) metadata.set('baggage', baggage)
  const span = (active?.getValue(current) as Span | undefined)?.spanContext()
  if (span === undefined || !/^(?!0{32})[0-9a-f]{32}$/.test(span.traceId) || !/^(?!0{16})[0-9a-f]{16}$/.test(span.spanId)) return metadata
  metadata.set('traceparent', `00-${span.traceId}-${span.spanId}-${(span.traceFlags & 0xff).toString(16).padStart(2, '0')}`)
  const state = span.traceState?.serialize()
  if (state) metadata.set('tracestate', state)
  return metadata
}

interface Baggage {
  getAllEntries(): [string, { value: string; metadata?: { toString(): string } }][]
}

/** The most that W3C Baggage lets through, in bytes. */
const MOST_BAGGAGE = 8192

/** What of the baggage there is room for, without what no header can hold. */
function baggageOf(active: Active): string {
  let text = ''
  for (const [key, { value, metadata }] of (active.getValue(carried) as Baggage | undefined)?.getAllEntries() ?? []) {
    const properties = metadata?.toString() ?? ''
    const entry = [encodeURIComponent(readable(key)), '=', encodeURIComponent(readable(value)), properties && `;${properties}`].join('')
    if (/^[!-~ ]+$/.test(entry) && text.length + entry.length < MOST_BAGGAGE) text += text ? `,${entry}` : entry
  }
  return text
}
