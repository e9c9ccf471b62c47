"""What may stand in a call, and what is refused before anything is sent."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from concurrent import futures
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from sidecall import Call, Sidecall, WrongField, pb
from sidecall.v1 import tool_service_pb2_grpc as pb_grpc

CALL = Call("1", "t")


class Fake(pb_grpc.ToolServiceServicer):
    """Records every request, and answers each call with its ids."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def ExecuteTool(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        return pb.ExecuteToolResponse(tool_use_id=request.tool_use_id)

    def ExecuteTools(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        return pb.ExecuteToolsResponse(results=[
            pb.ExecuteToolResponse(tool_use_id=c.tool_use_id, content=f"{c.conversation_id}/{c.turn_id}") for c in request.calls])

    def ListTools(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        return pb.ListToolsResponse()


#: Each wrong call and its keywords; the field that the error names; a part of
#: what it says.
WRONG: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "another case": (CALL, {"conversationId": "c"}, "conversationId", "Did you mean conversation_id?"),
    "a slip of the finger": (CALL, {"promt_id": "p"}, "promt_id", "Did you mean prompt_id?"),
    "nothing that is near": (CALL, {"zzz": 1}, "zzz", "known are allow_duplicate_effect, conversation_id, hold_only"),
    "a part of the call": (CALL, {"tool_use_id": "1"}, "tool_use_id", "it belongs into the Call"),
    "arguments outside": (CALL, {"arguments": {}}, "arguments", "it belongs into the Call"),
    "a call that is none": ({"id": "1"}, {}, "call", "want a Call, got a dict"),
    "arguments as a list": (Call("1", "t", [1]), {}, "arguments", "want a JSON text or a mapping, got a list"),
    "arguments as bytes": (Call("1", "t", b"{}"), {}, "arguments", "want a JSON text or a mapping, got a bytes"),
    "arguments that are no JSON": (Call("1", "t", {"at": timedelta(1)}), {}, "arguments", "Object of type timedelta is not JSON serializable"),
    "arguments of themselves": (Call("1", "t", (lambda d: d.update(d=d) or d)({})), {}, "arguments", "Circular reference"),
    "no id": (Call(None, "t"), {}, "tool_use_id", "want a str or an int, got None"),
    "an id that is a fraction": (CALL, {"turn_id": 1.5}, "turn_id", "want a str or an int, got 1.5"),
    "an id that is a flag": (CALL, {"turn_id": True}, "turn_id", "want a str or an int, got True"),
    "a lone surrogate in an id": (Call("a\ud800", "t"), {}, "tool_use_id", "a lone surrogate at index 1"),
    "a lone surrogate in a label": (CALL, {"labels": {"team": "\udc00"}}, "labels['team']", "a lone surrogate at index 0"),
    "a name that is a number": (Call("1", 7), {}, "tool_name", "want a str, got 7"),
    "a profile that is a number": (CALL, {"profile": 7}, "profile", "want a str, got 7"),
    "a label that is a number": (CALL, {"labels": {"team": 7}}, "labels['team']", "want a str, got 7"),
    "labels that are a list": (CALL, {"labels": ["team"]}, "labels", "want a mapping of str, got a list"),
    "a timeout as text": (CALL, {"timeout": "5s"}, "timeout", "want seconds or a timedelta, got '5s'"),
    "a timeout without end": (CALL, {"timeout": float("inf")}, "timeout", "want seconds or a timedelta, got inf"),
    "a timeout of ages": (CALL, {"timeout": 1e15}, "timeout", "want seconds or a timedelta, got 1000000000000000.0"),
    "a flag as text": (CALL, {"validate_only": "yes"}, "validate_only", "want a bool, got 'yes'"),
    "a number as text": (CALL, {"max_output_chars": "5"}, "max_output_chars", "want an int, got '5'"),
    "a number too large": (CALL, {"max_output_chars": 1 << 31}, "max_output_chars", "want an int up to 2147483647"),
    "a fraction": (CALL, {"tokens_used": 1.5}, "tokens_used", "want an int, got 1.5"),
    "a wait as text": (CALL, {"rpc_timeout": "5s"}, "rpc_timeout", "want seconds or a timedelta, got '5s'"),
}


class RequestTest(unittest.TestCase):
    def setUp(self) -> None:
        self.fake = Fake()
        server = grpc.server(futures.ThreadPoolExecutor(2))
        pb_grpc.add_ToolServiceServicer_to_server(self.fake, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        self.client = Sidecall(f"tcp://127.0.0.1:{port}")
        self.addCleanup(self.client.close)

    def refused(self, run: Callable[[], Any], field: str, says: str) -> None:
        with self.assertRaises(WrongField) as raised:
            run()
        self.assertEqual(raised.exception.field, field)
        self.assertTrue(str(raised.exception).startswith(f"{field}: "), str(raised.exception))
        self.assertIn(says, str(raised.exception))
        self.assertEqual(self.fake.requests, [])

    def test_what_is_wrong_is_refused_by_its_name(self) -> None:
        for name, (call, fields, field, says) in WRONG.items():
            with self.subTest(name):
                self.refused(lambda: self.client.execute_tool(call, **{"conversation_id": "c", **fields}), field, says)
                in_call = "" if fields else "calls[1]" if field == "call" else "calls[1]."
                whole = in_call if field == "call" else in_call + field
                self.refused(lambda: self.client.execute_tools([CALL, call], **{"conversation_id": "c", **fields}), whole, says)

    def test_calls_that_are_no_list_are_refused(self) -> None:
        for calls, says in ((CALL, "want a list of Calls, got a Call"), (7, "want a list of Calls, got 7"), ("toolu_1", "got 'toolu_1'")):
            with self.subTest(says):
                self.refused(lambda calls=calls: self.client.execute_tools(calls), "calls", says)

    def test_a_target_that_is_none_is_refused(self) -> None:
        for target in (None, "", "tcp://127.0.0.1", "tcp://", "unix://sidecall.sock", "http://127.0.0.1:8470"):
            with self.subTest(target):
                self.refused(lambda target=target: Sidecall(target), "target", "want tcp://host:port or unix:///path, got ")

    def test_what_is_not_given_is_not_sent(self) -> None:
        self.client.execute_tool(
            Call("1", "t", None), conversation_id="", turn_id=None, labels=None, timeout=None, profile=None)
        self.assertEqual(self.fake.requests, [pb.ExecuteToolRequest(tool_use_id="1", tool_name="t")])

    def test_integers_are_ids_and_results_are_told_apart_by_them(self) -> None:
        results = self.client.execute_tools([Call(7, "t"), Call("8", "t")], conversation_id=12, turn_id=0)
        self.assertEqual([(r.tool_use_id, r.content) for r in results], [("7", "12/0"), ("8", "12/0")])

    def test_seconds_are_a_timeout(self) -> None:
        for given, wanted in (
            (2, Duration(seconds=2)), (1.5, Duration(seconds=1, nanos=500_000_000)), (0.0005, Duration(nanos=500_000)),
            (timedelta(milliseconds=1500), Duration(seconds=1, nanos=500_000_000)), (Duration(seconds=3), Duration(seconds=3)),
            (-1, Duration(seconds=-1)),  # the sidecar's to refuse
        ):
            with self.subTest(given):
                self.fake.requests.clear()
                self.client.execute_tool(CALL, conversation_id="c", timeout=given)
                self.assertEqual(self.fake.requests[0].timeout, wanted)

    def test_waiting_takes_them_too(self) -> None:
        for given in (600, 600.0, timedelta(minutes=10)):
            self.client.execute_tool(CALL, conversation_id="c", rpc_timeout=given)
            self.client.list_tools(rpc_timeout=given)

    def test_a_lone_surrogate_that_a_model_made_up_is_sent_so_that_it_is_told_of_it(self) -> None:
        text = '{"a":"\ud83d","b":"\ude00x","c":"😀"}'
        self.client.execute_tool(Call("1", "get\ud83d", text), conversation_id="c")
        self.assertEqual(self.fake.requests[0].tool_name, "get\ufffd")
        self.assertEqual(self.fake.requests[0].arguments_json, '{"a":"\\ud83d","b":"\\ude00x","c":"😀"}')
        self.client.execute_tool(Call("1", "t", MappingProxyType({"a": "\ud83d"})), conversation_id="c")
        self.assertEqual(self.fake.requests[1].arguments_json, '{"a": "\\ud83d"}')

    def test_a_list_of_tools_is_asked_for_by_a_name(self) -> None:
        self.refused(lambda: self.client.list_tools(7), "profile", "want a str, got 7")
        self.refused(lambda: self.client.list_tools("\ud800"), "profile", "a lone surrogate at index 0")


if __name__ == "__main__":
    unittest.main()
