"""The stream between a worker and its sidecar, on either kind of connection."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import grpc

from sidecall.v1 import worker_service_pb2 as pb

Obey = Callable[[pb.WorkerCommand], None]

#: How many messages may wait to be sent before progress is left out: a function may
#: say more of it than a stream takes. Results are bounded by the places of a worker.
CROWDED = 256


class Line(Protocol):
    """One stream. It ends when the sidecar ends it, or by hang_up."""

    def say(self, message: pb.WorkerMessage) -> None:
        """Sends a message, from any thread, and does not wait. On a stream that has
        ended it goes nowhere."""

    def is_crowded(self) -> bool:
        """Whether much waits to be sent."""

    async def listen(self, obey: Obey) -> None:
        """Hands over what the sidecar says, until the stream has ended; grpc.RpcError
        when that was not well."""

    def hang_up(self) -> None:
        """Ends the stream."""


class ThreadedLine:
    """A stream of a connection that waits: threads read and write it."""

    def __init__(self, stub: Any) -> None:
        self._out: queue.SimpleQueue[pb.WorkerMessage | None] = queue.SimpleQueue()
        self._call = stub.Serve(iter(self._out.get, None))
        if not self._call.add_callback(self._close):
            self._close()

    def _close(self) -> None:
        self._out.put(None)  # ends the thread that writes

    def say(self, message: pb.WorkerMessage) -> None:
        self._out.put(message)

    def is_crowded(self) -> bool:
        return self._out.qsize() > CROWDED

    async def listen(self, obey: Obey) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def end(error: grpc.RpcError | None) -> None:
            if over.done():  # by a task that was cancelled
                return
            if error is None:
                over.set_result(None)
            else:
                over.set_exception(error)

        def read() -> None:  # ends with the stream
            error = None
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
                try:
                    for command in self._call:
                        loop.call_soon_threadsafe(obey, command)
                except grpc.RpcError as e:
                    error = e
                loop.call_soon_threadsafe(end, error)

        threading.Thread(target=read, name="sidecall-listen", daemon=True).start()
        await over

    def hang_up(self) -> None:
        self._call.cancel()


class AwaitedLine:
    """A stream of a connection of an event loop."""

    def __init__(self, stub: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.Queue[pb.WorkerMessage | None] = asyncio.Queue()
        self._hung_up = False
        self._call = stub.Serve(self._sent())

    async def _sent(self) -> AsyncIterator[pb.WorkerMessage]:
        while (message := await self._out.get()) is not None:
            yield message

    def say(self, message: pb.WorkerMessage) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._out.put_nowait, message)

    def is_crowded(self) -> bool:
        return self._out.qsize() > CROWDED

    async def listen(self, obey: Obey) -> None:
        try:
            async for command in self._call:
                obey(command)
        except asyncio.CancelledError:
            if not self._hung_up:
                self._call.cancel()
                raise
        finally:
            self._out.put_nowait(None)  # ends what writes

    def hang_up(self) -> None:
        self._hung_up = True
        self._call.cancel()
