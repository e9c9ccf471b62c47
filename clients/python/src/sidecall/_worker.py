"""Functions that are tools: what a sidecar is told of them."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, ParamSpec, TypeVar, get_args, overload

from sidecall._context import Context, Failure
from sidecall._errors import WrongField, WrongTool
from sidecall._places import Places
from sidecall._request import _bool, _duration, _labels, text
from sidecall._shape import Field, NoSchema, Schema, hints_of, object_of
from sidecall.v1 import tool_service_pb2 as tools
from sidecall.v1 import worker_service_pb2 as pb

P = ParamSpec("P")
R = TypeVar("R")

#: What repeating a call of a function does. keyed: nothing more, because the function
#: sees to it by Context.idempotency_key.
Effect = Literal["read_only", "idempotent", "keyed", "non_idempotent"]

#: What a call that raises has not done: True, nothing; types of exceptions, nothing when it
#: raises one of them.
Clean = bool | type[BaseException] | tuple[type[BaseException], ...]

_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_GENERATORS = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_WORKER_NAME = re.compile("[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Function:
    """A function that is served. ``call`` is given the arguments and the call, and may
    return what is to be awaited."""

    declared: pb.WorkerTool
    call: Callable[[Mapping[str, Any], Context], Any]
    #: Runs in the event loop, and not in a thread of its own.
    is_async: bool
    #: What it raises when it has done nothing.
    clean: tuple[type[BaseException], ...] = ()


@dataclass
class Worker:
    """Functions of this program that a sidecar calls as tools: ``tool`` adds one, and
    Sidecall.work serves them."""

    #: What the workers of one program call themselves: 1 to 64 of [A-Za-z0-9._-]. The
    #: name of the program when it is empty.
    name: str = ""
    #: The worker backend in the sidecar's config. Empty where there is only one.
    backend: str = ""
    #: Most calls at a time.
    max_in_flight: int = 16
    #: Seconds that functions may go on when the work is to end.
    grace: float | timedelta = 30.0
    #: The client_id whose calls alone it takes, as adapters set it. Empty: everybody's.
    client: str = ""
    functions: dict[str, Function] = field(default_factory=dict, repr=False)
    #: Those that it has in common with another work, as adapters set them. None: its own.
    places: Places | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.name or _program()
        if not isinstance(self.name, str) or not _WORKER_NAME.fullmatch(self.name):
            raise WrongField("name", f"want 1 to 64 of [A-Za-z0-9._-], got {self.name!r}")
        if not isinstance(self.max_in_flight, int) or not 1 <= self.max_in_flight < 1 << 31:
            raise WrongField("max_in_flight", f"want a positive int, got {self.max_in_flight!r}")
        text(self.backend, "backend")

    @overload
    def tool(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def tool(
        self, function: None = None, /, *, effect: Effect = ..., name: str | None = ..., description: str | None = ...,
        input_schema: Schema | None = ..., output_schema: Schema | None = ..., annotations: Mapping[str, str] | None = ...,
        sequential: bool = ..., polling: bool = ..., fails_cleanly: Clean = ..., cancel_with_caller: bool = ...,
        attempt_timeout: float | timedelta | None = ..., deadline: float | timedelta | None = ...,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # fmt: skip

    def tool(self, function: Any = None, /, **said: Any) -> Any:
        """Makes a function, sync or async, a tool; it stays the function that it is.

        Its name and its docstring are what models see, and the schema of the arguments
        comes from the types of its parameters (Annotated[int, "in cents"] describes
        one). One of the type Context is given the call. What it returns is shown as it
        is when it is text, and as JSON otherwise; a Reply says more. What it raises is
        its failure; a Failure says more.

        ``effect`` is what repeating a call does; unsaid it must not be repeated.
        ``input_schema`` stands for the types: the arguments are given by name then, as
        they are. ``output_schema`` is that of a result which is JSON. ``sequential``:
        calls of one batch run one after the other. ``polling``: calls with the same
        arguments and outcome are expected. ``fails_cleanly``: a call that raises has
        done nothing, or one that raises an exception of this type, or of one of these:
        unsaid, the outcome of one that must not be repeated is unknown then.
        ``cancel_with_caller``: the function undoes what it has begun when
        it is cancelled, and that is when its caller leaves. ``attempt_timeout`` and
        ``deadline`` are seconds, for one attempt without progress and for the whole
        call; unsaid, the sidecar's.

        WrongTool says what keeps it from being one; nothing is added then."""
        # Types that are known only where the function is made.
        scope = sys._getframe(1).f_locals

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self._add(function, scope, said)
            return function

        return add if function is None else add(function)

    def _add(self, function: Any, scope: Mapping[str, Any], said: Mapping[str, Any]) -> None:
        if not callable(function) or isinstance(function, type):
            raise WrongTool(f"want a function, got {function!r}")
        name = said.get("name") or getattr(function, "__name__", type(function).__name__)
        try:
            _check(said)
            clean = clean_of(said.get("fails_cleanly", False), "fails_cleanly")
            read, schema = _signature(function, scope, said.get("input_schema"))
            description = said.get("description")
            declared = declare(
                name, inspect.getdoc(function) or "" if description is None else description, schema,
                **{key: value for key, value in said.items() if key not in ("name", "description", "input_schema", "fails_cleanly")},
            )  # fmt: skip
        except (NoSchema, WrongField) as e:
            raise WrongTool(f"the function {name} cannot be a tool: {e}") from e
        self.serve(Function(declared, lambda arguments, context: read(function, arguments, context), _is_async(function), clean))

    def serve(self, function: Function) -> None:
        """Adds a function that is declared already."""
        if function.declared.name in self.functions:
            raise WrongTool(f"the function {function.declared.name} cannot be a tool: there is one of that name")
        self.functions[function.declared.name] = function


def with_settings(worker: Any, settings: Mapping[str, Any]) -> Worker:
    """A worker with other settings and the functions that there are: those that come later are for
    the next work, and not for the next stream of this one."""
    if not isinstance(worker, Worker):
        raise WrongField("worker", f"want a Worker, got a {type(worker).__name__}")
    known = ("name", "backend", "max_in_flight", "grace")
    for key in settings:
        if key not in known:
            raise WrongField(key, f"there is no such setting{_near(key, known)}")
    return dataclasses.replace(worker, functions=dict(worker.functions), **settings)


def declare(name: Any, description: Any, schema: Schema, **said: Any) -> pb.WorkerTool:
    """A tool as the contract has it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WrongField("name", f"want 1 to 64 of [A-Za-z0-9_-], got {name!r}")
    output = said.get("output_schema")
    return pb.WorkerTool(
        name=name,
        description=text(description, "description"),
        input_schema_json=_written(schema, "input_schema"),
        output_schema_json="" if output is None else _written(output, "output_schema"),
        effect=_effect(said.get("effect", "non_idempotent")),
        annotations=_labels(said.get("annotations") or {}, "annotations"),
        attempt_timeout=_time(said, "attempt_timeout"),
        deadline=_time(said, "deadline"),
        **{key: _bool(said.get(key, False), key) for key in ("sequential", "polling", "cancel_with_caller")},
    )


def clean_of(said: Any, at: str) -> tuple[type[BaseException], ...]:
    """What a function raises that has done nothing."""
    if isinstance(said, bool):
        return (BaseException,) if said else ()
    types = said if isinstance(said, tuple) else (said,)
    for one in types:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise WrongField(at, f"want True, or types of exceptions, got {said!r}")
    return types


_SAID = (
    "effect", "name", "description", "input_schema", "output_schema", "annotations", "sequential", "polling",
    "fails_cleanly", "cancel_with_caller", "attempt_timeout", "deadline",
)  # fmt: skip


def _check(said: Mapping[str, Any]) -> None:
    for key in said:
        if key not in _SAID:
            raise WrongField(key, f"there is no such setting{_near(key, _SAID)}")


def _near(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f". Did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _effect(effect: Any) -> Any:
    known = get_args(Effect)
    if effect not in known:
        raise WrongField("effect", f"there is no effect {effect!r}{_near(str(effect), known)}")
    return tools.Effect.Value(f"EFFECT_{effect.upper()}")


def _time(said: Mapping[str, Any], name: str) -> Any:
    value = said.get(name)
    return None if value is None else _duration(value, name)


def _written(schema: Any, at: str) -> str:
    if not isinstance(schema, Mapping):
        raise WrongField(at, f"want a JSON Schema as a dict, got a {type(schema).__name__}")
    try:
        return json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as e:
        raise WrongField(at, f"want what JSON can hold: {e}") from e


Reader = Callable[[Any, Mapping[str, Any], Context], Any]


def _signature(function: Any, scope: Mapping[str, Any], schema: Schema | None) -> tuple[Reader, Schema]:
    """How a function is called with arguments of JSON, and their schema."""
    if any(is_generator(of) for is_generator in _GENERATORS for of in (function, _annotated_of(function))):
        raise NoSchema("it yields, and nobody runs a generator")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError) as e:
        raise NoSchema(f"its parameters cannot be seen: {e}") from e
    hints = hints_of(_annotated_of(function), scope)
    wanting = [p.name for p in parameters if hints.get(p.name) is Context]
    if schema is not None:
        return functools.partial(_call, wanting, dict, {}), schema
    shape = object_of([_field(p, hints) for p in parameters if p.name not in wanting])
    positional = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_ONLY}
    return functools.partial(_call, wanting, shape.read, positional), shape.schema


def _field(p: inspect.Parameter, hints: Mapping[str, Any]) -> Field:
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        raise NoSchema(f"its parameter {p} takes any number of arguments, which a schema cannot name; give it an input_schema")
    if p.name not in hints:
        raise NoSchema(f"its parameter {p.name} has no type")
    required = p.default is p.empty
    return Field(p.name, hints[p.name], required, None if required else p.default)


def _call(  # noqa: PLR0917 -- the first ones are bound
    wanting: list[str], read: Callable[[Any], Any], positional: Mapping[str, Any], function: Any, arguments: Mapping[str, Any],
    context: Context,
) -> Any:  # fmt: skip
    """Calls a function; arguments that it cannot have are a failure before it has begun."""
    try:
        given = {**read(arguments), **dict.fromkeys(wanting, context)}
    except (ValueError, TypeError, RecursionError) as e:
        raise Failure(f"the arguments cannot be read: {e}", code="INVALID_ARGS", not_run=True) from e
    first = [given.pop(name, default) for name, default in positional.items()]
    return function(*first, **given)


def _annotated_of(function: Any) -> Any:
    """What has the annotations of what can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_annotated_of(function))


def _program() -> str:
    """What this program is called."""
    path = sys.argv[0] if sys.argv else ""
    name = os.path.splitext(os.path.basename(path))[0]
    if name == "__main__":  # of python -m
        name = os.path.basename(os.path.dirname(path))
    return re.sub("[^A-Za-z0-9._-]", "-", name)[:64] or "python"
