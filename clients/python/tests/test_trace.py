"""Which span a request says that it belongs to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import unittest
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from sidecall import AsyncSidecall, Call, Sidecall, pb
from sidecall.v1 import tool_service_pb2_grpc as pb_grpc

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Listening(pb_grpc.ToolServiceServicer):
    """Keeps the trace context of every request."""

    def __init__(self) -> None:
        self.heard: list[dict[str, str]] = []

    def ExecuteTool(self, request: Any, context: grpc.ServicerContext) -> Any:
        sent = [(str(k), str(v)) for k, v in context.invocation_metadata() if k.startswith(("trace", "baggage"))]
        assert len(sent) == len(dict(sent)), sent
        self.heard.append(dict(sent))
        return pb.ExecuteToolResponse(tool_use_id=request.tool_use_id)


class TraceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.sidecar = Listening()
        server = grpc.server(futures.ThreadPoolExecutor(2))
        pb_grpc.add_ToolServiceServicer_to_server(self.sidecar, server)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.target = f"unix://{Path(directory.name) / 's'}"
        server.add_insecure_port(self.target)
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())

    def within(self, flags: int = 1, state: tuple[tuple[str, str], ...] = ()) -> Any:
        context = SpanContext(TRACE, SPAN, is_remote=False, trace_flags=TraceFlags(flags), trace_state=TraceState(state))
        return trace.use_span(NonRecordingSpan(context))

    def test_the_current_span_and_baggage_are_told(self) -> None:
        with Sidecall(self.target) as client:
            with self.within():
                client.execute_tool(Call("1", "t"), conversation_id="c")
            with self.within(flags=0, state=(("vendor", "x"),)):
                client.execute_tool(Call("2", "t"), conversation_id="c")
            client.execute_tool(Call("3", "t"), conversation_id="c")
            token = context.attach(baggage.set_baggage("tenant", "acme&co"))
            self.addCleanup(context.detach, token)
            client.execute_tool(Call("4", "t"), conversation_id="c")
        self.assertEqual(self.sidecar.heard, [
            {"traceparent": PARENT}, {"traceparent": PARENT[:-1] + "0", "tracestate": "vendor=x"}, {}, {"baggage": "tenant=acme%26co"},
        ])  # fmt: skip

    def test_each_task_has_its_own(self) -> None:
        async def call(client: AsyncSidecall, name: str, traced: bool) -> None:
            if traced:
                with self.within():
                    await client.execute_tool(Call(name, "t"), conversation_id="c")
            else:
                await client.execute_tool(Call(name, "t"), conversation_id="c")

        async def both() -> None:
            async with AsyncSidecall(self.target) as client:
                await asyncio.gather(call(client, "1", True), call(client, "2", False))

        asyncio.run(both())
        self.assertCountEqual(self.sidecar.heard, [{"traceparent": PARENT}, {}])

    def test_nothing_is_imported_where_nobody_traces(self) -> None:
        code = f"""
import sys
from sidecall import Call, Sidecall
with Sidecall({self.target!r}) as client:
    client.execute_tool(Call("1", "t"), conversation_id="c")
assert not [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]
"""
        subprocess.run([sys.executable, "-B", "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
        self.assertEqual(self.sidecar.heard, [{}])
