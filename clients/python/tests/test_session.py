"""Turns and loops against a sidecar that answers as it is told to, by the client
that waits and by the one that awaits."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import sys
import tempfile
import time
import unittest
import warnings
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any
from unittest import mock

import grpc

from sidecall import AsyncSidecall, BrokenAnswer, LaunchFailed, Sidecall, UnsafeSocket, WrongMessage, pb
from sidecall.v1 import conversation_service_pb2 as conversations
from sidecall.v1 import conversation_service_pb2_grpc, tool_service_pb2_grpc
from tests.test_messages import ANTHROPIC, CHAT, read, run


class Fake(tool_service_pb2_grpc.ToolServiceServicer, conversation_service_pb2_grpc.ConversationServiceServicer):
    """Records every request; every call is answered with its arguments, unless the
    test says otherwise."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.rpcs: list[grpc.ServicerContext] = []  # of the requests
        self.statuses: list[grpc.StatusCode] = []  # of the next requests
        self.result: Callable[[Any], Any] = lambda call: pb.ExecuteToolResponse(
            tool_use_id=call.tool_use_id, content=call.arguments_json
        )

    def _begin(self, request: Any, context: grpc.ServicerContext) -> None:
        self.requests.append(request)
        self.rpcs.append(context)
        if self.statuses:
            context.abort(self.statuses.pop(0), "as the test wants it")

    def ExecuteTools(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        return pb.ExecuteToolsResponse(results=[self.result(call) for call in request.calls])

    def ReadMessage(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._of_message(context, lambda: read(request.message_json)[0])

    def RunMessage(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._of_message(context, lambda: run(request, lambda batch: self.ExecuteTools(batch, context)))

    @staticmethod
    def _of_message(context: grpc.ServicerContext, answer: Callable[[], Any]) -> Any:
        try:
            return answer()
        except ValueError as e:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"message_json: {e}")

    def ListTools(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        # A list that has no end.
        token = "again" if request.profile == "endless" else ""
        if request.provider:
            return pb.ListToolsResponse(definitions_json=[json.dumps({"of": request.provider})], next_page_token=token)
        return pb.ListToolsResponse(tools=[pb.Tool(name="t", input_schema_json="{}")], next_page_token=token)

    def GetInstructions(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        return pb.GetInstructionsResponse(text="Read the code.")

    def EndPrompt(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        return conversations.EndPromptResponse()

    def calls(self) -> list[Any]:
        return [call for r in self.requests if isinstance(r, pb.ExecuteToolsRequest) for call in r.calls]

    def ended(self) -> list[str]:
        return [r.exit_reason for r in self.requests if isinstance(r, conversations.EndPromptRequest)]


class Both(unittest.TestCase):
    """Runs each test with both clients."""

    faked: Callable[[], Any] = Fake

    def each(self, test: Callable[[Fake, Callable[..., Any]], None], *kinds: Any) -> None:
        for kind in kinds or (Sidecall, AsyncSidecall):
            with self.subTest(kind.__name__):
                fake = type(self).faked()
                server = grpc.server(futures.ThreadPoolExecutor(2))
                tool_service_pb2_grpc.add_ToolServiceServicer_to_server(fake, server)
                conversation_service_pb2_grpc.add_ConversationServiceServicer_to_server(fake, server)
                target = f"tcp://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
                server.start()
                try:
                    test(fake, functools.partial(self.run_on, kind, target))
                finally:
                    server.stop(None).wait()

    @staticmethod
    def run_on(kind: Any, target: str, name: str, *args: Any, **kwargs: Any) -> Any:
        if kind is Sidecall:
            with Sidecall(target) as client:
                return getattr(client, name)(*args, **kwargs)

        async def main() -> Any:
            async with AsyncSidecall(target) as client:
                return await getattr(client, name)(*args, **kwargs)

        return asyncio.run(main())


class RunToolsTest(Both):
    def test_a_turn_is_one_batch(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            appended = run("run_tools", ANTHROPIC, conversation_id="c", prompt_id=1, profile="code", labels={"team": "shop"})
            (batch,) = fake.requests
            self.assertEqual(
                [(c.tool_use_id, c.conversation_id, c.turn_id, c.prompt_id, c.profile, c.labels["team"]) for c in batch.calls],
                [(id, "c", "msg_1", "1", "code", "shop") for id in ("toolu_1", "toolu_2")],
            )
            self.assertEqual([b["tool_use_id"] for b in appended[0]["content"]], ["toolu_1", "toolu_2"])
            self.assertEqual([r.content for r in appended.results], ['{"order_id": "A-1"}', "{}"])
            run("run_tools", ANTHROPIC, conversation_id="c", turn_id=7)
            self.assertEqual({(c.turn_id, c.message_id) for c in fake.requests[1].calls}, {("7", "7")})

        self.each(test)

    def test_the_same_ids_are_sent_again_while_the_sidecar_is_away(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            fake.statuses = [grpc.StatusCode.UNAVAILABLE] * 2
            self.assertEqual(len(run("run_tools", CHAT, conversation_id="c")), 2)
            first, second, third = fake.requests
            self.assertEqual(first, second)
            self.assertEqual(first, third)

        self.each(test)

    def test_no_other_error_is_sent_again(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            for status in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL):
                fake.statuses, fake.requests = [status], []
                with self.assertRaises(grpc.RpcError) as raised:
                    run("run_tools", CHAT, conversation_id="c")
                self.assertEqual(raised.exception.code(), status)
                self.assertEqual(len(fake.requests), 1)

        self.each(test)

    def test_a_message_that_was_cut_runs_nothing(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            appended = run("run_tools", {**ANTHROPIC, "stop_reason": "max_tokens"}, conversation_id="c")
            self.assertEqual(fake.requests, [])
            self.assertTrue(all(b["is_error"] for b in appended[0]["content"]))

        self.each(test)

    def test_what_is_no_message_runs_nothing(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            with self.assertRaises(WrongMessage):
                run("run_tools", {"role": "user", "content": "hi"}, conversation_id="c")
            self.assertEqual(fake.requests, [])

        self.each(test)


class ToolsTest(Both):
    def test_tools_and_instructions(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            fake.statuses = [grpc.StatusCode.UNAVAILABLE]
            self.assertEqual(run("tools", "openai", profile="code"), [{"of": "openai"}])
            self.assertEqual(fake.requests[1].profile, "code")
            self.assertEqual(run("instructions"), "Read the code.")
            with self.assertRaises(BrokenAnswer):
                run("list_tools", "endless")

        self.each(test)


def said(*messages: Any) -> Callable[[Any], Any]:
    """A model that gives these messages, one after the other; the last for ever."""
    left = list(messages)
    return lambda seen: left.pop(0) if len(left) > 1 else left[0]


DONE = {
    "id": "msg_9", "type": "message", "role": "assistant", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "Done."}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
HELLO = [{"role": "user", "content": "Where is A-1?"}]


class LoopTest(Both):
    def test_until_the_model_is_done(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            seen: list[int] = []
            model = said(ANTHROPIC, DONE)
            loop = run("run_loop", lambda m: seen.append(len(m)) or model(m), HELLO, conversation_id="c", prompt_id="p", profile="code")
            self.assertEqual((loop.exit_reason, loop.turns, loop.tokens, loop.prompt_id), ("end_turn", 2, 117, "p"))
            self.assertEqual(seen, [1, 3])
            self.assertEqual([m["role"] for m in loop.messages], ["user", "assistant", "user", "assistant"])
            self.assertEqual({(c.prompt_id, c.tokens_used) for c in fake.calls()}, {("p", 115)})
            self.assertEqual(fake.requests[-1], conversations.EndPromptRequest(
                conversation_id="c", prompt_id="p", profile="code", exit_reason="end_turn"))  # fmt: skip

        self.each(test)

    def test_a_turn_without_an_id_has_its_place(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            nameless = {**ANTHROPIC, "id": None}
            run("run_loop", said(nameless, nameless, DONE), HELLO, conversation_id="c", prompt_id="p")
            self.assertEqual([c.turn_id for c in fake.calls()], ["p/1", "p/1", "p/3", "p/3"])

        self.each(test)

    def test_each_loop_is_a_prompt(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            prompts = {run("run_loop", said(ANTHROPIC, DONE), HELLO, conversation_id="c").prompt_id for _ in range(2)}
            self.assertEqual(len(prompts), 2)

        self.each(test)

    def test_the_functions_may_be_async(self) -> None:
        model, asked = said(ANTHROPIC, DONE), []

        async def ask(messages: Any) -> Any:
            return model(messages)

        async def allow(appended: Any) -> bool:
            asked.append(appended)
            return True

        def test(fake: Fake, run: Callable[..., Any]) -> None:
            fake.result = lambda c: pb.ExecuteToolResponse(
                tool_use_id=c.tool_use_id, is_error=True, recovery=pb.Recovery(require_escalation=True)
            )
            loop = run("run_loop", ask, HELLO, conversation_id="c", on_escalation=allow)
            self.assertEqual((loop.exit_reason, len(asked)), ("end_turn", 1))

        self.each(test, AsyncSidecall)

    def test_the_sidecar_says_stop(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            fake.result = lambda c: pb.ExecuteToolResponse(tool_use_id=c.tool_use_id, is_error=True, stop=True)
            loop = run("run_loop", said(ANTHROPIC), HELLO, conversation_id="c")
            self.assertEqual((loop.exit_reason, loop.turns), ("loop_detected", 1))
            self.assertEqual(loop.messages[-1]["content"][0]["tool_use_id"], "toolu_1")  # the array stays whole
            self.assertEqual(fake.ended(), ["loop_detected"])

        self.each(test)

    def test_a_person_is_asked(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            fake.result = lambda c: pb.ExecuteToolResponse(
                tool_use_id=c.tool_use_id, is_error=True, recovery=pb.Recovery(require_escalation=True)
            )
            self.assertEqual(run("run_loop", said(ANTHROPIC), HELLO, conversation_id="c").exit_reason, "escalation")
            asked: list[Any] = []
            loop = run("run_loop", said(ANTHROPIC, DONE), HELLO, conversation_id="c", on_escalation=lambda m: asked.append(m) or True)
            self.assertEqual((loop.exit_reason, len(asked)), ("end_turn", 1))

        self.each(test)

    def test_a_call_that_waits_for_a_person(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            decided: list[Any] = []
            fake.result = lambda c: pb.ExecuteToolResponse(
                tool_use_id=c.tool_use_id, is_error=not decided, hold=None if decided else pb.Hold(reason="always")
            )
            for waits in (None, lambda m: False):
                loop = run("run_loop", said(ANTHROPIC), HELLO, conversation_id="c", on_held=waits)
                self.assertEqual((loop.exit_reason, loop.turns, loop.results[0].hold.reason), ("held", 1, "always"))
                self.assertEqual(loop.messages[-1]["role"], "assistant")  # what answers it would close it
            self.assertEqual(fake.ended(), [])  # and its prompt goes on
            loop = run("run_loop", said(ANTHROPIC, DONE), HELLO, conversation_id="c", on_held=lambda m: decided.append(m.held) or True)
            self.assertEqual((loop.exit_reason, [len(held) for held in decided]), ("end_turn", [2]))
            self.assertEqual(fake.ended(), ["end_turn"])

        self.each(test)

    def test_a_budget_that_is_used_up_leaves_one_turn_to_wrap_up(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            fake.result = lambda c: pb.ExecuteToolResponse(
                tool_use_id=c.tool_use_id, is_error=True, error=pb.ToolError(code="BUDGET_EXCEEDED"),
                recovery=pb.Recovery(require_escalation=True),
            )
            asked: list[Any] = []  # nobody is, once there is nothing to go on with
            loop = run("run_loop", said(ANTHROPIC), HELLO, conversation_id="c", on_escalation=lambda m: asked.append(m) or True)
            self.assertEqual((loop.exit_reason, loop.turns, len(asked)), ("budget_exceeded", 2, 1))
            fake.result = lambda c: pb.ExecuteToolResponse(
                tool_use_id=c.tool_use_id, is_error=True, error=pb.ToolError(code="BUDGET_EXCEEDED")
            )
            loop = run("run_loop", said(ANTHROPIC, DONE), HELLO, conversation_id="c")
            self.assertEqual((loop.exit_reason, loop.turns), ("end_turn", 2))

        self.each(test)

    def test_turns_are_bounded(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            loop = run("run_loop", said(ANTHROPIC), HELLO, conversation_id="c", max_turns=3)
            self.assertEqual((loop.exit_reason, loop.turns), ("max_turns", 3))

        self.each(test)

    def test_what_a_provider_calls_the_end(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            for reason, exit_reason in (("max_tokens", "max_tokens"), ("refusal", "refusal"), ("stop_sequence", "end_turn")):
                loop = run("run_loop", said({**DONE, "stop_reason": reason}), HELLO, conversation_id="c")
                self.assertEqual(loop.exit_reason, exit_reason)

        self.each(test)

    def test_a_model_that_cannot_be_asked(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            def ask(messages: Any) -> Any:
                raise ConnectionError("the provider is away")

            with self.assertRaisesRegex(ConnectionError, "the provider is away"):
                run("run_loop", ask, HELLO, conversation_id="c")
            self.assertEqual(fake.ended(), ["error"])

        self.each(test)

    def test_a_prompt_that_cannot_be_ended_spoils_nothing(self) -> None:
        def test(fake: Fake, run: Callable[..., Any]) -> None:
            def ask(messages: Any) -> Any:
                fake.statuses = [grpc.StatusCode.INTERNAL]  # of the next request, which ends the prompt
                return DONE

            self.assertEqual(run("run_loop", ask, HELLO, conversation_id="c").exit_reason, "end_turn")

        self.each(test)


class CancelTest(unittest.TestCase):
    def test_a_task_that_is_cancelled_cancels_its_request(self) -> None:
        begun, cancelled = futures.Future(), futures.Future()  # type: ignore[var-annotated]

        class Slow(tool_service_pb2_grpc.ToolServiceServicer):
            def RunMessage(self, request: Any, context: grpc.ServicerContext) -> Any:
                context.add_callback(lambda: cancelled.set_result(True))
                begun.set_result(True)
                cancelled.result(timeout=60)
                return pb.RunMessageResponse()

        server = grpc.server(futures.ThreadPoolExecutor(2))
        tool_service_pb2_grpc.add_ToolServiceServicer_to_server(Slow(), server)
        target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())

        async def main() -> None:
            async with AsyncSidecall(target) as client:
                task = asyncio.create_task(client.run_tools(CHAT, conversation_id="c"))
                await asyncio.wrap_future(begun)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await asyncio.wrap_future(cancelled)

        asyncio.run(main())


class LaunchTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def program(self, text: str) -> Path:
        file = self.directory / "program"
        file.write_text(text)
        file.chmod(0o700)
        return file

    def refused(self, says: str, config: Any, binary: Any) -> None:
        with self.assertRaisesRegex(LaunchFailed, says):
            Sidecall.launch(config, binary=binary)

        async def main() -> None:
            with self.assertRaisesRegex(LaunchFailed, says):
                await AsyncSidecall.launch(config, binary=binary)

        asyncio.run(main())

    def test_why_it_did_not_start(self) -> None:
        there = self.directory / "temporary"  # of nobody else, whose sidecars come and go
        there.mkdir()
        patched = mock.patch.object(tempfile, "tempdir", str(there))
        patched.start()
        self.addCleanup(patched.stop)
        says_no = self.program("#!/bin/sh\necho 'sidecall: sidecall.yaml:3:1: no such key' >&2\nexit 2\n")
        self.refused("exit code 2:\nsidecall: sidecall.yaml:3:1: no such key", {}, says_no)
        self.refused("/no/config.yaml: there is no such config file", "/no/config.yaml", says_no)
        self.refused("cannot be written as YAML", {"tools": {1, 2}}, says_no)
        self.refused("/no/program: there is no such program", {}, "/no/program")
        self.refused("is no program for Linux on ", {}, self.program("\x7fELF of another machine"))
        self.assertEqual(os.listdir(there), [])

    def test_backends_that_are_missing_are_named(self) -> None:
        told = '{"listen": "tcp://127.0.0.1:1", "missing": {"files": "connection refused"}}'
        late = self.program(f"#!/bin/sh\necho \"$@\" >&2\necho '{told}'\ncat >/dev/null\n")
        with self.assertLogs("sidecall", "WARNING") as logged, Sidecall.launch({}, binary=late, start_timeout=0.25):
            pass
        lines = "\n".join(logged.output)
        self.assertRegex(lines, r"the tools of the backend files are not there after 0.25 s \(connection refused\)")
        self.assertRegex(lines, r"serve --launched --start-timeout=250ms --config \S+ --watch=false")

    def test_a_fork_does_not_keep_it(self) -> None:
        ended = self.program("#!/bin/sh\necho '{\"listen\": \"tcp://127.0.0.1:1\"}'\ncat >/dev/null\n")
        with Sidecall.launch({}, binary=ended, start_timeout=1) as s:
            assert s._launched is not None
            process = s._launched._process
            assert process.stdin is not None
            waits, ends = os.pipe()
            with warnings.catch_warnings():  # this process has threads, and the fork does nothing with them
                warnings.simplefilter("ignore")
                fork = os.fork()
            if fork == 0:
                os.close(ends)
                os.read(waits, 1)
                os._exit(0)
            try:
                process.stdin.close()  # as the end of this process does
                process.wait(timeout=30)
            finally:
                os.close(ends)
                os.close(waits)
                os.waitpid(fork, 0)

    def test_a_fork_ends_nothing_of_it(self) -> None:
        ended = self.program("#!/bin/sh\necho '{\"listen\": \"tcp://127.0.0.1:1\"}'\ncat >/dev/null\n")
        with Sidecall.launch({}, binary=ended, start_timeout=1) as s:
            assert s._launched is not None
            assert s._launched._directory is not None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fork = os.fork()
            if fork == 0:
                signal.alarm(10)  # the threads that it would wait for are not in this process
                s.close()
                asyncio.run(AsyncSidecall.close(mock.Mock(_pid=s._pid)))
                os._exit(0 if s._launched.ended() is None else 1)
            self.assertEqual(os.waitpid(fork, 0)[1], 0)
            self.assertTrue(s._launched._directory.exists())
            self.assertIsNone(s._launched.ended())

    def test_what_a_script_around_it_prints_is_passed_over(self) -> None:
        wrapped = self.program("#!/bin/sh\necho starting\necho null\necho 1\necho '{}'\necho '{\"listen\": \"tcp://127.0.0.1:1\"}'\ncat >/dev/null\n")
        with Sidecall.launch({}, binary=wrapped, start_timeout=1):
            pass

    def test_one_that_nobody_waits_for_any_more_is_ended(self) -> None:
        for name in ("begun", "go", "end"):
            os.mkfifo(self.directory / name)
        slow = self.program(
            f"#!/bin/sh\ncd {self.directory}\necho >begun\nread line <go\necho '{{\"listen\": \"tcp://127.0.0.1:1\"}}'\ncat >/dev/null\necho ended >end\n"
        )

        async def main() -> None:
            task = asyncio.create_task(AsyncSidecall.launch({}, binary=slow))
            await asyncio.to_thread((self.directory / "begun").read_text)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await asyncio.to_thread((self.directory / "go").write_text, "now\n")
            self.assertEqual(await asyncio.to_thread((self.directory / "end").read_text), "ended\n")

        asyncio.run(main())

    def test_one_that_goes_on_for_others_is_let_go(self) -> None:
        pid = self.directory / "pid"
        goes_on = self.program(f"""#!{sys.executable}
import json, os, sys
print(json.dumps({{"listen": "tcp://127.0.0.1:1"}}), flush=True)
sys.stdin.read()
print(json.dumps({{"stays": True}}), flush=True)
null = os.open(os.devnull, os.O_WRONLY)
os.dup2(null, 1)
os.dup2(null, 2)
open({str(pid)!r}, "w").write(str(os.getpid()))
open({str(self.directory / "end")!r}).read()  # a pipe
""")
        os.mkfifo(self.directory / "end")
        client = Sidecall.launch({}, binary=goes_on)
        for _ in range(2):
            client.close()
        with open(self.directory / "end", "w"):  # which it has to open, so it is there
            os.kill(int(pid.read_text()), 0)
        with self.assertRaises(ProcessLookupError):  # then it is gone, and no zombie
            while True:
                os.kill(int(pid.read_text()), 0)
                time.sleep(0.01)

    def test_one_that_dies_later_is_told_of_at_once(self) -> None:
        dies = self.program(f"#!{sys.executable}\n{DIES}")
        waits = 10_000.0  # which nothing here does
        with Sidecall.launch({}, binary=dies, patience=waits) as s:
            s.tool(name="f")(lambda: "f")
            with s.work() as work, self.assertLogs("sidecall", "ERROR"):
                with self.assertRaisesRegex(LaunchFailed, "the sidecar ended with exit code 3:\nout of memory"):
                    s.run_tools(ANTHROPIC, conversation_id="c")
                with self.assertRaisesRegex(LaunchFailed, "exit code 3"):
                    s.tools()
                with self.assertRaisesRegex(LaunchFailed, "exit code 3"):
                    s.work().run()
                with self.assertRaisesRegex(LaunchFailed, "exit code 3"):
                    work.wait()  # it hears of it by itself, in its own time, and says so

        async def main() -> None:
            async with await AsyncSidecall.launch({}, binary=dies, patience=waits) as s:
                with self.assertRaisesRegex(LaunchFailed, "the sidecar ended with exit code 3:\nout of memory"):
                    await s.run_tools(ANTHROPIC, conversation_id="c")
                s.tool(name="f")(lambda: "f")
                with self.assertRaisesRegex(LaunchFailed, "exit code 3"):
                    await s.work().run()

        asyncio.run(main())


#: A sidecar that dies of its first call.
DIES = """
import json, os, sys
from concurrent import futures
import grpc
from sidecall.v1 import tool_service_pb2_grpc, worker_service_pb2 as pb, worker_service_pb2_grpc

class Tools(tool_service_pb2_grpc.ToolServiceServicer):
    def RunMessage(self, request, context):
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(3)

class Workers(worker_service_pb2_grpc.WorkerServiceServicer):
    def Serve(self, messages, context):
        yield pb.WorkerCommand(registered=pb.WorkerRegistered(tools=[pb.WorkerAccepted(name="f", tool_name="f")]))
        for message in messages:
            pass

server = grpc.server(futures.ThreadPoolExecutor(4))
tool_service_pb2_grpc.add_ToolServiceServicer_to_server(Tools(), server)
worker_service_pb2_grpc.add_WorkerServiceServicer_to_server(Workers(), server)
at = f"tcp://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
server.start()
print(json.dumps({"listen": at}), flush=True)
sys.stdin.read()
"""


class SocketTest(unittest.TestCase):
    def test_a_socket_that_others_may_open_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            socket = Path(directory) / "s"
            socket.touch()
            for target in (f"unix://{socket}", f"unix:{socket}"):
                socket.chmod(0o666)
                with self.assertRaisesRegex(UnsafeSocket, "any user of this machine may open this socket"):
                    Sidecall(target)
                socket.chmod(0o600)
                Sidecall(target).close()
            if os.getuid() == 0:
                os.chown(socket, 65534, 65534)
                with self.assertRaisesRegex(UnsafeSocket, "this socket is of the user 65534"):
                    Sidecall(f"unix://{socket}")


if __name__ == "__main__":
    unittest.main()
