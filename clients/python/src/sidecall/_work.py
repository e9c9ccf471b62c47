"""A worker at work: it registers its functions, again whenever a sidecar is there
again, until it is told to leave."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType

import grpc

from sidecall._errors import SidecallError, WorkerRefused, WrongTool
from sidecall._line import Line
from sidecall._places import Places
from sidecall._request import seconds
from sidecall._shift import Shift
from sidecall._worker import Worker

log = logging.getLogger("sidecall")

#: Statuses after which it is in vain to come again.
LASTING = frozenset({
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
})  # fmt: skip

#: How long a sidecar that a stream was opened to has to answer, in seconds.
ANSWER = 30.0

#: Bounds of the wait before a sidecar is looked for again, in seconds.
_SOON, _LATE = 0.05, 5.0


#: What grpc.aio says in the place of the status with which a sidecar has ended a stream
#: that something was just being written to, and how many such streams in a row are
#: followed by another, which has the status, however short the patience is.
_LOST, _MOST_LOST = "Internal error from Core", 16


def _is_lost(error: BaseException | None) -> bool:
    return isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.INTERNAL and error.details() == _LOST


class Career:
    """The streams of a worker, one after the other. It belongs to the event loop that
    runs it; leave may be called from any thread."""

    def __init__(
        self, worker: Worker, open_line: Callable[[], Line], patience: float, ended: Callable[[], Awaitable[SidecallError | None]]
    ) -> None:
        if not worker.functions:
            raise WrongTool("the worker has no functions: make one a tool first")
        self._worker = worker
        self._grace = seconds(worker.grace, "grace")
        self._open = open_line
        self._patience = patience
        #: Says why there is never to be a sidecar again.
        self._ended = ended
        self._shifts: dict[asyncio.Task[None], Shift] = {}
        self._places = worker.places or Places(worker.max_in_flight)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        self._told = threading.Event()  # to leave, maybe before there was a loop
        #: Done when the functions were taken in for the first time, or it is clear
        #: that they will not be.
        self.first: concurrent.futures.Future[None] = concurrent.futures.Future()
        #: The names that models call, by those of the functions.
        self.names: Mapping[str, str] = {}

    def leave(self) -> None:
        self._told.set()
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is over
                loop.call_soon_threadsafe(self._leaving.set)

    async def run(self) -> None:
        """Works until it has left; raises why it cannot."""
        self._loop = asyncio.get_running_loop()
        if self._told.is_set():
            self._leaving.set()
        try:
            await self._work()
            await self._end_well()
        except BaseException as e:
            if not self.first.done():
                self.first.set_exception(e)
            raise
        finally:
            for shift in self._shifts.values():
                shift.end()
            if not self.first.done():
                self.first.set_exception(WorkerRefused("the worker has left before the sidecar took it in"))

    async def _work(self) -> None:
        pause, begun, lost = _SOON, time.monotonic(), 0
        while not self._leaving.is_set():
            shift = Shift(self._worker, self._open(), self._places, self._taken_in)
            task = asyncio.ensure_future(shift.run())
            self._shifts[task] = shift
            task.add_done_callback(self._over)
            error = await self._watch(task, shift)
            if self._leaving.is_set():
                return
            if shift.names is not None:
                pause = _SOON
            lost = lost + 1 if _is_lost(error) else 0
            if not self.first.done() and time.monotonic() - begun + pause > self._patience and not 0 < lost <= _MOST_LOST:
                raise error or WorkerRefused(f"the sidecar has not taken the worker {self._worker.name} in")
            level = logging.WARNING if isinstance(error, WorkerRefused) else logging.INFO
            log.log(level, "the worker %s looks for a sidecar again: %s", self._worker.name, error or "it was told to")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LATE)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._shifts[task]
        if not task.cancelled():
            task.exception()  # of one that nobody waits for any more, it is of no interest

    async def _watch(self, task: asyncio.Task[None], shift: Shift) -> Exception | None:
        """Returns when another stream is to be opened, or the worker is to leave; with
        the error that the stream ended with, if it did."""
        events = [asyncio.ensure_future(event.wait()) for event in (shift.goodbye, self._leaving, shift.registered)]
        try:
            await asyncio.wait([task, *events], timeout=ANSWER, return_when=asyncio.FIRST_COMPLETED)
            if shift.names is not None:  # once it is in, there is time
                await asyncio.wait([task, *events[:2]], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for event in events:
                event.cancel()
        if not task.done():
            if shift.names is None and not self._leaving.is_set():
                shift.end()
            return None
        return await self._why(task.exception())

    async def _why(self, error: BaseException | None) -> Exception | None:
        """The error of a stream; raised when it is in vain to come again."""
        if error is not None and not isinstance(error, grpc.RpcError):
            raise error
        if error is None:
            return None
        code, details = error.code(), error.details()
        if code in LASTING:
            raise WorkerRefused(f"the sidecar refuses the worker {self._worker.name}: {details}", code) from error
        if code == grpc.StatusCode.UNAVAILABLE and (ended := await self._ended()) is not None:
            raise ended from error
        if code == grpc.StatusCode.UNAVAILABLE or _is_lost(error):
            return error
        return WorkerRefused(f"the sidecar refuses the worker {self._worker.name}: {details}", code)

    def _taken_in(self, names: Mapping[str, str]) -> None:
        self.names = names
        if not self.first.done():
            self.first.set_result(None)

    async def _end_well(self) -> None:
        """Lets the calls that there are end, for the worker's grace."""
        for shift in self._shifts.values():
            shift.leave()
        if streams := list(self._shifts):
            await asyncio.wait(streams, timeout=self._grace)


class Work:
    """The work of a Sidecall, in a thread of its own. With it as a context manager the
    functions are tools inside, and registered when it begins; run works until it is
    told to leave. It ends with the client."""

    def __init__(self, career: Career) -> None:
        self._career = career
        self._thread: threading.Thread | None = None
        #: Is set when the work has ended. Before Python 3.13 a join that Ctrl-C breaks off takes the thread for ended.
        self._over = threading.Event()
        self._error: BaseException | None = None

    @property
    def names(self) -> Mapping[str, str]:
        """The names that models call, by those of the functions."""
        return self._career.names

    def start(self) -> Work:
        """Registers the functions, and returns when they can be called. WorkerRefused
        says why the sidecar does not take them; grpc.RpcError is raised when it is
        away for longer than the client's patience."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sidecall-work", daemon=True)
            self._thread.start()
            atexit.register(self.stop)  # what runs when the program ends is finished
        try:
            self._career.first.result()
        except BaseException:
            self.stop()
            raise
        return self

    def _run(self) -> None:
        try:
            asyncio.run(self._career.run())
        except BaseException as e:
            self._error = e
            if self._career.names:
                log.error("the worker has ended: %s", e)
        finally:
            self._over.set()

    def leave(self) -> None:
        """Takes no more calls; those that there are go on for the worker's grace. Does
        not wait, so a signal handler may say it."""
        self._career.leave()

    def has_ended(self) -> bool:
        """Whether it has worked, and does not any more."""
        return self._thread is not None and not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits, for so many seconds at the most, until the work has ended; whether it
        has. Raises why, when it was not told to leave."""
        if self._thread is not None:
            if self._thread.is_alive() and not self._over.wait(timeout):
                return False
            if self._error is not None:
                raise self._error
        return True

    def stop(self) -> None:
        """Leaves, and waits until the work has ended."""
        self.leave()
        atexit.unregister(self.stop)
        if self._thread is not None and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._over.wait()  # a process that was forked has no such thread

    def run(self) -> None:
        """Works until it is told to leave. KeyboardInterrupt tells it, too."""
        try:
            self.start()
            self.wait()
        finally:
            self.stop()

    def __enter__(self) -> Work:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class AsyncWork:
    """As Work, in the event loop of an AsyncSidecall."""

    def __init__(self, career: Callable[[], Career]) -> None:
        self._begin = career
        self._career: Career | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def names(self) -> Mapping[str, str]:
        """As Work.names."""
        return self._career.names if self._career is not None else {}

    async def start(self) -> AsyncWork:
        """As Work.start."""
        if self._task is None or self._career is None:
            self._career = self._begin()
            self._task = asyncio.ensure_future(self._career.run())
            self._task.add_done_callback(self._say_why)
        try:
            await asyncio.wrap_future(self._career.first)
        except BaseException:
            await self.stop()
            raise
        return self

    def leave(self) -> None:
        """As Work.leave."""
        if self._career is not None:
            self._career.leave()

    def has_ended(self) -> bool:
        """As Work.has_ended."""
        return self._task is not None and self._task.done()

    async def wait(self) -> None:
        """Waits until the work has ended. Raises why, when it was not told to leave."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """As Work.stop."""
        self.leave()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def run(self) -> None:
        """Works until it is told to leave, or its task is cancelled."""
        try:
            await self.start()
            await self.wait()
        finally:
            await self.stop()

    def _say_why(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self.names:
            log.error("the worker has ended: %s", error)

    async def __aenter__(self) -> AsyncWork:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()
