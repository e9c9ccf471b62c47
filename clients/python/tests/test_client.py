"""The client against a sidecar that answers as it is told to."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from concurrent import futures
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
from google.protobuf.duration_pb2 import Duration

from sidecall import AsyncSidecall, BrokenAnswer, Call, ClientClosed, Sidecall, SidecarAway, WrongField, _request, pb
from sidecall.v1 import tool_service_pb2_grpc as pb_grpc


class Fake(pb_grpc.ToolServiceServicer):
    """Records every request and gives the answer that the test set."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answer: Callable[[Any], Any] = lambda request: None
        self.refuses: Callable[[Any], bool] = lambda request: False
        self.status: grpc.StatusCode | None = None

    def _serve(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        if self.refuses(request):
            context.set_trailing_metadata((("sidecall-max-request-bytes", "4194304"),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the request has too many bytes")
        if self.status is not None:
            context.abort(self.status, "as the test wants it")
        return self.answer(request)

    ExecuteTool = ExecuteTools = ListTools = _serve


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        self.fake = Fake()
        server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
        pb_grpc.add_ToolServiceServicer_to_server(self.fake, server)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.socket = f"unix://{Path(directory.name) / 's'}"
        self.port = server.add_insecure_port("127.0.0.1:0")
        server.add_insecure_port(self.socket)
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        self.client = Sidecall(f"tcp://127.0.0.1:{self.port}")
        self.addCleanup(self.client.close)

    def test_a_client_that_is_closed_says_so(self) -> None:
        asked, go_on = threading.Event(), threading.Event()

        def answer(request: Any) -> Any:
            asked.set()
            go_on.wait()

        self.fake.answer = answer
        call = Call("a", "x")
        with futures.ThreadPoolExecutor(1) as pool:
            under = pool.submit(self.client.execute_tool, call, conversation_id="c")
            asked.wait()
            self.client.close()
            self.assertIsInstance(under.exception(), ClientClosed)
            go_on.set()
        self.client.tool(name="x", description="X.")(lambda: "x")
        for ask in (
            lambda: self.client.execute_tool(call, conversation_id="c"),
            self.client.tools,
            lambda: self.client.conversation("c", "anthropic"),
            lambda: self.client.work().start(),
        ):
            with self.assertRaisesRegex(ClientClosed, "the client is closed"):
                ask()

    def test_one_that_is_awaited_says_so_too(self) -> None:
        asked, go_on = threading.Event(), threading.Event()

        def answer(request: Any) -> Any:
            asked.set()
            go_on.wait()

        async def close_it() -> None:
            client = AsyncSidecall(f"tcp://127.0.0.1:{self.port}")
            under = asyncio.ensure_future(client.execute_tool(Call("a", "x"), conversation_id="c"))
            await asyncio.to_thread(asked.wait)
            await client.close()
            broken_off = ClientClosed if sys.version_info >= (3, 11) else asyncio.CancelledError
            with self.assertRaises(broken_off):
                await under
            for ask in (lambda: client.execute_tool(Call("a", "x"), conversation_id="c"), client.tools):
                with self.assertRaisesRegex(ClientClosed, "the client is closed"):
                    await ask()

        self.fake.answer = answer
        self.addCleanup(go_on.set)
        asyncio.run(close_it())

    def test_every_part_of_a_call_arrives(self) -> None:
        self.fake.answer = lambda r: pb.ExecuteToolResponse(tool_use_id=r.tool_use_id, content="42")
        result = self.client.execute_tool(
            Call("toolu_1", "answer", '{"q": 1.0}'),
            conversation_id="c", turn_id="t", message_id="m", prompt_id="p", profile="research", validate_only=True,
            timeout=timedelta(milliseconds=1500), max_output_chars=100, tokens_used=7, labels={"team": "shop"},
            allow_duplicate_effect=True, hold_only=True,
        )
        self.assertEqual(result.content, "42")
        self.assertEqual(self.fake.requests, [pb.ExecuteToolRequest(
            tool_use_id="toolu_1", tool_name="answer", arguments_json='{"q": 1.0}',
            conversation_id="c", turn_id="t", message_id="m", prompt_id="p", profile="research", validate_only=True,
            timeout=Duration(seconds=1, nanos=500_000_000), max_output_chars=100, tokens_used=7,
            labels={"team": "shop"}, allow_duplicate_effect=True, hold_only=True,
        )])

    def test_every_field_of_the_contract_can_be_set(self) -> None:
        own = {"tool_use_id", "tool_name", "arguments_json"}
        fields = {field.name for field in pb.ExecuteToolRequest.DESCRIPTOR.fields}
        self.assertEqual(fields - own, set(_request._FIELDS))

    def test_arguments_as_text_stay_untouched_and_a_mapping_becomes_json(self) -> None:
        self.assertEqual(Call("1", "t").arguments_json(), "")
        self.assertEqual(Call("1", "t", "{not json").arguments_json(), "{not json")
        self.assertEqual(Call("1", "t", {"who": "Zoë"}).arguments_json(), '{"who": "Zoë"}')

    def test_a_field_that_the_contract_does_not_have_is_an_error_here(self) -> None:
        with self.assertRaises(ValueError):
            self.client.execute_tool(Call("1", "t"), conversation_id="c", promt_id="p")
        self.assertEqual(self.fake.requests, [])

    def test_a_failed_tool_is_a_result(self) -> None:
        self.fake.answer = lambda r: pb.ExecuteToolResponse(is_error=True, error=pb.ToolError(code="NOT_FOUND"))
        result = self.client.execute_tool(Call("1", "get_order"), conversation_id="c")
        self.assertTrue(result.is_error)
        self.assertEqual(result.error.code, "NOT_FOUND")

    def test_nothing_is_sent_twice(self) -> None:
        self.fake.status = grpc.StatusCode.UNAVAILABLE
        with self.assertRaisesRegex(SidecarAway, rf"the sidecar at tcp://127.0.0.1:{self.port} does not answer: as the test wants it.*Start it"):
            self.client.execute_tool(Call("1", "refund"), conversation_id="c")
        self.assertEqual(len(self.fake.requests), 1)

    def test_a_batch_has_one_result_per_call_in_order(self) -> None:
        self.fake.answer = lambda r: pb.ExecuteToolsResponse(
            results=[pb.ExecuteToolResponse(tool_use_id=c.tool_use_id, content=c.turn_id) for c in r.calls])
        results = self.client.execute_tools([Call("b", "t"), Call("a", "t")], conversation_id="c", turn_id="7")
        self.assertEqual([(r.tool_use_id, r.content) for r in results], [("b", "7"), ("a", "7")])

    def test_a_batch_with_other_results_is_broken(self) -> None:
        for ids in (["a"], ["a", "b", "b"], ["b", "a"]):
            with self.subTest(ids=ids):
                self.fake.answer = lambda r, ids=ids: pb.ExecuteToolsResponse(
                    results=[pb.ExecuteToolResponse(tool_use_id=i) for i in ids])
                with self.assertRaises(BrokenAnswer):
                    self.client.execute_tools([Call("a", "t"), Call("b", "t")], conversation_id="c")

    def takes_at_most(self, fits: Callable[[Any], bool]) -> None:
        """Refuses requests as a sidecar does that takes only so much."""
        self.fake.refuses = lambda r: not fits(r.calls if isinstance(r, pb.ExecuteToolsRequest) else [r])
        self.fake.answer = lambda r: pb.ExecuteToolsResponse(
            results=[pb.ExecuteToolResponse(tool_use_id=c.tool_use_id, content="ran") for c in r.calls])

    def test_a_call_that_no_request_can_hold_costs_one_result(self) -> None:
        self.takes_at_most(lambda calls: all(len(c.arguments_json) < 50 for c in calls))
        large, calls = Call("b", "save", "ä" * 100), [Call(i, "save", "{}") for i in "acd"]
        results = self.client.execute_tools([calls[0], large, *calls[1:]], conversation_id="c")
        self.assertEqual([(r.tool_use_id, r.is_error) for r in results], [("a", False), ("b", True), ("c", False), ("d", False)])
        error = results[1].error
        self.assertEqual(
            (error.code, error.field, error.constraint, error.received, error.hint),
            ("INVALID_ARGS", "", "a call has at most 4194304 bytes (limits.max_request_bytes)", "(200 bytes of arguments)",
             "Nothing was run. Shorten the arguments, or split them, then call save again: once for each part."),
        )  # fmt: skip
        self.assertEqual(json.loads(results[1].content)["constraint"], error.constraint)
        self.assertEqual(getattr(results[1].recovery, "class"), pb.RECOVERY_CLASS_MALFORMED)
        self.assertEqual(self.client.execute_tool(large, conversation_id="c").error, error)

    def test_calls_that_do_not_fit_into_one_request_go_in_several(self) -> None:
        self.takes_at_most(lambda calls: len(calls) <= 2)
        results = self.client.execute_tools([Call(i, "save") for i in "abcdefg"], conversation_id="c")
        self.assertEqual([(r.tool_use_id, r.content) for r in results], [(i, "ran") for i in "abcdefg"])

    def test_a_request_that_is_refused_for_want_of_room_is_no_call_of_a_model(self) -> None:
        self.fake.status = grpc.StatusCode.RESOURCE_EXHAUSTED
        with self.assertRaises(grpc.RpcError):
            self.client.execute_tools([Call("a", "save")], conversation_id="c")

    def test_calls_of_no_conversation_are_not_sent(self) -> None:
        call: Any = Call("1", "save")
        for ask in (
            lambda c: c.execute_tool(call, conversation_id=None),
            lambda c: c.execute_tools([call], conversation_id=None),
            lambda c: c.run_tools({"role": "assistant", "content": "done"}, conversation_id=None),
        ):
            with self.assertRaisesRegex(WrongField, "conversation_id: every call belongs to a conversation"):
                ask(self.client)
        with self.assertRaisesRegex(ValueError, "conversation_id"):
            self.client.execute_tool(call)
        self.assertEqual(self.fake.requests, [])

    def test_a_turn_without_calls_asks_nobody(self) -> None:
        self.assertEqual(self.client.execute_tools([], conversation_id="c"), [])
        self.assertEqual(self.fake.requests, [])

    def test_a_result_may_be_large(self) -> None:
        large = "x" * (8 << 20)
        self.fake.answer = lambda r: pb.ExecuteToolResponse(content=large)
        self.assertEqual(self.client.execute_tool(Call("1", "dump"), conversation_id="c").content, large)

    def test_all_pages_are_listed(self) -> None:
        following = {"": "2", "2": "3", "3": ""}
        self.fake.answer = lambda r: pb.ListToolsResponse(
            tools=[pb.Tool(name="tool_" + r.page_token)], next_page_token=following[r.page_token]
        )
        self.assertEqual([t.name for t in self.client.list_tools()], ["tool_", "tool_2", "tool_3"])

    def test_a_close_that_is_broken_off_ends_its_sidecar(self) -> None:
        async def cancelled() -> None:
            client = AsyncSidecall(self.socket)
            client._launched, client._works = launched, [mock.Mock(stop=mock.AsyncMock(side_effect=asyncio.CancelledError))]
            with self.assertRaises(asyncio.CancelledError):
                await client.close()
            with self.assertRaises(ClientClosed):
                await client.list_tools()

        launched = mock.Mock()
        asyncio.run(cancelled())
        launched.stop.assert_called_once_with()
        client, launched = Sidecall(self.socket), mock.Mock()
        client._launched, client._works = launched, [mock.Mock(**{"stop.side_effect": KeyboardInterrupt})]
        with self.assertRaises(KeyboardInterrupt):
            client.close()
        launched.stop.assert_called_once_with()
        with self.assertRaises(ClientClosed):
            client.list_tools()

    def test_targets(self) -> None:
        self.fake.answer = lambda r: pb.ListToolsResponse(tools=[pb.Tool(name=r.profile)])
        # A proxy that is set for the rest of the machine is none of our business.
        with mock.patch.dict("os.environ", {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}):
            for target in (f"tcp://127.0.0.1:{self.port}", f"127.0.0.1:{self.port}", self.socket):
                with self.subTest(target=target), Sidecall(target) as client:
                    self.assertEqual(client.list_tools("code", rpc_timeout=10)[0].name, "code")

    def test_waiting_ends(self) -> None:
        release = futures.Future()
        self.fake.answer = lambda r: release.result()
        with self.assertRaises(grpc.RpcError) as raised:
            self.client.execute_tool(Call("1", "slow"), conversation_id="c", rpc_timeout=0.05)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        release.set_result(pb.ExecuteToolResponse())


if __name__ == "__main__":
    unittest.main()
