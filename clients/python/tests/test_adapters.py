"""The way of a framework's calls, without a framework: which of them are sent together,
and what a task that gives up leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import unittest
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent import futures
from typing import Any
from unittest import mock

import grpc

from sidecall import AsyncSidecall, Call, Context, Failure, Sidecall, SidecarAway, WorkerRefused, WrongField, WrongTool, pb
from sidecall.adapters._calls import MOST_ROUNDS, Calls, about, identity, schema, text
from sidecall.adapters._own import Declared, Own
from sidecall.v1 import tool_service_pb2_grpc
from sidecall.v1 import worker_service_pb2 as worker_pb
from tests.test_session import Fake

IDS = {"conversation_id": "c", "turn_id": "1"}


class CallsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.fake = Fake()
        server = grpc.server(futures.ThreadPoolExecutor(4))
        tool_service_pb2_grpc.add_ToolServiceServicer_to_server(self.fake, server)
        self.target = f"tcp://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())

    @contextlib.asynccontextmanager
    async def _client(self, kind: type[Sidecall | AsyncSidecall]) -> AsyncIterator[Sidecall | AsyncSidecall]:
        client = kind(self.target)
        try:
            yield client
        finally:
            if isinstance(client, AsyncSidecall):
                await client.close()
            else:
                client.close()

    def each(self, test: Callable[[Calls], Awaitable[None]], **fields: Any) -> None:
        """Runs a test on an event loop with both clients."""

        async def run(kind: type[Sidecall | AsyncSidecall]) -> None:
            async with self._client(kind) as client:
                await test(Calls(client, fields))

        for kind in (Sidecall, AsyncSidecall):
            with self.subTest(kind.__name__):
                self.fake.requests.clear()
                asyncio.run(run(kind))

    def batches(self) -> list[list[str]]:
        return [[call.tool_use_id for call in r.calls] for r in self.fake.requests if isinstance(r, pb.ExecuteToolsRequest)]

    def test_calls_of_one_turn_are_one_request(self) -> None:
        async def test(calls: Calls) -> None:
            results = await asyncio.gather(
                calls.run_async(Call("a", "t", '{"n": 1}'), IDS),
                calls.run_async(Call("b", "t", '{"n": 2}'), IDS),
                calls.run_async(Call("a", "t", '{"n": 3}'), {**IDS, "turn_id": "2"}),
            )
            self.assertEqual([r.content for r in results], ['{"n": 1}', '{"n": 2}', '{"n": 3}'])
            self.assertEqual(sorted(self.batches()), [["a"], ["a", "b"]])
            await calls.run_async(Call("c", "t"), IDS)  # what comes later is a request of its own
            self.assertEqual(len(self.batches()), 3)
            self.assertEqual({call.profile for call in self.fake.calls()}, {"research"})
            self.assertEqual(calls._open, {})

        self.each(test, profile="research", prompt_id=None)

    def test_calls_that_are_known_to_come_are_waited_for(self) -> None:
        async def test(calls: Calls) -> None:
            async def late() -> pb.ExecuteToolResponse:
                for _ in range(2 * MOST_ROUNDS):
                    await asyncio.sleep(0)
                return await calls.run_async(Call("b", "t"), IDS, 2)

            await asyncio.gather(calls.run_async(Call("a", "t"), IDS, 2), late())
            self.assertEqual(self.batches(), [["a", "b"]])
            await calls.run_async(Call("c", "t"), IDS, 2)  # the other one never comes
            self.assertEqual(self.batches()[1:], [["c"]])

        self.each(test)

    def test_a_call_that_is_given_up_before_it_is_sent_is_not(self) -> None:
        async def test(calls: Calls) -> None:
            given_up = asyncio.ensure_future(calls.run_async(Call("a", "t"), IDS))
            kept = asyncio.ensure_future(calls.run_async(Call("b", "t", "{}"), IDS))
            await asyncio.sleep(0)
            given_up.cancel()
            self.assertEqual((await kept).content, "{}")
            self.assertEqual(self.batches(), [["b"]])
            with self.assertRaises(asyncio.CancelledError):
                await given_up
            self.assertEqual(calls._open, {})

        self.each(test)

    def test_a_task_that_leaves_cancels_only_what_nobody_else_waits_for(self) -> None:
        async def test(calls: Calls) -> None:
            begun, end, left = threading.Event(), threading.Event(), threading.Event()
            serve = self.fake.result

            def slow(call: Any) -> Any:
                begun.set()
                end.wait(30)
                return serve(call)

            self.fake.result = slow
            with contextlib.ExitStack() as stack:
                stack.callback(end.set)
                tasks = [asyncio.ensure_future(calls.run_async(Call(id, "t", "{}"), IDS)) for id in "ab"]
                await asyncio.to_thread(begun.wait, 30)
                tasks[0].cancel()
                await asyncio.wait(tasks[:1])
                self.assertFalse(tasks[1].done())
                end.set()
                self.assertEqual((await tasks[1]).content, "{}")

                begun.clear()
                end.clear()
                task = asyncio.ensure_future(calls.run_async(Call("c", "t"), IDS))
                await asyncio.to_thread(begun.wait, 30)
                self.fake.rpcs[-1].add_callback(left.set)
                task.cancel()
                await asyncio.wait([task])
                self.assertTrue(await asyncio.to_thread(left.wait, 30))  # while the tool is still at it
                self.assertFalse(end.is_set())
            self.fake.result = serve

        self.each(test)

    def test_a_call_that_cannot_be_sent_spoils_no_other(self) -> None:
        async def test(calls: Calls) -> None:
            bad, good = await asyncio.gather(
                calls.run_async(Call("a", "t", {1j: 1}), IDS), calls.run_async(Call("b", "t", "{}"), IDS), return_exceptions=True
            )
            self.assertIsInstance(bad, WrongField)
            self.assertEqual(good.content, "{}")

        self.each(test)

    def test_a_sidecar_that_is_away_is_sent_the_same_ids_again(self) -> None:
        async def test(calls: Calls) -> None:
            self.fake.statuses = [grpc.StatusCode.UNAVAILABLE] * 2
            await calls.run_async(Call("a", "t"), IDS)
            self.assertEqual(self.batches(), [["a"]] * 3)

        self.each(test)

    def test_a_sidecar_that_stays_away_is_said(self) -> None:
        async def test(calls: Calls) -> None:
            self.fake.statuses = [grpc.StatusCode.UNAVAILABLE] * 20
            calls._awaited._patience = 0
            with self.assertRaisesRegex(SidecarAway, f"the sidecar at {self.target} does not answer"):
                await calls.run_async(Call("a", "t"), IDS)
            self.fake.statuses = []

        self.each(test)

    def test_what_a_sidecar_refuses_is_raised(self) -> None:
        async def test(calls: Calls) -> None:
            self.fake.statuses = [grpc.StatusCode.PERMISSION_DENIED]
            answers = await asyncio.gather(*(calls.run_async(Call(id, "t"), IDS) for id in "ab"), return_exceptions=True)
            for answer in answers:
                assert isinstance(answer, grpc.RpcError)
                self.assertEqual(answer.code(), grpc.StatusCode.PERMISSION_DENIED)

        self.each(test)

    def test_one_client_serves_several_event_loops_and_threads(self) -> None:
        with Sidecall(self.target) as client:
            calls = Calls(client, {})

            def run(id: str) -> str:
                return asyncio.run(calls.run_async(Call(id, "t", f'"{id}"'), IDS)).content

            with futures.ThreadPoolExecutor(4) as threads:
                self.assertEqual(list(threads.map(run, "abcd")), ['"a"', '"b"', '"c"', '"d"'])
            self.assertEqual(calls.run([Call("e", "t", "5")], IDS)[0].content, "5")

    def test_what_is_wrong_is_said_at_once(self) -> None:
        with Sidecall(self.target) as client:
            for make, words in (
                (lambda: Calls("tcp://127.0.0.1:1", {}), "client: want a Sidecall or an AsyncSidecall, got a str"),  # type: ignore[arg-type]
                (lambda: Calls(client, {"promt_id": "p"}), "promt_id: there is no such field. Did you mean prompt_id?"),
                (lambda: Calls(client, {"timeout": "soon"}), "timeout: want seconds or a timedelta, got 'soon'"),
                (lambda: identity(None, "give it one"), "conversation_id: this run has none: give it one"),
                (lambda: identity("", "give it one"), "conversation_id: this run has none: give it one"),
            ):
                with self.subTest(words), self.assertRaises(WrongField) as raised:
                    make()
                self.assertEqual(str(raised.exception), words)

    def test_what_a_model_and_a_program_are_told(self) -> None:
        picture = pb.ContentBlock(type="image", mime_type="image/png", data=b"png", size=3)
        result = pb.ExecuteToolResponse(content='{"code":"X"}', notices=["Cut."], blocks=[picture], stop=True, is_error=True)
        self.assertEqual(text(result, frozenset(("image/png",))), '{"code":"X"}\n\nCut.')
        self.assertEqual(text(result), '{"code":"X"}\n\nCut.\n\n(image of image/png, 3 bytes: it cannot be shown here)')
        self.assertEqual(about(result), {"is_error": True, "stop": True, "notices": ["Cut."]})
        self.assertEqual(identity(7, ""), "7")
        for written in ("", "{}", "true"):
            self.assertEqual(schema(pb.Tool(input_schema_json=written)), {"type": "object", "properties": {}})


class IdTest(unittest.TestCase):
    def test_a_client_has_another_id_in_another_process(self) -> None:
        def another(client: Sidecall | AsyncSidecall) -> None:
            before = client.client_id
            self.assertEqual(before, client.client_id)
            with mock.patch("os.getpid", return_value=os.getpid() + 1):  # as after a fork
                self.assertNotEqual(before, client.client_id)

        async def main() -> None:
            async with AsyncSidecall() as client:
                another(client)

        with Sidecall() as client:
            another(client)
        asyncio.run(main())


class OwnTest(unittest.TestCase):
    """What a worker says of calls that nobody here waits for."""

    def setUp(self) -> None:
        self.s = Sidecall()
        self.addCleanup(self.s.close)
        self.own = Own(self.s, Calls(self.s, {}), {"pay": "keyed"}, None)
        self.own.declare([Declared("pay", "Pay.", {"type": "object"})])

    def served(self, arguments: dict[str, Any] | None = None) -> Any:
        invoke = worker_pb.WorkerInvoke(conversation_id="c", turn_id="1", tool_use_id="a", tool="pay")
        return self.own._serve(arguments or {}, Context(invoke, print))

    def test_a_call_of_another_process_is_not_run_here(self) -> None:
        with self.assertRaisesRegex(Failure, "the process that made this call is another one, or has given it up") as caught:
            self.served()
        self.assertTrue(caught.exception.not_run)

    def test_a_call_whose_event_loop_has_ended_is_not_run(self) -> None:
        async def body() -> None:
            raise AssertionError("it ran")

        loop = asyncio.new_event_loop()
        loop.close()
        with self.own._waiting(Call("a", "pay"), IDS, body, loop), self.assertRaisesRegex(Failure, "has ended") as caught:
            self.served()
        self.assertTrue(caught.exception.not_run)
        self.assertEqual(self.own._asked, [])

    def test_of_calls_with_one_id_the_one_that_was_checked_runs(self) -> None:
        def waiting(call: Call, says: str) -> Any:
            return self.own._waiting(call, IDS, lambda: says, None)

        with (
            waiting(Call("a", "pay", {"cents": 1}), "paid 1"),
            waiting(Call("a", "pay", '{"cents": 200}'), "paid 200"),
            waiting(Call("a", "refund", {"cents": 1}), "refunded"),
            waiting(Call("a", "pay", "{"), "no JSON"),
        ):
            self.assertEqual(self.served({"cents": 1}), "paid 1")
            self.assertEqual(self.served({"cents": 200}), "paid 200")
            with self.assertRaises(Failure) as caught:
                self.served({"cents": 3})
            self.assertTrue(caught.exception.not_run)

    def test_adapters_of_one_client_serve_each_others_calls(self) -> None:
        other = Own(self.s, Calls(self.s, {}), None, None)
        with other._waiting(Call("a", "pay"), IDS, lambda: "paid", None):
            self.assertEqual(self.served(), "paid")

    def test_functions_are_registered_until_they_are(self) -> None:
        work = mock.Mock()
        work.start.return_value, work.has_ended.return_value = work, False
        with mock.patch.object(self.s, "work", return_value=work) as works:
            self.own.start()
            self.own.declare([Declared("refund", "Refund.", {"type": "object"})])
            work.start.side_effect = [WorkerRefused("full"), work, work]
            with self.assertRaises(WorkerRefused):
                self.own.start()
            for _ in range(2):
                self.own.start()
            self.assertEqual([list(call.args[0].functions) for call in works.call_args_list], [["pay"], ["pay", "refund"], ["pay", "refund"]])
            work.has_ended.return_value = True  # its sidecar has refused it meanwhile
            self.own.start()
            self.assertEqual(works.call_count, 4)

    def test_a_function_is_declared_once(self) -> None:
        with self.assertRaisesRegex(WrongTool, "the function pay cannot be a tool: there is one of that name"):
            self.own.declare([Declared("pay", "Pay.", {})])
        with self.assertRaisesRegex(WrongTool, "the function a b cannot be a tool: name: want 1 to 64 of"):
            self.own.declare([Declared("a b", "", {})])
        self.own._effects["refund"] = "keyed"
        with self.assertRaisesRegex(WrongField, "effects.*refund.*there is no such function; known are pay"):
            self.own.check_names()
        other = Own(self.s, Calls(self.s, {}), None, None, fails_cleanly={"refund": True})
        with self.assertRaisesRegex(WrongField, "fails_cleanly.*refund.*there is no such function"):
            other.check_names()
        with self.assertRaisesRegex(WrongField, "fails_cleanly.*want True, or types of exceptions, got 'ValueError'"):
            Own(self.s, Calls(self.s, {}), None, None, fails_cleanly={"pay": "ValueError"})  # type: ignore[dict-item]


if __name__ == "__main__":
    unittest.main()
