"""A worker at a sidecar that says what the test tells it to, by the client that waits
and by the one that awaits."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import queue
import signal
import threading
import unittest
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from datetime import date
from typing import Any
from unittest import mock

import grpc
from google.protobuf.duration_pb2 import Duration

from sidecall import AsyncSidecall, Context, Failure, Reply, Sidecall, Worker, WorkerRefused, WrongField, WrongTool, _work
from sidecall.adapters._own import Own
from sidecall.v1 import worker_service_pb2 as pb
from sidecall.v1 import worker_service_pb2_grpc

#: How long a test waits for what has to come.
LONG = 60


NOT_JSON = "ValueError: the function ran, but its result is not JSON: "


class Stream:
    """One stream, as the sidecar sees it."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.context = context
        self.heard: queue.Queue[pb.WorkerMessage | None] = queue.Queue()
        self.says: queue.Queue[pb.WorkerCommand | grpc.StatusCode | None] = queue.Queue()

    def next(self, kind: str) -> Any:
        """The next message of a kind; heartbeats are passed over."""
        while (message := self.heard.get(timeout=LONG)) is not None:
            which = message.WhichOneof("message")
            if which == kind:
                return getattr(message, kind)
            assert which == "heartbeat", f"{which} came in the place of {kind}"
        raise AssertionError(f"the stream has ended, and no {kind} came")

    def take_in(self, *, most: int = 0, beat: float = 60) -> pb.WorkerRegister:
        """Waits for the registration, and accepts it."""
        registration: pb.WorkerRegister = self.next("register")
        interval = Duration()
        interval.FromMilliseconds(int(beat * 1000))
        self.says.put(pb.WorkerCommand(registered=pb.WorkerRegistered(
            heartbeat_interval=interval, max_message_bytes=most,
            tools=[pb.WorkerAccepted(name=tool.name, tool_name="my_" + tool.name) for tool in registration.tools],
        )))  # fmt: skip
        return registration

    def invoke(self, tool: str, arguments: str = "{}", id: str = "i1", **fields: Any) -> None:
        self.says.put(pb.WorkerCommand(invoke=pb.WorkerInvoke(invocation_id=id, tool=tool, arguments_json=arguments, **fields)))

    def ask(self, tool: str, arguments: str = "{}", id: str = "i1") -> pb.WorkerResult:
        self.invoke(tool, arguments, id)
        result: pb.WorkerResult = self.next("result")
        return result

    def cancel(self, id: str = "i1") -> None:
        self.says.put(pb.WorkerCommand(cancel=pb.WorkerCancel(invocation_id=id)))

    def leave(self) -> None:
        """The worker leaves, and its stream ends well."""
        self.next("leave")
        self.says.put(None)


class Fake(worker_service_pb2_grpc.WorkerServiceServicer):
    def __init__(self) -> None:
        self.streams: queue.Queue[Stream] = queue.Queue()
        #: How every stream is refused as soon as it is opened.
        self.refuses: grpc.StatusCode | None = None

    def Serve(self, messages: Iterator[pb.WorkerMessage], context: grpc.ServicerContext) -> Iterator[pb.WorkerCommand]:
        if self.refuses is not None:
            context.abort(self.refuses, "as the test wants it")
        stream = Stream(context)

        def hear() -> None:
            with contextlib.suppress(Exception):  # the stream has ended
                for message in messages:
                    stream.heard.put(message)
            stream.heard.put(None)

        threading.Thread(target=hear, daemon=True).start()
        self.streams.put(stream)
        if not context.add_callback(lambda: stream.says.put(None)):
            return  # it has ended already, and nobody would say so
        while (said := stream.says.get()) is not None:
            if isinstance(said, pb.WorkerCommand):
                yield said
            else:
                context.abort(said, "as the test wants it")

    def stream(self) -> Stream:
        return self.streams.get(timeout=LONG)


@contextlib.contextmanager
def served() -> Iterator[tuple[Fake, str]]:
    fake = Fake()
    server = grpc.server(futures.ThreadPoolExecutor(8))
    worker_service_pb2_grpc.add_WorkerServiceServicer_to_server(fake, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield fake, f"tcp://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Paid:
    cents: int
    colour: Colour


class At:
    """A program that works in the background, whichever client it has."""

    def __init__(self, kind: Any, target: str, worker: Worker, patience: float) -> None:
        self.error: BaseException | None = None
        self.names: Any = None
        self.leave: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=lambda: self._run(kind, target, worker, patience), daemon=True)
        self._thread.start()

    def _run(self, kind: Any, target: str, worker: Worker, patience: float) -> None:
        try:
            if kind is AsyncSidecall:
                asyncio.run(self._awaits(target, worker, patience))
            else:
                with Sidecall(target, patience=patience) as s:
                    work = s.work(worker)
                    self.leave = work.leave
                    work.run()
                    self.names = work.names
        except BaseException as e:
            self.error = e

    async def _awaits(self, target: str, worker: Worker, patience: float) -> None:
        async with AsyncSidecall(target, patience=patience) as s:
            work = s.work(worker)
            self.leave = work.leave
            await work.run()
            self.names = work.names

    def ended(self) -> BaseException | None:
        self._thread.join(LONG)
        assert not self._thread.is_alive(), "it does not end"
        return self.error


def waiting(gate: threading.Event, places: int) -> Worker:
    """A worker whose function says that it has begun, and waits for a gate."""
    w = Worker("w", max_in_flight=places)

    @w.tool
    def wait(context: Context) -> str:
        context.progress()
        gate.wait(LONG)
        return "done"

    return w


class WorkTest(unittest.TestCase):
    def each(
        self, worker: Callable[[], Worker], test: Callable[[Fake, At], None], patience: float = LONG, refuses: grpc.StatusCode | None = None
    ) -> None:
        for kind in (Sidecall, AsyncSidecall):
            with self.subTest(kind.__name__), served() as (fake, target):
                fake.refuses = refuses
                at = At(kind, target, worker(), patience)
                try:
                    test(fake, at)
                finally:
                    at.leave()

    def test_functions_are_registered_and_called(self) -> None:
        def worker() -> Worker:
            w = Worker("desk", backend="local", max_in_flight=3)

            @w.tool(effect="keyed")
            def pay(cents: int, context: Context) -> Paid:
                """Pay."""
                assert Context.current() is context
                return Paid(cents + context.attempt, Colour.RED)

            @w.tool
            def weigh(grams: float) -> None: ...

            @w.tool
            async def greet(name: str) -> str:
                context = Context.current()
                return f"Hello {name}, {context.idempotency_key}{context.traceparent}{context.baggage}"

            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            registration = stream.take_in()
            self.assertEqual(
                (registration.worker, registration.protocol_version, registration.max_in_flight, registration.backend), ("desk", 1, 3, "local")
            )
            self.assertEqual([(t.name, t.description) for t in registration.tools], [("pay", "Pay."), ("weigh", ""), ("greet", "")])
            stream.invoke("pay", '{"cents": 5}', attempt=2)
            self.assertEqual(stream.next("result").structured_content_json, '{"cents": 7, "colour": "red"}')
            stream.invoke("greet", '{"name": "Zoë"}', id="i2", idempotency_key="key", traceparent=", 00-1-2-01", baggage=", a=b")
            self.assertEqual(stream.next("result"), pb.WorkerResult(invocation_id="i2", content="Hello Zoë, key, 00-1-2-01, a=b"))
            self.assertEqual(stream.ask("pay", '{"cents": ' + "[" * 100_000 + "]" * 100_000 + "}").code, "INVALID_ARGS")
            self.assertEqual(stream.ask("weigh", '{"grams": ' + "9" * 400 + "}").code, "INVALID_ARGS")
            self.assertEqual(stream.ask("greet", '{"name": 5}').code, "INVALID_ARGS")
            unknown = stream.ask("other")
            self.assertEqual((unknown.code, unknown.not_run), ("NOT_FOUND", True))
            at.leave()
            stream.leave()
            self.assertIsNone(at.ended())
            self.assertEqual(at.names, {"pay": "my_pay", "weigh": "my_weigh", "greet": "my_greet"})

        self.each(worker, test)

    def test_an_interrupt_lets_the_calls_that_run_end(self) -> None:
        # A shell has what it starts in the background ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        left = threading.Event()
        ended = []
        worker = Worker("desk")

        @worker.tool
        def slow() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            left.wait(LONG)
            ended.append("slow")

        def play(stream: Stream) -> None:
            stream.take_in()
            stream.invoke("slow")
            stream.next("leave")
            left.set()
            stream.next("result")
            stream.says.put(None)

        with served() as (fake, target), Sidecall(target) as s:
            playing = threading.Thread(target=lambda: play(fake.stream()))
            playing.start()
            with self.assertRaises(KeyboardInterrupt):
                s.work(worker).run()
            self.assertEqual(ended, ["slow"])
            playing.join(LONG)

    def test_what_functions_return_and_raise(self) -> None:
        def stops() -> None:
            raise StopIteration

        def exits() -> None:
            raise SystemExit("I go")

        def fails() -> None:
            raise Failure("not now", code="RATE_LIMITED", not_run=True, retry_after=2)

        async def fails_async() -> None:
            raise ValueError("no such order")

        async def exits_async() -> None:
            raise SystemExit("I go")

        async def breaks_off() -> None:
            raise BreakOff("enough")

        async def interrupts() -> None:
            raise KeyboardInterrupt

        def declined() -> None:
            raise Failure("declined") from KeyError("a")

        def went_on() -> None:  # after the first way it tried another, of which nobody knows
            raise TimeoutError("no answer") from KeyError("a")

        def never() -> None:
            raise Failure("not now", not_run=True, retry_after=float("nan"))

        class BreakOff(BaseException): ...

        class Mute(Exception):
            def __str__(self) -> str:
                raise ValueError("nothing to say")

        def mute() -> None:
            raise Mute

        wrong: Any = 5
        unexpected = {"is_error": True, "content": "the function failed unexpectedly"}
        no_json = {"structured_content_json": "-"}  # it ran, whatever is said of what it raises
        clean: dict[str, Any] = {"clean": (ValueError, KeyError), "clean_cause": KeyError, "went_on": KeyError, "otherwise": KeyError, "nan": True, "always": True}
        cases: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
            "text": (lambda: "a", {"content": "a"}),
            "nothing": (lambda: None, {}),
            "false": (lambda: False, {"structured_content_json": "false"}),
            "list": (lambda: [1, {"b": (2, {3})}], {"structured_content_json": '[1, {"b": [2, [3]]}]'}),
            "date": (lambda: date(2026, 11, 23), {"structured_content_json": '"2026-11-23"'}),
            "reply": (lambda: Reply("a", {"b": 1}), {"content": "a", "structured_content_json": '{"b": 1}'}),
            "half": (lambda: "a\ud800", {"content": "a\ufffd"}),
            "awaitable": (lambda: asyncio.sleep(0, "later"), {"content": "later"}),
            "nan": (lambda: float("nan"), {**no_json, "content": NOT_JSON + "Out of range float values are not JSON"}),
            "object": (lambda: Ellipsis, {**no_json, "content": NOT_JSON + "there is nothing for a ellipsis"}),
            "number_as_text": (lambda: Reply(wrong), {**no_json, "content": "WrongField: text: want a str, got 5"}),
            "unsayable_failure": (never, unexpected),
            "mute": (mute, unexpected),
            "raises": (lambda: {}["a"], {"is_error": True, "content": "KeyError: 'a'"}),
            "clean": (lambda: {}["a"], {"is_error": True, "content": "KeyError: 'a'", "not_run": True, "code": "UNRECOVERABLE"}),
            "always": (lambda: {}["a"], {"is_error": True, "content": "KeyError: 'a'", "not_run": True, "code": "UNRECOVERABLE"}),
            "clean_cause": (declined, {"is_error": True, "content": "declined", "not_run": True, "code": "UNRECOVERABLE"}),
            "went_on": (went_on, {"is_error": True, "content": "TimeoutError: no answer"}),
            "otherwise": (lambda: "a".index("b"), {"is_error": True, "content": "ValueError: substring not found"}),
            "stops": (stops, {"is_error": True, "content": "RuntimeError: StopIteration()"}),
            "exits": (exits, {"is_error": True, "content": "RuntimeError: SystemExit('I go')"}),
            "fails": (fails, {"is_error": True, "content": "not now", "code": "RATE_LIMITED", "not_run": True, "retry_after": Duration(seconds=2)}),
            "fails_async": (fails_async, {"is_error": True, "content": "ValueError: no such order"}),
            "exits_async": (exits_async, {"is_error": True, "content": "SystemExit: I go"}),
            "breaks_off": (breaks_off, {"is_error": True, "content": "BreakOff: enough"}),
            "interrupts": (interrupts, {"is_error": True, "content": "KeyboardInterrupt"}),
            "generator": (lambda: (i for i in "a"), {"is_error": True, "content": "TypeError: it returned a generator, which nobody runs"}),
        }

        def worker() -> Worker:
            w = Worker("w")
            for name, (function, _) in cases.items():
                w.tool(name=name, fails_cleanly=clean.get(name, False))(function)
            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            for name, (_, wanted) in cases.items():
                result = stream.ask(name)
                result.content = result.content.split(" compliant")[0]  # the rest is not the same in every Python
                self.assertEqual(result, pb.WorkerResult(invocation_id="i1", **wanted), name)

        with self.assertLogs("sidecall", "WARNING"):
            self.each(worker, test)

    def test_a_call_is_cancelled(self) -> None:
        def worker() -> Worker:
            w = Worker("w")

            @w.tool
            def looks(context: Context) -> str:
                context.progress("begun")
                context.wait_cancelled()
                return f"undone, {context.cancelled}"

            @w.tool
            async def awaits(context: Context) -> str:
                context.progress("begun")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    return "undone"
                return ""

            @w.tool(fails_cleanly=True)
            def breaks(context: Context) -> None:
                context.progress("begun")
                context.wait_cancelled()
                raise ValueError("paid")

            @w.tool
            async def is_ended(context: Context) -> None:
                context.progress("begun")
                await asyncio.Event().wait()

            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            for tool, said in (("looks", "undone, True"), ("awaits", "undone"), ("breaks", "ValueError: paid"), ("is_ended", "the call was cancelled")):
                stream.invoke(tool)
                self.assertEqual(stream.next("progress").note, "begun")
                stream.cancel()
                result = stream.next("result")
                self.assertEqual((result.content, result.is_error, result.not_run), (said, tool in ("breaks", "is_ended"), False))
            stream.cancel("another")
            stream.invoke("looks", deadline=Duration(nanos=1_000_000))  # which is over at once
            result = stream.heard.get(timeout=LONG)
            self.assertIsNotNone(result)

        self.each(worker, test)

    def test_there_are_no_more_calls_than_places(self) -> None:
        gates: list[threading.Event] = []

        def worker() -> Worker:
            gate = threading.Event()
            gates.append(gate)
            return waiting(gate, 2)

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            for id in ("a", "b"):
                stream.invoke("wait", id=id)
                self.assertEqual(stream.next("progress").invocation_id, id)
            self.assertEqual(stream.ask("wait", id="c").code, "OVERLOADED")
            gates[-1].set()
            self.assertEqual({stream.next("result").invocation_id for _ in "ab"}, {"a", "b"})
            stream.invoke("wait", id="d")
            stream.next("progress")
            self.assertEqual(stream.next("result").content, "done")

        self.each(worker, test)

    def test_its_places_are_those_of_all_its_streams(self) -> None:
        first, gates, ran = [], [], []

        def worker() -> Worker:
            first.append(True)
            gates.append(threading.Event())
            ran.clear()
            w = Worker("w", max_in_flight=1)

            @w.tool
            def f(n: int, context: Context) -> str:
                if first and first.pop():
                    context.progress()
                    gates[-1].wait(LONG)
                ran.append(n)
                return "done"

            return w

        def test(fake: Fake, at: At) -> None:
            old = fake.stream()
            old.take_in()
            old.invoke("f", '{"n": 1}')
            old.next("progress")
            old.says.put(pb.WorkerCommand(goodbye=pb.WorkerGoodbye()))

            lost = fake.stream()
            lost.take_in()
            lost.invoke("f", '{"n": 2}')  # waits for the place, until its stream ends
            self.assertEqual(lost.ask("f", id="i3").code, "OVERLOADED")
            lost.says.put(grpc.StatusCode.UNAVAILABLE)

            stream = fake.stream()
            stream.take_in()
            stream.invoke("f", '{"n": 4}')  # waits, until nobody waits for it
            stream.cancel()
            said = stream.next("result")
            self.assertEqual((said.code, said.not_run), ("OVERLOADED", True))
            stream.invoke("f", '{"n": 5}')  # waits, and has the place then
            gates[-1].set()
            self.assertEqual(old.next("result").content, "done")
            self.assertEqual(stream.next("result").content, "done")
            self.assertEqual(ran, [1, 5])

        self.each(worker, test)

    def test_its_places_are_those_of_the_functions_that_an_adapter_adds(self) -> None:
        gate = threading.Event()
        w = waiting(gate, 1)
        w.tool(name="quick")(lambda: "done")

        with served() as (fake, target), Sidecall(target) as s:
            own = Own(s, mock.Mock(), None, Worker("w", max_in_flight=1))

            def add(name: str) -> Stream:
                own._functions[name] = w.functions[name]
                begins = threading.Thread(target=own.start)
                begins.start()
                stream = fake.stream()
                stream.take_in()
                begins.join(LONG)
                return stream

            old = add("wait")
            old.invoke("wait")
            old.next("progress")
            new = add("quick")
            new.invoke("quick")
            new.cancel()
            self.assertTrue(new.next("result").not_run, "it has not waited for the place")
            new.invoke("quick")
            gate.set()
            old.next("leave")
            self.assertEqual(old.next("result").content, "done")
            self.assertEqual(new.next("result").content, "done")
            old.says.put(None)
            threading.Thread(target=new.leave, daemon=True).start()

    def test_progress_is_cut_that_is_too_long_for_a_message(self) -> None:
        def worker() -> Worker:
            w = Worker("w")
            w.tool(name="f")(lambda: Context.current().progress("a" * 10_000))
            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in(most=8000)
            stream.invoke("f")
            self.assertEqual(stream.next("progress").note, "a" * 1024)

        self.each(worker, test)

    def test_it_says_that_it_lives(self) -> None:
        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in(beat=0.02)
            for _ in range(3):
                message = stream.heard.get(timeout=LONG)
                assert message is not None
                self.assertEqual(message.WhichOneof("message"), "heartbeat")

        self.each(one, test)

    def test_it_comes_again(self) -> None:
        def test(fake: Fake, at: At) -> None:
            for status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, None, grpc.StatusCode.INTERNAL):
                stream = fake.stream()
                stream.take_in()
                stream.says.put(status)
            stream = fake.stream()
            stream.take_in()
            self.assertEqual(stream.ask("f").content, "f")

        with self.assertLogs("sidecall", "WARNING") as said:  # whoever runs it reads of refusals, also of those for now
            self.each(one, test)
        self.assertIn("looks for a sidecar again: the sidecar refuses the worker w: as the test wants it", said.output[0])

    def test_it_comes_again_with_the_functions_that_it_had(self) -> None:
        made: list[Worker] = []

        def worker() -> Worker:
            made.append(one())
            return made[-1]

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            made[-1].tool(name="g")(lambda: "g")  # for the next work
            stream.says.put(None)
            self.assertEqual([tool.name for tool in fake.stream().take_in().tools], ["f"])

        self.each(worker, test)

    def test_a_sidecar_that_goes_lets_its_calls_end(self) -> None:
        gates: list[threading.Event] = []

        def worker() -> Worker:
            gate = threading.Event()
            gates.append(gate)
            w = Worker("w")

            @w.tool
            def f() -> str:
                gate.wait(LONG)
                return "f"

            return w

        def test(fake: Fake, at: At) -> None:
            first = fake.stream()
            first.take_in()
            first.invoke("f")
            first.says.put(pb.WorkerCommand(goodbye=pb.WorkerGoodbye()))
            second = fake.stream()
            second.take_in()
            gates[-1].set()
            self.assertEqual(first.next("result").content, "f")
            self.assertEqual(second.ask("f").content, "f")
            first.says.put(None)
            at.leave()
            second.leave()
            self.assertIsNone(at.ended())

        self.each(worker, test)

    def test_what_it_has_is_finished_when_it_leaves(self) -> None:
        gates: list[threading.Event] = []

        def worker() -> Worker:
            gate = threading.Event()
            gates.append(gate)
            w = Worker("w")
            w.tool(name="f")(lambda: gate.wait(LONG) and "f")
            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            stream.invoke("f")
            at.leave()
            stream.next("leave")
            gates[-1].set()
            self.assertEqual(stream.next("result").content, "f")
            stream.says.put(None)
            self.assertIsNone(at.ended())

        self.each(worker, test)

    def test_its_grace_has_an_end(self) -> None:
        begun: queue.Queue[None] = queue.Queue()

        def worker() -> Worker:
            w = Worker("w", grace=0.01)

            @w.tool
            async def f() -> None:
                begun.put(None)
                await asyncio.Event().wait()

            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            stream.invoke("f")
            begun.get(timeout=LONG)  # it may not be taken in before its grace is over
            at.leave()
            self.assertIsNone(at.ended())

        self.each(worker, test)

    def test_what_a_sidecar_refuses_is_said(self) -> None:
        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.next("register")
            stream.says.put(grpc.StatusCode.ALREADY_EXISTS)
            error = at.ended()
            assert isinstance(error, WorkerRefused), error
            self.assertEqual(str(error), "the sidecar refuses the worker w: as the test wants it")
            self.assertEqual(error.code, grpc.StatusCode.ALREADY_EXISTS)

        self.each(one, test)

    def test_one_that_is_refused_later_says_so_too(self) -> None:
        def test(fake: Fake, at: At) -> None:
            first = fake.stream()
            first.take_in()
            first.says.put(grpc.StatusCode.UNAVAILABLE)
            second = fake.stream()
            second.next("register")
            second.says.put(grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIsInstance(at.ended(), WorkerRefused)

        with self.assertLogs("sidecall", "ERROR"):
            self.each(one, test)

    def test_patience_has_an_end(self) -> None:
        def away(fake: Fake, at: At) -> None:
            error = at.ended()
            assert isinstance(error, grpc.RpcError), error
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)

        def full(fake: Fake, at: At) -> None:
            error = at.ended()
            assert isinstance(error, WorkerRefused), error
            self.assertEqual(error.code, grpc.StatusCode.RESOURCE_EXHAUSTED)

        def silent(fake: Fake, at: At) -> None:
            self.assertRegex(str(at.ended()), "^the sidecar has not taken the worker w in")

        self.each(one, away, patience=0, refuses=grpc.StatusCode.UNAVAILABLE)
        self.each(one, full, patience=0, refuses=grpc.StatusCode.RESOURCE_EXHAUSTED)
        with mock.patch.object(_work, "ANSWER", 0.01):
            self.each(one, silent, patience=0)

    def test_a_status_that_grpc_has_lost_is_asked_for_again(self) -> None:
        lost = Refused(grpc.StatusCode.INTERNAL, "Internal error from Core")
        full = Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        for lines, says in (([lost, lost, full], "the sidecar refuses the worker w: full"), ([lost] * 20, "Internal error from Core")):
            opened = iter(lines)

            async def ended() -> None:
                return None

            async def main(opened: Iterator[Refused] = opened) -> None:
                await _work.Career(one(), lambda: next(opened), 0.0, ended).run()

            with (
                self.subTest(says), mock.patch.multiple(_work, _SOON=0.0, _LATE=0.0),
                self.assertRaisesRegex((WorkerRefused, grpc.RpcError), says),  # type: ignore[arg-type]
            ):  # fmt: skip
                asyncio.run(main())

    def test_a_result_that_is_too_large_is_cut(self) -> None:
        def worker() -> Worker:
            w = Worker("w")
            w.tool(name="text")(lambda: "ä" * 10_000)
            w.tool(name="json")(lambda: ["a" * 10_000])
            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in(most=8000)
            for tool in ("text", "json"):
                result = stream.ask(tool)
                self.assertLess(result.ByteSize(), 8000)
                self.assertGreater(result.ByteSize(), 5000)
                self.assertRegex(result.content, "larger than a worker may send, 8000 bytes: parts of it are left out.]$")

        self.each(worker, test)

    def test_progress_is_left_out_where_nobody_takes_it(self) -> None:
        def worker() -> Worker:
            w = Worker("w")

            @w.tool
            def f(context: Context) -> str:
                for i in range(100_000):
                    context.progress(str(i))
                return "f"

            return w

        def test(fake: Fake, at: At) -> None:
            stream = fake.stream()
            stream.take_in()
            stream.invoke("f")
            while (message := stream.heard.get(timeout=LONG)) and message.WhichOneof("message") != "result":
                pass
            assert message is not None
            self.assertEqual(message.result.content, "f")

        self.each(worker, test)

    def test_caller_and_worker_are_one_client(self) -> None:
        with served() as (fake, target), Sidecall(target) as s:

            @s.tool
            def f() -> str:
                return "f"

            sidecar = threading.Thread(target=lambda: self._works(fake))
            sidecar.start()
            with s.work(name="desk", max_in_flight=1) as work:
                self.assertEqual(dict(work.names), {"f": "my_f"})
            sidecar.join(LONG)
            self.assertTrue(work.wait())

    def _works(self, fake: Fake) -> None:
        stream = fake.stream()
        assert stream.take_in().worker == "desk"
        stream.leave()

    def test_the_work_ends_with_the_client(self) -> None:
        async def awaits(target: str) -> None:
            async with AsyncSidecall(target) as s:
                s.tool(name="f")(lambda: "f")
                await s.work(name="desk").start()

        for run in (lambda target: asyncio.run(awaits(target)), self._closes):
            with served() as (fake, target):
                sidecar = threading.Thread(target=lambda fake=fake: self._works(fake))
                sidecar.start()
                run(target)
                sidecar.join(LONG)
                self.assertFalse(sidecar.is_alive())

    def _closes(self, target: str) -> None:
        with Sidecall(target) as s:
            s.tool(name="f")(lambda: "f")
            s.work(name="desk").start()

    def test_what_is_wrong_with_a_function_is_said_at_once(self) -> None:
        for said, says in (
            ({"annotations": {"a": 1}}, r"the function f cannot be a tool: annotations\['a'\]: want a str, got 1"),
            ({"annotations": ["a"]}, "the function f cannot be a tool: annotations: want a mapping of str, got a list"),
            ({"annotations": {"a": "\ud800"}}, "want text that UTF-8 can hold"),
            ({"sequential": "no"}, "the function f cannot be a tool: sequential: want a bool, got 'no'"),
        ):
            with self.subTest(says), self.assertRaisesRegex(WrongTool, says):
                Worker("w").tool(name="f", **said)(lambda: "f")

    def test_what_is_wrong_with_a_worker_is_said_at_once(self) -> None:
        with Sidecall() as s:
            with self.assertRaisesRegex(WrongTool, "the worker has no functions"):
                s.work()
            s.tool(name="f")(lambda: "f")
            for settings, says in (
                ({"name": "a b"}, r"name: want 1 to 64 of \[A-Za-z0-9._-\], got 'a b'"),
                ({"max_in_flight": 0}, "max_in_flight: want a positive int, got 0"),
                ({"grace": "long"}, "grace: want seconds or a timedelta, got 'long'"),
                ({"nam": "a"}, "nam: there is no such setting. Did you mean name"),
                ({"worker": 5}, "worker: want a Worker, got a int"),
            ):
                with self.subTest(says), self.assertRaisesRegex(WrongField, says):
                    s.work(**settings)


class Refused:
    """A stream that ends like this."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)

    def say(self, message: pb.WorkerMessage) -> None:
        pass

    def is_crowded(self) -> bool:
        return False

    async def listen(self, obey: Any) -> None:
        raise self._error

    def hang_up(self) -> None:
        pass


def one() -> Worker:
    w = Worker("w")
    w.tool(name="f")(lambda: "f")
    return w


if __name__ == "__main__":
    unittest.main()
