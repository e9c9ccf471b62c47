"""The client that waits."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import grpc

from sidecall import _channel, _session, _trace, _worker
from sidecall._conversation import Conversation
from sidecall._errors import ClientClosed, SidecallError
from sidecall._launch import START, Launched, launch
from sidecall._line import ThreadedLine
from sidecall._messages import Format, Message, ToolMessages
from sidecall._request import Call, address, seconds
from sidecall._work import Career, Work
from sidecall._worker import Worker
from sidecall.v1 import tool_service_pb2 as pb

T = TypeVar("T")


class Sidecall:
    """Speaks to one sidecar. Safe for use by several threads; one per process
    is enough. It connects at the first call, and again by itself whenever the
    connection was lost."""

    def __init__(
        self,
        target: str = _channel.DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
        patience: float | timedelta = _channel.PATIENCE,
    ) -> None:
        """``target`` is tcp://host:port, unix:///path or anything else that
        gRPC resolves. Without credentials the connection is plain text, as on a
        loopback or unix socket it may be. ``options`` come after the client's
        own channel options. ``patience`` is how long run_tools, run_loop and tools go
        on asking, in seconds, while the sidecar is away."""
        at = address(target)
        self._target = target
        self._id, self._pid = uuid.uuid4().hex, os.getpid()
        _channel.check_socket(at)
        self._patience = seconds(patience, "patience")
        everything = [*_channel.OPTIONS, *options]
        if credentials is None:
            self._channel = grpc.insecure_channel(at, options=everything)
        else:
            self._channel = grpc.secure_channel(at, credentials, options=everything)
        #: The generated stubs, for what has no method here. Of tools: GetExecution
        #: ("did it run?") and ReadOutput (pages of an output that was cut; with the
        #: conversation_id of its call). Of conversations: StartPrompt and EndPrompt.
        self.stub, self.conversations = _channel.stubs(self._channel)
        self._launched: Launched | None = None
        #: The functions of this program that work serves.
        self.worker = Worker()
        #: Makes a function one of them: see Worker.tool.
        self.tool = self.worker.tool
        self._works: list[Work] = []
        self._closed = threading.Event()

    @property
    def client_id(self) -> str:
        """What this client calls itself in this process. Functions of adapters serve its
        calls alone."""
        return f"{self._id}-{os.getpid()}"

    @classmethod
    def connect(cls, target: str = _channel.DEFAULT_TARGET, **options: Any) -> Sidecall:
        """The same as Sidecall(target, ...)."""
        return cls(target, **options)

    @classmethod
    def launch(
        cls,
        config: str | os.PathLike[str] | Mapping[str, Any],
        *,
        binary: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout: float | timedelta = START,
        **options: Any,
    ) -> Sidecall:
        """Starts a sidecar of this program's own, on a unix socket that nobody else
        can open, and connects to it when it is ready. ``config`` is the path of a config
        file, or what would stand in one. ``binary`` is the program; without it, it is the
        one that SIDECALL_BINARY names, that came with this package, or that is on the
        PATH. ``env`` is added to the environment of the sidecar. Its log goes to the
        logger "sidecall". close ends it, and so does the end of this process, however it
        ends.

        Processes that launch one with the same config on one embedded store share one,
        which serves until the last of them has gone. The sidecar of a process that was
        killed lets its calls end first; the next launch waits for that. ``start_timeout``,
        in seconds, bounds this, and how long backends are waited for that find their tools
        by themselves: the log names those that are missing then. LaunchFailed says why it
        did not start."""
        started = launch(config, binary, env, start_timeout)
        try:
            client = cls(started.target, **options)
            client._launched = started
        except BaseException:
            started.stop()
            raise
        return client

    def execute_tool(
        self,
        call: Call,
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> pb.ExecuteToolResponse:
        """Runs one call; one whose effect must not be repeated at most once per
        (conversation_id, turn_id, tool_use_id). See execute_tools."""
        shared = {"conversation_id": conversation_id, "turn_id": turn_id, **fields}
        return self._run(_session.one(call, shared), rpc_timeout)

    def execute_tools(
        self,
        calls: Sequence[Call],
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> list[pb.ExecuteToolResponse]:
        """Runs the calls of one assistant turn, in parallel where the tools
        allow it, and returns one result per call in the order of the calls. Nothing
        is sent again by this: see run_tools.

        ``conversation_id`` and ``turn_id`` are part of each call's identity. The
        former is required: WrongField without it. Some providers start their ids again in every turn, so ``turn_id``
        should be something stable such as the turn's index.

        ``fields`` are further fields of ExecuteToolRequest for every call, by
        their names in the contract: ``prompt_id``, ``profile``, ``timeout``
        (seconds or a timedelta), ``validate_only``, ``hold_only`` (only ask whether a
        person has to allow them first), ``max_output_chars``, ``tokens_used``, ``labels``,
        ``allow_duplicate_effect``, ``message_id`` (the message of the model that the calls
        stand in, where those of one are not sent at once). Integers are taken as ids. ``rpc_timeout``,
        likewise in seconds, is when waiting ends; what is running then is finished
        and recorded by the sidecar.
        """
        shared = {"conversation_id": conversation_id, "turn_id": turn_id, **fields}
        return self._run(_session.execute(calls, shared, insist=False), rpc_timeout)

    def run_tools(
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
        """Runs the tools that an assistant's message calls, and returns the messages
        to append after it. ``message`` is the object of the provider's SDK or the same
        as dicts: an Anthropic message, a Chat Completion (or a choice or message of
        one), a Response. ``turn_id`` is the provider's id of the message or response
        unless it is given; one that has none should be given one.

        While the sidecar is away, the same calls are sent again with the same ids,
        for the client's patience. Calls of a message that was cut are answered and not
        run. ``fields`` are those of execute_tools."""
        shared = {**fields, "conversation_id": conversation_id, "turn_id": turn_id, "prompt_id": prompt_id, "profile": profile}
        return self._run(_session.run_tools(message, shared), rpc_timeout)

    def run_loop(
        self,
        ask: Callable[[list[Message]], Any],
        messages: Sequence[Any] = (),
        *,
        conversation_id: str | int | None = None,
        keep: Conversation | None = None,
        prompt_id: str | int | None = None,
        profile: str | None = None,
        max_turns: int = _session.MAX_TURNS,
        on_escalation: Callable[[ToolMessages], bool] | None = None,
        on_held: Callable[[ToolMessages], bool] | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> _session.Loop:
        """Asks the model, runs its tools, and asks again until it calls none, its
        budget is used up, or the sidecar says stop. ``ask`` is given all messages so
        far and returns the provider's answer: client.messages.create(...),
        client.chat.completions.create(...) or client.responses.create(...). Where a
        person has to be asked before the model goes on, ``on_escalation`` is given
        what the tools answered, and says whether it may; without it the loop ends.
        Where calls wait for a person, ``on_held`` is given what was answered, waits, and
        says whether to make them again; without it the loop ends (``held``), and none
        of the answers is kept: a loop with ``keep`` goes on from there.

        ``keep`` is the conversation that the sidecar keeps of it, message by message;
        then ``conversation_id`` is not needed. The calls in it that have no result
        are made first, with the ids that they had; ``messages`` come behind what is
        kept. So a loop that was killed anywhere goes on when it is run without any, in
        the prompt that it was in; messages begin another."""
        return self._run(
            _session.run_loop(
                ask, messages, conversation_id=conversation_id, prompt_id=prompt_id, profile=profile,
                max_turns=max_turns, on_escalation=on_escalation, on_held=on_held, keep=keep, **fields,
            ),
            rpc_timeout,
        )  # fmt: skip

    def conversation(
        self,
        id: str | int,
        provider: Format,
        *,
        compact_after_turns: int = 0,
        compact_to_tokens: int = 0,
        rpc_timeout: float | timedelta | None = None,
    ) -> Conversation:
        """Loads a conversation that the sidecar keeps; one that is not there yet has no
        messages. ``provider`` is whose array it is: anthropic, openai (Chat
        Completions) or openai-responses. rpc_timeout bounds each page of it.

        Results that are older than the last ``compact_after_turns`` turns are left out of
        what is loaded, and the oldest ones until it has about ``compact_to_tokens``
        tokens; 0 is no bound. Each becomes a line with its output_ref, by which
        read_output returns it; what the sidecar keeps stays whole."""
        leaves = {"compact_after_turns": compact_after_turns, "compact_to_tokens": compact_to_tokens}
        return self._run(Conversation(self, id, provider, **leaves)._load(), rpc_timeout)

    def tools(
        self, format: Format = "anthropic", *, profile: str = "", rpc_timeout: float | timedelta | None = None
    ) -> list[Message]:
        """The tools that a profile may call, as a provider's ``tools`` parameter takes
        them: anthropic, openai (Chat Completions) or openai-responses."""
        return self._run(_session.tools(profile, format), rpc_timeout)

    def instructions(self, profile: str = "", *, rpc_timeout: float | timedelta | None = None) -> str:
        """The paragraph of the system prompt that teaches the model what the errors
        of these tools ask of it."""
        return self._run(_session.instructions(profile), rpc_timeout)

    def list_tools(self, profile: str = "", *, rpc_timeout: float | timedelta | None = None) -> list[pb.Tool]:
        """Lists what a profile may call, sorted by name. A long list comes in pages;
        rpc_timeout bounds each."""
        return self._run(_session.list_tools(profile, insist=False), rpc_timeout)

    def _run(self, steps: _session.Steps[T], rpc_timeout: float | timedelta | None) -> T:
        wait = None if rpc_timeout is None else seconds(rpc_timeout, "rpc_timeout")
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._rpc(step, wait) if isinstance(step, _session.Rpc) else step.function(*step.arguments)
                except BaseException as e:
                    step = steps.throw(e)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def _rpc(self, rpc: _session.Rpc, wait: float | None) -> Any:
        stub = self.conversations if rpc.service == "conversations" else self.stub
        method = getattr(stub, rpc.method)
        metadata = ((_channel.CLIENT, self.client_id), *_trace.metadata())
        again = _channel.pauses(self._patience if rpc.insist else 0, time.monotonic)
        while True:
            if self._closed.is_set():
                raise ClientClosed
            try:
                return method(rpc.request, timeout=wait if rpc.wait is None else rpc.wait, metadata=metadata)
            except (grpc.RpcError, ValueError) as e:
                if self._closed.is_set():
                    raise ClientClosed from e
                if not _channel.is_away(e):
                    raise
                if self._launched is not None and (ended := self._launched.ended()) is not None:
                    raise ended from e  # there is never to be another
                pause = next(again, None)
                if pause is None:
                    raise _channel.away(e, self._target) from e
            time.sleep(pause)

    def work(self, worker: Worker | None = None, **settings: Any) -> Work:
        """Serves the functions of a worker as tools, those of this client's own when
        none is named: over the connection by which calls are made, in a thread.

            with s.work(name="checkout"):
                ...                             # they are tools here
            s.work(name="checkout").run()       # for a program that is nothing else

        ``settings`` are fields of Worker. The work ends with the client."""
        career = Career(_worker.with_settings(worker or self.worker, settings), self._line, self._patience, self._has_ended)
        work = Work(career)
        self._works = [*(w for w in self._works if not w.has_ended()), work]
        return work

    def _line(self) -> ThreadedLine:
        if self._closed.is_set():
            raise ClientClosed
        return ThreadedLine(_channel.worker_stub(self._channel))

    async def _has_ended(self) -> SidecallError | None:
        return None if self._launched is None else self._launched.ended()

    def close(self) -> None:
        """Closes the connection. The sidecar finishes and records what it has
        begun; one that was launched ends then. Functions that serve calls may finish
        first. In a fork it ends nothing of the process that made the client."""
        with contextlib.ExitStack() as left:  # from the last one on, whatever comes of the others
            if self._pid == os.getpid():  # else what they wait for is not in this process
                if self._launched is not None:
                    left.callback(self._launched.stop)
                left.callback(self._channel.close)
            left.callback(self._closed.set)
            for work in self._works:
                left.callback(work.stop)

    def __enter__(self) -> Sidecall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
