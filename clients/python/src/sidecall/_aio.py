"""The client that awaits."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio

from sidecall import _channel, _session, _trace, _worker
from sidecall._conversation import AsyncConversation
from sidecall._errors import ClientClosed, SidecallError
from sidecall._launch import START, Launched, launch
from sidecall._line import AwaitedLine
from sidecall._messages import Format, Message, ToolMessages
from sidecall._request import Call, address, seconds
from sidecall._work import AsyncWork, Career
from sidecall._worker import Worker
from sidecall.v1 import tool_service_pb2 as pb

T = TypeVar("T")


class AsyncSidecall:
    """Sidecall for asyncio: the same methods, to be awaited. It belongs to one event
    loop. A task that is cancelled cancels its request; what a tool has begun is
    finished and recorded by the sidecar."""

    def __init__(
        self,
        target: str = _channel.DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
        patience: float | timedelta = _channel.PATIENCE,
    ) -> None:
        """As Sidecall."""
        at = address(target)
        self._target = target
        self._id, self._pid = uuid.uuid4().hex, os.getpid()
        _channel.check_socket(at)
        self._patience = seconds(patience, "patience")
        everything = [*_channel.OPTIONS, *options]
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(at, options=everything)
        else:
            self._channel = grpc.aio.secure_channel(at, credentials, options=everything)
        #: The generated stubs, as those of Sidecall; their methods are awaited.
        self.stub, self.conversations = _channel.stubs(self._channel)
        self._launched: Launched | None = None
        #: As those of Sidecall.
        self.worker = Worker()
        self.tool = self.worker.tool
        self._works: list[AsyncWork] = []
        self._closed = threading.Event()

    @property
    def client_id(self) -> str:
        """As Sidecall.client_id."""
        return f"{self._id}-{os.getpid()}"

    @classmethod
    def connect(cls, target: str = _channel.DEFAULT_TARGET, **options: Any) -> AsyncSidecall:
        """The same as AsyncSidecall(target, ...)."""
        return cls(target, **options)

    @classmethod
    async def launch(
        cls,
        config: str | os.PathLike[str] | Mapping[str, Any],
        *,
        binary: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout: float | timedelta = START,
        **options: Any,
    ) -> AsyncSidecall:
        """As Sidecall.launch."""
        starting = asyncio.ensure_future(asyncio.to_thread(launch, config, binary, env, start_timeout))
        try:
            started = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_end)
            raise
        try:
            client = cls(started.target, **options)
        except BaseException:
            await asyncio.to_thread(started.stop)
            raise
        client._launched = started
        return client

    async def execute_tool(
        self,
        call: Call,
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> pb.ExecuteToolResponse:
        """As Sidecall.execute_tool."""
        shared = {"conversation_id": conversation_id, "turn_id": turn_id, **fields}
        return await self._run(_session.one(call, shared), rpc_timeout)

    async def execute_tools(
        self,
        calls: Sequence[Call],
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> list[pb.ExecuteToolResponse]:
        """As Sidecall.execute_tools."""
        shared = {"conversation_id": conversation_id, "turn_id": turn_id, **fields}
        return await self._run(_session.execute(calls, shared, insist=False), rpc_timeout)

    async def run_tools(
        self,
        message: Any,
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        prompt_id: str | int | None = None,
        profile: str | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> ToolMessages:
        """As Sidecall.run_tools."""
        shared = {**fields, "conversation_id": conversation_id, "turn_id": turn_id, "prompt_id": prompt_id, "profile": profile}
        return await self._run(_session.run_tools(message, shared), rpc_timeout)

    async def run_loop(
        self,
        ask: Callable[[list[Message]], Awaitable[Any] | Any],
        messages: Sequence[Any] = (),
        *,
        conversation_id: str | int | None = None,
        keep: AsyncConversation | None = None,
        prompt_id: str | int | None = None,
        profile: str | None = None,
        max_turns: int = _session.MAX_TURNS,
        on_escalation: Callable[[ToolMessages], Awaitable[bool] | bool] | None = None,
        on_held: Callable[[ToolMessages], Awaitable[bool] | bool] | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> _session.Loop:
        """As Sidecall.run_loop; ``ask``, ``on_escalation`` and ``on_held`` may be async."""
        return await self._run(
            _session.run_loop(
                ask, messages, conversation_id=conversation_id, prompt_id=prompt_id, profile=profile,
                max_turns=max_turns, on_escalation=on_escalation, on_held=on_held, keep=keep, **fields,
            ),
            rpc_timeout,
        )  # fmt: skip

    async def conversation(
        self,
        id: str | int,
        provider: Format,
        *,
        compact_after_turns: int = 0,
        compact_to_tokens: int = 0,
        rpc_timeout: float | timedelta | None = None,
    ) -> AsyncConversation:
        """As Sidecall.conversation."""
        leaves = {"compact_after_turns": compact_after_turns, "compact_to_tokens": compact_to_tokens}
        return await self._run(AsyncConversation(self, id, provider, **leaves)._load(), rpc_timeout)

    async def tools(
        self, format: Format = "anthropic", *, profile: str = "", rpc_timeout: float | timedelta | None = None
    ) -> list[Message]:
        """As Sidecall.tools."""
        return await self._run(_session.tools(profile, format), rpc_timeout)

    async def instructions(self, profile: str = "", *, rpc_timeout: float | timedelta | None = None) -> str:
        """As Sidecall.instructions."""
        return await self._run(_session.instructions(profile), rpc_timeout)

    async def list_tools(self, profile: str = "", *, rpc_timeout: float | timedelta | None = None) -> list[pb.Tool]:
        """As Sidecall.list_tools."""
        return await self._run(_session.list_tools(profile, insist=False), rpc_timeout)

    async def _run(self, steps: _session.Steps[T], rpc_timeout: float | timedelta | None) -> T:
        wait = None if rpc_timeout is None else seconds(rpc_timeout, "rpc_timeout")
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._step(step, wait)
                except BaseException as e:
                    step = steps.throw(e)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    async def _step(self, step: _session.Rpc | _session.Do, wait: float | None) -> Any:
        if isinstance(step, _session.Rpc):
            return await self._rpc(step, wait)
        answer = step.function(*step.arguments)
        return await answer if inspect.isawaitable(answer) else answer

    async def _rpc(self, rpc: _session.Rpc, wait: float | None) -> Any:
        stub = self.conversations if rpc.service == "conversations" else self.stub
        method = getattr(stub, rpc.method)
        metadata = ((_channel.CLIENT, self.client_id), *_trace.metadata())
        again = _channel.pauses(self._patience if rpc.insist else 0, time.monotonic)
        while True:
            if self._closed.is_set():
                raise ClientClosed
            try:
                return await method(rpc.request, timeout=wait if rpc.wait is None else rpc.wait, metadata=metadata)
            except asyncio.CancelledError as e:  # of a task that was not: since Python 3.11 it says so
                if self._closed.is_set() and getattr(asyncio.current_task(), "cancelling", lambda: 1)() == 0:
                    raise ClientClosed from e
                raise
            except grpc.RpcError as e:
                if self._closed.is_set():
                    raise ClientClosed from e
                if not _channel.is_away(e):
                    raise
                if (ended := await self._has_ended()) is not None:
                    raise ended from e  # there is never to be another
                pause = next(again, None)
                if pause is None:
                    raise _channel.away(e, self._target) from e
            await asyncio.sleep(pause)

    def work(self, worker: Worker | None = None, **settings: Any) -> AsyncWork:
        """As Sidecall.work, in this event loop: ``async with s.work():``, or
        ``await s.work().run()``. Functions that are not async have a thread each."""
        named = _worker.with_settings(worker or self.worker, settings)
        work = AsyncWork(lambda: Career(named, self._line, self._patience, self._has_ended))
        self._works = [*(w for w in self._works if not w.has_ended()), work]
        return work

    def _line(self) -> AwaitedLine:
        if self._closed.is_set():
            raise ClientClosed
        return AwaitedLine(_channel.worker_stub(self._channel))

    async def _has_ended(self) -> SidecallError | None:
        return None if self._launched is None else await asyncio.to_thread(self._launched.ended)

    async def close(self) -> None:
        """As Sidecall.close."""
        if self._pid != os.getpid():  # nor is the event loop of its works
            self._closed.set()
            return
        async with contextlib.AsyncExitStack() as left:  # from the last one on, whatever comes of the others
            if self._launched is not None:
                left.push_async_callback(asyncio.to_thread, self._launched.stop)
            left.push_async_callback(self._channel.close, None)
            left.callback(self._closed.set)
            for work in self._works:
                left.push_async_callback(work.stop)

    async def __aenter__(self) -> AsyncSidecall:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _end(starting: asyncio.Future[Launched]) -> None:
    """Ends a sidecar that nobody waits for any more."""
    if not starting.cancelled() and starting.exception() is None:
        threading.Thread(target=starting.result().stop, name="sidecall-end", daemon=True).start()
