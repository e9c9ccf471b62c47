"""What a function that serves a call is told, and what it may say."""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sidecall._errors import SidecallError
from sidecall._request import _duration, readable
from sidecall.v1 import tool_service_pb2 as tools
from sidecall.v1 import worker_service_pb2 as pb

_current: contextvars.ContextVar[Context] = contextvars.ContextVar("sidecall_context")


class Context:
    """The call that a function serves. A function that has a parameter of this type is
    given it; the model sees nothing of that."""

    def __init__(self, invoke: pb.WorkerInvoke, say: Callable[[str], None]) -> None:
        #: The function's own name.
        self.tool: str = invoke.tool
        #: The call's own id, and where it belongs.
        self.tool_use_id: str = invoke.tool_use_id
        self.conversation_id: str = invoke.conversation_id
        self.turn_id: str = invoke.turn_id
        #: The same for every attempt of a call, different for every call.
        self.idempotency_key: str = invoke.idempotency_key
        #: Counts from 1.
        self.attempt: int = invoke.attempt
        #: The span of the attempt, as W3C Trace Context has it; may be empty.
        self.traceparent: str = invoke.traceparent
        #: W3C Baggage of the call; may be empty.
        self.baggage: str = invoke.baggage
        #: When the call's time is over, by time.monotonic(); None when there is no end.
        self.deadline: float | None = None
        if invoke.HasField("deadline"):
            self.deadline = time.monotonic() + invoke.deadline.ToTimedelta().total_seconds()
        self._say = say
        self._over = threading.Event()

    @staticmethod
    def current() -> Context:
        """The one of the function that asks; LookupError outside of any."""
        return _current.get()

    def progress(self, note: str = "") -> None:
        """Says that the call goes on: the time of its attempt begins anew."""
        self._say(str(note))

    def remaining(self) -> float | None:
        """Seconds that are left of the call's time; None when there is no end."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the call any more. An async function is cancelled
        then; one that is not has to look here now and then."""
        return self._over.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits, for so many seconds at the most, until nobody waits for the call any
        more; whether that is so. Not for async functions."""
        return self._over.wait(timeout)


@dataclasses.dataclass(frozen=True)
class Reply:
    """A result that says more than text."""

    #: Text for the model.
    content: str = ""
    #: What JSON can hold; None for none.
    structured: Any = None
    #: Images and the like.
    blocks: Sequence[tools.ContentBlock] = ()


class Failure(SidecallError):
    """What a function raises to say more of a failure than its text. ``code`` is one of
    WorkerResult.code in the contract; without it, UNRECOVERABLE. ``not_run`` says that
    nothing was done, so that the call may be made again, ``retry_after`` when."""

    def __init__(
        self, message: str, *, code: str = "", not_run: bool = False, retry_after: float | timedelta | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.not_run = not_run
        self.retry_after = retry_after


def result_of(value: Any) -> pb.WorkerResult:
    """What a function returned. Text is shown as it is, nothing is nothing, and the
    rest is JSON."""
    if isinstance(value, str):
        return pb.WorkerResult(content=readable(value))
    reply = value if isinstance(value, Reply) else Reply(structured=value)
    structured = "" if reply.structured is None else _json(reply.structured)
    return pb.WorkerResult(content=readable(reply.content), structured_content_json=structured, blocks=reply.blocks)


def unreadable(why: Exception) -> pb.WorkerResult:
    """A result that cannot be sent. The function ran, so it is no failure of its, which might
    say that nothing was done: what it says is no JSON, and the sidecar knows what that means."""
    return pb.WorkerResult(content=readable(f"{type(why).__name__}: {why}"), structured_content_json="-")


def failure_of(error: BaseException, clean: tuple[type[BaseException], ...] = ()) -> pb.WorkerResult:
    """What a function raised; ``clean`` is what it raises when it has done nothing. The
    Failure that an adapter makes of an exception has that as its cause; of any other the
    cause says nothing: the function may have gone on after it."""
    is_clean = isinstance(error, clean) or (isinstance(error, Failure) and isinstance(error.__cause__, clean))
    if not isinstance(error, Failure):
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        # Not to be made again by itself: it would fail again.
        return pb.WorkerResult(content=readable(said), is_error=True, not_run=is_clean, code="UNRECOVERABLE" if is_clean else "")
    if is_clean and not error.not_run:
        error = Failure(str(error), code=error.code or "UNRECOVERABLE", not_run=True, retry_after=error.retry_after)
    wait = None if error.retry_after is None else _duration(error.retry_after, "retry_after")
    return pb.WorkerResult(
        content=readable(str(error)), is_error=True, code=readable(error.code), not_run=error.not_run, retry_after=wait
    )


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as e:
        raise ValueError(f"the function ran, but its result is not JSON: {e}") from e


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if callable(dump := getattr(value, "model_dump", None)):  # a model of pydantic
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    if callable(iso := getattr(value, "isoformat", None)):  # a date, or a time
        return iso()
    raise TypeError(f"there is nothing for a {type(value).__name__}")


#: Bytes of a message beside what it carries.
_WRAPPING = 1 << 10


def fit(result: pb.WorkerResult, most: int) -> None:
    """Leaves out what is too much for one message, which would end the stream and all
    calls on it: blocks, then structured content, then the end of the text."""
    size = result.ByteSize()
    if most <= 0 or size + _WRAPPING <= most:
        return
    notice = f"\n[The result of {size} bytes is larger than a worker may send, {most} bytes: parts of it are left out.]"
    text = (result.content or result.structured_content_json).encode()
    result.ClearField("blocks")
    result.ClearField("structured_content_json")
    room = max(most - 2 * _WRAPPING - len(notice), 0)
    result.content = text[:room].decode("utf-8", "ignore") + notice
