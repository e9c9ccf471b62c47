"""The way of a framework's calls to the sidecar, which is the same for all of them.

A framework runs each tool call of a turn by itself. Those that its tasks make before
the event loop comes to rest belong together: they are sent as one ExecuteTools, so
that a tool marked sequential keeps its order, and all of them count as one turn.

Calls of functions of the framework's own come here too: see _own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict

from sidecall import _session
from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._errors import WrongField
from sidecall._request import Call, request
from sidecall.adapters._awaited import Awaited
from sidecall.adapters._shown import texts_of
from sidecall.v1 import tool_service_pb2 as pb

#: How often the event loop goes round without a new call before a batch is sent, and how
#: often at most. A framework starts the calls of a turn together, but each has some steps
#: of its own before its tool: one that is traced has more of them than the others.
QUIET_ROUNDS, MOST_ROUNDS = 32, 512

#: How long those are waited for, in seconds, that the model has made in the same message:
#: one that waits for a person, say, does not come.
TOGETHER = 0.1

Fields = Mapping[str, Any]


class Calls:
    """The calls of one adapter. A client that waits serves async frameworks too; one
    that awaits serves no others, and only its own event loop."""

    def __init__(self, client: Sidecall | AsyncSidecall, fields: Fields) -> None:
        if not isinstance(client, (Sidecall, AsyncSidecall)):
            raise WrongField("client", f"want a Sidecall or an AsyncSidecall, got a {type(client).__name__}")
        self._client = client
        self._awaited = client if isinstance(client, AsyncSidecall) else Awaited(client)
        self._fields = {name: value for name, value in fields.items() if value is not None}
        request(Call("", ""), {"conversation_id": "", **self._fields})  # what is wrong is said now, not at the first call
        self._open: dict[Any, _Batch] = {}

    def tools(self) -> list[pb.Tool]:
        """The tools that the profile may call."""
        return self._waiting()._run(_session.list_tools(self._fields.get("profile", ""), insist=True), None)

    async def tools_async(self) -> list[pb.Tool]:
        return await self._awaited._run(_session.list_tools(self._fields.get("profile", ""), insist=True), None)

    def run(self, calls: list[Call], ids: Fields) -> list[pb.ExecuteToolResponse]:
        """Runs calls of one turn and waits."""
        return self._waiting()._run(_session.execute(calls, self._named(ids), insist=True), None)

    async def run_async(self, call: Call, ids: Fields, made: int = 1) -> pb.ExecuteToolResponse:
        """Runs a call, together with those that other tasks make of the same turn. A
        task that is cancelled leaves the others alone; the last one cancels the
        request. ``made`` is how many of them are known to come."""
        fields = self._named(ids)
        request(call, fields)  # one that cannot be sent spoils nobody else's
        key = (asyncio.get_running_loop(), json.dumps(fields, sort_keys=True, default=repr))
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch(made)
            batch.sent = asyncio.ensure_future(self._send(key, batch, fields))
            batch.sent.add_done_callback(lambda _: self._close(key, batch))
        return await batch.result(call)

    async def is_held_async(self, call: Call, ids: Fields) -> bool:
        """Whether a call waits for a person, for frameworks that ask before they run it: it is
        held then, and nothing is run in either case."""
        return (await self.run_async(call, {**ids, "hold_only": True})).HasField("hold")

    def _named(self, ids: Fields) -> Fields:
        """The fields of a call. A turn is one message of the model, and its calls may come
        one after another all the same: when they are streamed, or are too many for the
        threads of a framework."""
        return {**self._fields, **ids, "message_id": ids.get("turn_id")}

    async def _send(self, key: Any, batch: _Batch, fields: Fields) -> dict[int, pb.ExecuteToolResponse]:
        if len(batch.calls) < batch.made:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(batch.whole.wait(), TOGETHER)
        quiet = 0
        for _ in range(MOST_ROUNDS):
            there = len(batch.calls)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(batch.calls) == there else 0
            if quiet == QUIET_ROUNDS:
                break
        self._close(key, batch)
        calls = dict(batch.calls)
        results = await self._awaited._run(_session.execute(list(calls.values()), fields, insist=True), None)
        return dict(zip(calls, results, strict=True))

    def _close(self, key: Any, batch: _Batch) -> None:
        """What comes later is another batch."""
        if self._open.get(key) is batch:
            del self._open[key]

    def _waiting(self) -> Sidecall:
        if isinstance(self._client, AsyncSidecall):
            raise WrongField(
                "client", "this is an AsyncSidecall, and the framework does not await: give the adapter a Sidecall, which serves both"
            )
        return self._client


class _Batch:
    """Calls that are sent together."""

    sent: asyncio.Future[dict[int, pb.ExecuteToolResponse]]

    def __init__(self, made: int) -> None:
        self.made = made
        #: Set when that many calls have come.
        self.whole = asyncio.Event()
        self.calls: dict[int, Call] = {}
        self._waiting = 0
        self._places = itertools.count()

    async def result(self, call: Call) -> pb.ExecuteToolResponse:
        place = next(self._places)
        self.calls[place] = call
        self._waiting += 1
        if place + 1 >= self.made:
            self.whole.set()
        try:
            # Shielded: what one task gives up, others may wait for.
            return (await asyncio.shield(self.sent))[place]
        finally:
            del self.calls[place]  # given up before it was sent, it is not
            self._waiting -= 1
            if not self._waiting:
                self.sent.cancel()


def text(result: pb.ExecuteToolResponse, pictures: frozenset[str] = frozenset()) -> str:
    """All that a result says to the model: its content word for word, and after it
    what was tried before, notices, and what its blocks have in words. ``pictures``
    are the types of those that the framework shows beside it."""
    return "\n\n".join(texts_of(result, pictures))


def about(result: pb.ExecuteToolResponse) -> dict[str, Any]:
    """The rest of a result, for the program and not for the model: plain data, which
    a framework can keep."""
    rest = pb.ExecuteToolResponse()
    rest.CopyFrom(result)
    for name in ("content", "blocks"):
        rest.ClearField(name)
    return MessageToDict(rest, preserving_proto_field_name=True)


def schema(tool: pb.Tool) -> dict[str, Any]:
    """The schema of a tool's arguments, which frameworks want to be an object's."""
    found = json.loads(tool.input_schema_json or "{}")
    return {"type": "object", "properties": {}, **(found if isinstance(found, dict) else {})}


def identity(value: Any, how: str) -> str:
    """The id of a conversation, which has to be there, and how it is given when it
    is not."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise WrongField("conversation_id", f"this run has none: {how}")
    return value
