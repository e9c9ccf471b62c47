"""What may stand in a request.

What the contract cannot hold is refused before anything is sent, with the name
of the field and what is wanted: protobuf's own words name neither.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from sidecall._errors import WrongField
from sidecall.v1 import tool_service_pb2 as pb


@dataclass(frozen=True)
class Call:
    """One tool call of an assistant turn.

    ``arguments`` is best the JSON text that the model gave, untouched: the
    sidecar is the one to find fault with it. (But lone surrogates become their
    escapes, as nothing else can carry them.) A mapping is written as JSON, and
    None is no arguments.
    """

    tool_use_id: str | int
    tool_name: str
    arguments: str | Mapping[str, Any] | None = ""

    def arguments_json(self) -> str:
        return _arguments(self.arguments, "arguments")


#: One half of a character outside the basic plane. In a str of Python, none has
#: its other half beside it.
_LONE = re.compile("[\ud800-\udfff]")


def text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise WrongField(at, f"want a str, got {_shown(value)}")
    if lone := _LONE.search(value):
        raise WrongField(at, f"want text that UTF-8 can hold, got a lone surrogate at index {lone.start()}")
    return value


_NO_TARGET = re.compile("$|tcp://(?!.+:[0-9]+$)|unix://(?!/)|https?://")


def address(target: Any) -> str:
    """What gRPC is to connect to. It resolves more than is said here; what cannot be
    meant is refused now, and not as a sidecar that is away later."""
    if not isinstance(target, str) or _NO_TARGET.match(target):
        raise WrongField("target", f"want tcp://host:port or unix:///path, got {_shown(target)}")
    return target.removeprefix("tcp://")


def listed(calls: Any) -> list[Any]:
    if isinstance(calls, (str, bytes, Mapping)) or not isinstance(calls, Iterable):
        raise WrongField("calls", f"want a list of Calls, got {_shown(calls)}")
    return list(calls)


def seconds(value: Any, at: str) -> float:
    """What a timeout given as a number or a timedelta is in seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise WrongField(at, f"want seconds or a timedelta, got {_shown(value)}")


def request(call: Any, fields: Mapping[str, Any], at: str = "") -> pb.ExecuteToolRequest:
    """The request of a call, which stands at a place, with fields for every call
    by their names in the contract."""
    if not isinstance(call, Call):
        raise WrongField(at or "call", f"want a Call, got {_shown(call)}")
    within = at and at + "."
    shared = {name: _FIELDS[name](value, name) for name, value in fields.items() if _known(name) and value is not None}
    sent = pb.ExecuteToolRequest(
        tool_use_id=identity(call.tool_use_id, within + "tool_use_id"),
        tool_name=_name(call.tool_name, within + "tool_name"),
        arguments_json=_arguments(call.arguments, within + "arguments"),
        **shared,
    )
    named(fields)
    return sent


def named(fields: Mapping[str, Any]) -> None:
    """Refuses calls of no conversation: that is the program's to mend, and no model's."""
    if fields.get("conversation_id") is None:
        raise WrongField(
            "conversation_id", "every call belongs to a conversation: give its id, the same one in all its turns and after a restart"
        )


def _known(name: str) -> bool:
    if name in _FIELDS:
        return True
    if name in ("tool_use_id", "tool_name", "arguments", "arguments_json"):
        raise WrongField(name, "it belongs into the Call")
    near = difflib.get_close_matches(re.sub("([A-Z])", r"_\1", name).lower(), _FIELDS, 1)
    meant = f". Did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(_FIELDS))}"
    raise WrongField(name, "there is no such field" + meant)


def identity(value: Any, at: str) -> str:
    """Turns are counted, so an integer is an id too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise WrongField(at, f"want a str or an int, got {_shown(value)}")
    return text(value, at)


def _name(value: Any, at: str) -> str:
    """A name is the model's: whatever it made up, the sidecar is to say so."""
    return readable(value, at)


def readable(value: Any, at: str = "text") -> str:
    """Text as UTF-8 can hold it."""
    if not isinstance(value, str):
        raise WrongField(at, f"want a str, got {_shown(value)}")
    return _LONE.sub("\ufffd", value)


def json_text(value: Any, at: str) -> str:
    """A value as JSON; a str is one already."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as e:
            raise WrongField(at, f"want what JSON can hold: {e}") from e
    return _LONE.sub(lambda half: f"\\u{ord(half[0]):04x}", value)


def _arguments(value: Any, at: str) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        try:
            value = json.dumps(dict(value), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as e:
            raise WrongField(at, f"want what JSON can hold: {e}") from e
    if not isinstance(value, str):
        raise WrongField(at, f"want a JSON text or a mapping, got {_shown(value)}")
    return json_text(value, at)


def _duration(value: Any, at: str) -> Duration:
    if isinstance(value, Duration):
        return value
    given = seconds(value, at)
    if abs(given) > _MAX_SECONDS:
        raise WrongField(at, f"want seconds or a timedelta, got {_shown(value)}")
    sign = -1 if given < 0 else 1  # of both parts, in a Duration
    whole, nanos = divmod(round(abs(given) * 1e9), 10**9)
    return Duration(seconds=sign * whole, nanos=sign * nanos)


#: What a Duration of the contract holds: some ten thousand years.
_MAX_SECONDS = 315_576_000_000


def _bool(value: Any, at: str) -> bool:
    if not isinstance(value, bool):
        raise WrongField(at, f"want a bool, got {_shown(value)}")
    return value


def _int(bits: int) -> Callable[[Any, str], int]:
    most = (1 << bits - 1) - 1

    def check(value: Any, at: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongField(at, f"want an int, got {_shown(value)}")
        if not -most - 1 <= value <= most:
            raise WrongField(at, f"want an int up to {most}, got {_shown(value)}")
        return value

    return check


def _labels(value: Any, at: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise WrongField(at, f"want a mapping of str, got {_shown(value)}")
    return {text(key, at): text(label, f"{at}[{key!r}]") for key, label in value.items()}


#: The fields that all calls of a turn share, each with what makes of a value what
#: is sent.
_FIELDS: dict[str, Callable[[Any, str], Any]] = {
    "conversation_id": identity,
    "turn_id": identity,
    "message_id": identity,
    "prompt_id": identity,
    "profile": text,
    "validate_only": _bool,
    "hold_only": _bool,
    "timeout": _duration,
    "max_output_chars": _int(32),
    "tokens_used": _int(64),
    "labels": _labels,
    "allow_duplicate_effect": _bool,
}


def _shown(value: Any) -> str:
    """A value as an error shows it: what is plain itself, else its type."""
    if value is None or isinstance(value, (str, int, float)):
        shown = repr(value)
        return shown if len(shown) <= 60 else shown[:60] + "…"
    return f"a {type(value).__name__}"
