"""The work on one stream: from the registration to its end."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from sidecall._context import Context, Failure, _current, failure_of, fit, result_of, unreadable
from sidecall._line import Line
from sidecall._places import Places
from sidecall._request import readable
from sidecall._worker import Function, Worker
from sidecall.v1 import worker_service_pb2 as pb

log = logging.getLogger("sidecall")

#: The version of the protocol that is spoken here.
PROTOCOL = 1

#: What a call hears that has got no place.
_OVERLOADED = Failure("this worker has as many calls as it wants", code="OVERLOADED", not_run=True)

#: Characters of what is said of progress.
LONGEST_NOTE = 1024


class Shift:
    """Belongs to one event loop. Functions that are async run in it, others have a
    thread each: there are no more of them than the worker has places."""

    def __init__(
        self, worker: Worker, line: Line, places: Places, taken_in: Callable[[Mapping[str, str]], None]
    ) -> None:
        """``places`` are those of the worker, over all its streams. ``taken_in`` is given
        the names that models call, by those of the functions, when the sidecar has taken
        them in."""
        self._worker = worker
        self._functions: Mapping[str, Function] = dict(worker.functions)
        self._line = line
        self._places = places
        self._calls: dict[str, _Running] = {}
        self._most = 0
        self._beating: asyncio.Task[None] | None = None
        self._left = False
        self._taken_in = taken_in
        self.registered = asyncio.Event()
        #: Those names; None before that.
        self.names: dict[str, str] | None = None
        #: Set when another stream is to be opened.
        self.goodbye = asyncio.Event()

    async def run(self) -> None:
        """Works until the stream has ended; grpc.RpcError when that was not well."""
        tools = [function.declared for function in self._functions.values()]
        self._line.say(
            pb.WorkerMessage(
                register=pb.WorkerRegister(
                    worker=self._worker.name, protocol_version=PROTOCOL, max_in_flight=self._worker.max_in_flight,
                    tools=tools, backend=self._worker.backend, client=self._worker.client,
                )
            )
        )  # fmt: skip
        try:
            await self._line.listen(self._obey)
        finally:
            if self._beating is not None:
                self._beating.cancel()
            for running in list(self._calls.values()):
                running.forget()

    def leave(self) -> None:
        """Takes no more calls; the stream ends with those that it has."""
        if not self._left:
            self._left = True
            self._line.say(pb.WorkerMessage(leave=pb.WorkerLeave()))

    def end(self) -> None:
        """Ends the stream and the functions that can be ended."""
        self._line.hang_up()
        for running in list(self._calls.values()):
            running.cancel()

    def _obey(self, command: pb.WorkerCommand) -> None:
        """Does what the sidecar says, and nothing of what is not known here."""
        which = command.WhichOneof("command")
        if which == "registered" and self.names is None:
            self._register(command.registered)
        elif which == "invoke":
            self._begin(command.invoke)
        elif which == "cancel":
            running = self._calls.get(command.cancel.invocation_id)
            if running is not None:
                running.cancel()
        elif which == "goodbye":
            self.goodbye.set()

    def _register(self, registered: pb.WorkerRegistered) -> None:
        self.names = {tool.name: tool.tool_name for tool in registered.tools if not tool.left_out}
        self._most = registered.max_message_bytes
        every = registered.heartbeat_interval.ToTimedelta().total_seconds()
        if every > 0:
            self._beating = asyncio.ensure_future(self._beat(every / 2))
        self.registered.set()
        self._taken_in(self.names)

    async def _beat(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            self._line.say(pb.WorkerMessage(heartbeat=pb.WorkerHeartbeat()))

    def _begin(self, invoke: pb.WorkerInvoke) -> None:
        function = self._functions.get(invoke.tool)
        if function is None:
            why = Failure(f"this worker has no function {invoke.tool}", code="NOT_FOUND", not_run=True)
            self._answer(invoke, failure_of(why))
        elif len(self._calls) >= self._worker.max_in_flight:
            self._answer(invoke, failure_of(_OVERLOADED))
        else:
            running = self._calls[invoke.invocation_id] = _Running(invoke, self._places, lambda note: self._progress(invoke, note))
            running.start(function, lambda result: self._ended(invoke, result))

    def _progress(self, invoke: pb.WorkerInvoke, note: str) -> None:
        if not self._line.is_crowded():
            progress = pb.WorkerProgress(invocation_id=invoke.invocation_id, note=readable(note[:LONGEST_NOTE]))
            self._line.say(pb.WorkerMessage(progress=progress))

    def _ended(self, invoke: pb.WorkerInvoke, result: pb.WorkerResult) -> None:
        del self._calls[invoke.invocation_id]
        self._answer(invoke, result)

    def _answer(self, invoke: pb.WorkerInvoke, result: pb.WorkerResult) -> None:
        result.invocation_id = invoke.invocation_id
        fit(result, self._most)
        self._line.say(pb.WorkerMessage(result=result))


class _Running:
    """A call that runs, when it has got a place: calls of an earlier stream may have them all."""

    def __init__(self, invoke: pb.WorkerInvoke, places: Places, say: Callable[[str], None]) -> None:
        self._places = places
        self._arguments = invoke.arguments_json
        self._context = Context(invoke, say)
        self._begun = False
        self._in_thread = False
        self._task: asyncio.Task[pb.WorkerResult] | None = None

    def start(self, function: Function, ended: Callable[[pb.WorkerResult], None]) -> None:
        self._in_thread = not function.is_async
        self._task = asyncio.ensure_future(self._run(function))
        left = self._context.remaining()
        timer = None if left is None else asyncio.get_running_loop().call_later(left, self.cancel)

        def over(task: asyncio.Task[pb.WorkerResult]) -> None:
            if timer is not None:
                timer.cancel()
            ended(failure_of(Failure("the call was cancelled") if self._begun else _OVERLOADED) if task.cancelled() else task.result())

        self._task.add_done_callback(over)

    def cancel(self) -> None:
        """Tells the function that nobody waits for it. One in a thread has to look."""
        self._context._over.set()
        if self._task is not None and not (self._in_thread and self._begun):
            self._task.cancel()

    def forget(self) -> None:
        """Does not begin a call any more whose stream has ended: nobody hears of it."""
        if not self._begun:
            self.cancel()

    async def _run(self, function: Function) -> pb.WorkerResult:
        async with self._places:
            try:
                return await self._serve(function)
            except Exception as e:  # of what it has raised nothing can be told
                log.error("the function %s failed unexpectedly", function.declared.name, exc_info=e)
                return failure_of(Failure("the function failed unexpectedly"))

    async def _serve(self, function: Function) -> pb.WorkerResult:
        self._begun = True
        try:
            _current.set(self._context)
            arguments = _read(self._arguments)
            if self._in_thread:
                value = await _in_thread(lambda: function.call(arguments, self._context))
            else:
                value = function.call(arguments, self._context)
            if inspect.isawaitable(value):
                self._in_thread = False
                value = await value
            if inspect.isgenerator(value) or inspect.isasyncgen(value):
                raise TypeError("it returned a generator, which nobody runs")
        except asyncio.CancelledError:
            raise
        except BaseException as e:  # sys.exit ends a call, and not the program
            if isinstance(e, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # of who sits before it
            if not isinstance(e, Failure):
                log.warning("the function %s failed", function.declared.name, exc_info=e)
            anything = function.clean == (BaseException,)  # but not that it was broken off
            return failure_of(e, () if anything and self._context.cancelled else function.clean)
        try:
            return result_of(value)
        except Exception as e:  # it ran
            log.warning("the result of the function %s cannot be sent", function.declared.name, exc_info=e)
            return unreadable(e)


def _read(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError) as e:  # Python has bounds of its own
        raise Failure(f"the arguments cannot be read: {e}", code="INVALID_ARGS", not_run=True) from e


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Runs a function in a thread that ends with it, and does not keep the program from
    ending."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def end(outcome: tuple[Any, BaseException | None]) -> None:
        if not over.done():  # by a task that was cancelled
            over.set_result(outcome)

    def run() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = (context.run(function), None)
        except BaseException as e:
            outcome = (None, e)
        try:
            loop.call_soon_threadsafe(end, outcome)
        except RuntimeError:  # the loop is closed: nobody waits
            log.warning("a function ended after its worker")

    threading.Thread(target=run, name="sidecall-function", daemon=True).start()
    value, error = await over
    if error is None:
        return value
    # StopIteration cannot go through a coroutine, and KeyboardInterrupt would end it.
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        raise error
    raise RuntimeError(repr(error)) from error
