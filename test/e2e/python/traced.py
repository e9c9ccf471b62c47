"""A traced agent: it runs the tools of two messages within spans of its own, and sends
the spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.

usage: traced.py TARGET
"""

import asyncio
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sidecall import AsyncSidecall, Sidecall


def message(turn: str, *tools: str) -> dict:
    """What a model says that calls each of these tools."""
    calls = [{"type": "tool_use", "id": f"{turn}_{tool}", "name": tool, "input": {}} for tool in tools]
    return {"id": turn, "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": calls}


async def asynchronous(target: str) -> None:
    async with AsyncSidecall.connect(target) as s:
        await s.run_tools(message("later", "fine"), conversation_id="c-1")


(target,) = sys.argv[1:]
provider = TracerProvider(resource=Resource.create({"service.name": "agent"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("agent")

with tracer.start_as_current_span("invoke_agent desk"):
    with Sidecall.connect(target) as s, tracer.start_as_current_span("turn"):
        s.run_tools(message("first", "flaky", "remote_look"), conversation_id="c-1")
    with tracer.start_as_current_span("asynchronous turn"):
        asyncio.run(asynchronous(target))
provider.shutdown()
