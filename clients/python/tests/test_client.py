"""The client against a sidecar that answers as it is told to."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Callable
from concurrent import futures
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
from google.protobuf.duration_pb2 import Duration

from sidecall import BrokenAnswer, Call, Sidecall, _request, pb
from sidecall.v1 import tool_service_pb2_grpc as pb_grpc


class Fake(pb_grpc.ToolServiceServicer):
    """Records every request and gives the answer that the test set."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answer: Callable[[Any], Any] = lambda request: None
        self.status: grpc.StatusCode | None = None

    def _serve(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
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

    def test_every_part_of_a_call_arrives(self) -> None:
        self.fake.answer = lambda r: pb.ExecuteToolResponse(tool_use_id=r.tool_use_id, content="42")
        result = self.client.execute_tool(
            Call("toolu_1", "answer", '{"q": 1.0}'),
            conversation_id="c", turn_id="t", prompt_id="p", profile="research", validate_only=True,
            timeout=timedelta(milliseconds=1500), max_output_chars=100, tokens_used=7, labels={"team": "shop"},
            allow_duplicate_effect=True,
        )
        self.assertEqual(result.content, "42")
        self.assertEqual(self.fake.requests, [pb.ExecuteToolRequest(
            tool_use_id="toolu_1", tool_name="answer", arguments_json='{"q": 1.0}',
            conversation_id="c", turn_id="t", prompt_id="p", profile="research", validate_only=True,
            timeout=Duration(seconds=1, nanos=500_000_000), max_output_chars=100, tokens_used=7,
            labels={"team": "shop"}, allow_duplicate_effect=True,
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
            self.client.execute_tool(Call("1", "t"), promt_id="p")
        self.assertEqual(self.fake.requests, [])

    def test_a_failed_tool_is_a_result(self) -> None:
        self.fake.answer = lambda r: pb.ExecuteToolResponse(is_error=True, error=pb.ToolError(code="NOT_FOUND"))
        result = self.client.execute_tool(Call("1", "get_order"))
        self.assertTrue(result.is_error)
        self.assertEqual(result.error.code, "NOT_FOUND")

    def test_nothing_is_sent_twice(self) -> None:
        self.fake.status = grpc.StatusCode.UNAVAILABLE
        with self.assertRaises(grpc.RpcError) as raised:
            self.client.execute_tool(Call("1", "refund"))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(len(self.fake.requests), 1)

    def test_a_batch_has_one_result_per_call_in_order(self) -> None:
        self.fake.answer = lambda r: pb.ExecuteToolsResponse(
            results=[pb.ExecuteToolResponse(tool_use_id=c.tool_use_id, content=c.turn_id) for c in r.calls])
        results = self.client.execute_tools([Call("b", "t"), Call("a", "t")], turn_id="7")
        self.assertEqual([(r.tool_use_id, r.content) for r in results], [("b", "7"), ("a", "7")])

    def test_a_batch_with_other_results_is_broken(self) -> None:
        for ids in (["a"], ["a", "b", "b"], ["b", "a"]):
            with self.subTest(ids=ids):
                self.fake.answer = lambda r, ids=ids: pb.ExecuteToolsResponse(
                    results=[pb.ExecuteToolResponse(tool_use_id=i) for i in ids])
                with self.assertRaises(BrokenAnswer):
                    self.client.execute_tools([Call("a", "t"), Call("b", "t")])

    def test_a_turn_without_calls_asks_nobody(self) -> None:
        self.assertEqual(self.client.execute_tools([]), [])
        self.assertEqual(self.fake.requests, [])

    def test_a_result_may_be_large(self) -> None:
        large = "x" * (8 << 20)
        self.fake.answer = lambda r: pb.ExecuteToolResponse(content=large)
        self.assertEqual(self.client.execute_tool(Call("1", "dump")).content, large)

    def test_all_pages_are_listed(self) -> None:
        following = {"": "2", "2": "3", "3": ""}
        self.fake.answer = lambda r: pb.ListToolsResponse(
            tools=[pb.Tool(name="tool_" + r.page_token)], next_page_token=following[r.page_token]
        )
        self.assertEqual([t.name for t in self.client.list_tools()], ["tool_", "tool_2", "tool_3"])

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
            self.client.execute_tool(Call("1", "slow"), rpc_timeout=0.05)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        release.set_result(pb.ExecuteToolResponse())


if __name__ == "__main__":
    unittest.main()
