"""Functions of the framework's own behind the sidecar's guarantees.

They are tools of a worker in this process, so that a call of one goes to the sidecar as
every other, and comes back here: to the framework's own way of running it, in the task
or thread that made the call, with all that the framework has around it. What is recorded
is what the model is told.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._context import Context, Failure, _current
from sidecall._errors import WrongField, WrongTool
from sidecall._places import Places
from sidecall._request import Call
from sidecall._work import AsyncWork, Work
from sidecall._worker import Clean, Effect, Function, Worker, clean_of, declare
from sidecall.adapters._calls import Calls, Fields
from sidecall.v1 import tool_service_pb2 as pb

#: Runs a function as the framework does, and says what the model is told. It may be
#: async. What it raises is the function's failure.
Body = Callable[[], Any]

#: How long a call that has to begin again is not made again, in seconds: longer than
#: any call lasts, so that it is answered at once.
_NOT_NOW = 86_400.0

#: Names a call: its conversation, its turn and its own id.
_Key = tuple[str, str, str]


@dataclass(frozen=True)
class Declared:
    """A function of the framework's own, as a model is told of it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(eq=False)
class _Asked:
    """A call that this process has made, and waits for."""

    key: _Key
    call: Call
    body: Body
    loop: asyncio.AbstractEventLoop | None
    around: contextvars.Context
    #: What ends the framework's run, and is no failure of the function.
    passed: BaseException | None = None

    def is_for(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it is a call of this tool with these arguments."""
        with contextlib.suppress(ValueError):  # the other one is no JSON
            return self.call.tool_name == tool and json.loads(self.call.arguments_json() or "{}") == arguments
        return False


#: The calls that were made by each client: adapters that have one client share them, as
#: the sidecar shares its calls among their workers.
_ASKED: weakref.WeakKeyDictionary[Sidecall | AsyncSidecall, list[_Asked]] = weakref.WeakKeyDictionary()


class Own:
    """The functions of one adapter. They are registered when the first of them is
    called, or by start."""

    def __init__(
        self, client: Sidecall | AsyncSidecall, calls: Calls, effects: Mapping[str, Effect] | None, worker: Worker | None,
        passes: tuple[type[BaseException], ...] = (), *, fails_cleanly: Mapping[str, Clean] | None = None,
    ) -> None:  # fmt: skip
        """``effects`` are those of functions by their names; unsaid, a call must not be
        repeated. ``fails_cleanly`` has, by their names, those of which a call that raises has
        done nothing: True, or the types of exceptions of which that holds. ``worker`` has
        the settings of the worker. ``passes`` are exceptions by which the framework ends a
        run, to go on with the same call later."""
        self._client = client
        self._calls = calls
        self._effects = dict(effects or {})
        self._clean = {name: clean_of(said, f"fails_cleanly[{name!r}]") for name, said in (fails_cleanly or {}).items()}
        self._settings = worker or Worker()
        #: Of all that it registers, one after the other: what was begun before goes on.
        self._places = Places(self._settings.max_in_flight)
        self._passes = passes
        self._asked = _ASKED.setdefault(client, [])
        self._functions: dict[str, Function] = {}
        self._registered: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._work: Work | AsyncWork | None = None
        self._starting: asyncio.Future[None] | None = None

    def declare(self, functions: list[Declared]) -> None:
        """Adds functions. Those that are added when others were called already are
        registered with the next call."""
        for function in functions:
            if function.name in self._functions:
                raise WrongTool(f"the function {function.name} cannot be a tool: there is one of that name")
            try:
                tool = declare(
                    function.name, function.description, dict(function.schema), effect=self._effects.get(function.name, "non_idempotent")
                )  # fmt: skip
            except WrongField as e:
                raise WrongTool(f"the function {function.name} cannot be a tool: {e}") from e
            self._functions[function.name] = Function(tool, self._serve, is_async=False, clean=self._clean.get(function.name, ()))
            self._starting = None

    def check_names(self) -> None:
        """Refuses what is said of functions that there are not."""
        for said, names in (("effects", self._effects), ("fails_cleanly", self._clean)):
            for name in names:
                if name not in self._functions:
                    raise WrongField(f"{said}[{name!r}]", f"there is no such function; known are {', '.join(sorted(self._functions))}")

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def names(self) -> set[str]:
        """What the sidecar calls the functions that it knows, and what they call
        themselves."""
        return {*self._functions, *(self._work.names.values() if self._work is not None else ())}

    def start(self) -> None:
        """Registers the functions, and waits."""
        if isinstance(self._client, AsyncSidecall):
            raise WrongField(
                "client", "this is an AsyncSidecall, and the framework does not await: give the adapter a Sidecall, which serves both"
            )
        with self._lock:
            if self._is_new():
                worker, before = self._worker(), self._work
                self._work = self._client.work(worker).start()
                self._registered = frozenset(worker.functions)
                if before is not None:
                    before.leave()  # it has the same functions, and finishes its calls

    async def start_async(self) -> None:
        """Registers them and awaits; tasks that want it at once wait for the same."""
        if not self._is_new():
            return
        if not isinstance(self._client, AsyncSidecall):
            await asyncio.to_thread(self.start)
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._start(self._client))
        await asyncio.shield(self._starting)

    async def _start(self, client: AsyncSidecall) -> None:
        worker, before = self._worker(), self._work
        self._work = await client.work(worker).start()
        self._registered = frozenset(worker.functions)
        if before is not None:
            before.leave()

    def _is_new(self) -> bool:
        return self._work is None or self._work.has_ended() or any(name not in self._registered for name in self._functions)

    def _worker(self) -> Worker:
        return replace(self._settings, functions=dict(self._functions), client=self._client.client_id, places=self._places)

    def run(self, call: Call, ids: Fields, body: Body) -> pb.ExecuteToolResponse:
        """Runs a call of a function and waits."""
        self.start()
        with self._waiting(call, ids, body, None) as asked:
            (result,) = self._calls.run([self._named(call)], ids)
        return _unless_passed(asked, result)

    async def run_async(self, call: Call, ids: Fields, body: Body, made: int = 1) -> pb.ExecuteToolResponse:
        """Runs it, together with the other calls of its turn, as Calls.run_async does. What
        has begun goes on when the task is cancelled."""
        await self.start_async()
        with self._waiting(call, ids, body, asyncio.get_running_loop()) as asked:
            result = await self._calls.run_async(self._named(call), ids, made)
        return _unless_passed(asked, result)

    async def is_held_async(self, call: Call, ids: Fields) -> bool:
        """Calls.is_held_async, of a function."""
        await self.start_async()
        return await self._calls.is_held_async(self._named(call), ids)

    def _named(self, call: Call) -> Call:
        """The call by the name that the sidecar has for the function."""
        names = self._work.names if self._work is not None else {}
        return replace(call, tool_name=names.get(call.tool_name, call.tool_name))

    @contextlib.contextmanager
    def _waiting(self, call: Call, ids: Fields, body: Body, loop: asyncio.AbstractEventLoop | None) -> Iterator[_Asked]:
        key = (str(ids.get("conversation_id") or ""), str(ids.get("turn_id") or ""), str(call.tool_use_id))
        asked = _Asked(key, call, body, loop, contextvars.copy_context())
        self._asked.append(asked)
        try:
            yield asked
        finally:
            self._asked.remove(asked)

    def _serve(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Runs a call that has come back, in a thread of the worker's."""
        key = (context.conversation_id, context.turn_id, context.tool_use_id)
        known = [asked for asked in list(self._asked) if asked.key == key]
        if len(known) > 1:  # a model may give calls of one turn the same id: what was checked is what runs
            known = [asked for asked in known if asked.is_for(context.tool, arguments)]
        asked = known[0] if known else None
        if asked is None:
            raise Failure("the process that made this call is another one, or has given it up", code="DEPENDENCY_UNAVAILABLE", not_run=True)
        asked.around.run(_current.set, context)
        if asked.loop is None:
            with self._passing(asked):
                return asked.around.run(asked.body)
        running = self._awaited(asked)
        try:  # in the context of the task that made the call
            begun = asked.around.run(asyncio.run_coroutine_threadsafe, running, asked.loop)
        except RuntimeError as e:
            running.close()
            raise Failure("the event loop that made this call has ended", code="DEPENDENCY_UNAVAILABLE", not_run=True) from e
        return _end_of(begun)

    async def _awaited(self, asked: _Asked) -> Any:
        with self._passing(asked):
            value = asked.body()
            return await value if inspect.isawaitable(value) else value

    @contextlib.contextmanager
    def _passing(self, asked: _Asked) -> Iterator[None]:
        try:
            yield
        except self._passes as e:
            asked.passed = e
            raise Failure("it goes on when the run is resumed", not_run=True, retry_after=_NOT_NOW) from e


async def _end_of(begun: concurrent.futures.Future[Any]) -> Any:
    return await asyncio.wrap_future(begun)


def _unless_passed(asked: _Asked, result: pb.ExecuteToolResponse) -> pb.ExecuteToolResponse:
    if asked.passed is not None:
        raise asked.passed
    return result
