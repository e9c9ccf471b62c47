// A traced agent: it runs the tools of two messages within spans of its own, and sends
// the spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.
//
// usage: traced.mjs TARGET
import { trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

import { Sidecall } from '../../../clients/node/dist/esm/index.js'

/** What a model says that calls each of these tools. */
const message = (turn, ...tools) => ({
  id: turn, type: 'message', role: 'assistant', stop_reason: 'tool_use',
  content: tools.map((tool) => ({ type: 'tool_use', id: `${turn}_${tool}`, name: tool, input: {} })),
})

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': 'agent' }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
})
provider.register()
const tracer = trace.getTracer('agent')
const within = (name, work) => tracer.startActiveSpan(name, async (span) => {
  try {
    return await work()
  } finally {
    span.end()
  }
})

const sidecall = Sidecall.connect(process.argv[2])
await within('invoke_agent desk', () => Promise.all([
  within('turn', () => sidecall.runTools(message('first', 'flaky', 'remote_look'), { conversationId: 'c-1' })),
  within('asynchronous turn', () => sidecall.runTools(message('later', 'fine'), { conversationId: 'c-1' })),
]))
await sidecall.close()
await provider.shutdown()
