"""Results that do not come from the sidecar."""

from __future__ import annotations

import json
from typing import Any

from sidecall._request import Call
from sidecall.v1 import tool_service_pb2 as pb


def cut_short(call: Call, reason: str) -> pb.ExecuteToolResponse | None:
    """The result of a call of a message that was cut, by the provider's word for its end: it
    is not run, as nobody knows whether it is what the model meant."""
    return _not_run(call, reason) if reason in _CUT else None


#: What providers call the end of a message that came too early.
_CUT = frozenset((
    "max_tokens", "model_context_window_exceeded", "refusal", "length", "content_filter", "max_output_tokens",
))  # fmt: skip


def _not_run(call: Call, cut: str) -> pb.ExecuteToolResponse:
    error = pb.ToolError(
        code="CANCELLED",
        constraint=f"the message ends early ({cut}), so its calls may be incomplete",
        hint="Nothing was run. Make the calls again, fewer of them or with shorter arguments in one message.",
    )
    return _refused(str(call.tool_use_id), error, pb.RECOVERY_CLASS_TRANSIENT)


def too_large(call: pb.ExecuteToolRequest, most: int) -> pb.ExecuteToolResponse:
    """The result of a call that no request can hold: the sidecar has not even read it."""
    error = pb.ToolError(
        code="INVALID_ARGS",
        constraint=f"a call has at most {most} bytes (limits.max_request_bytes)",
        received=f"({len(call.arguments_json.encode())} bytes of arguments)",
        hint=f"Nothing was run. Shorten the arguments, or split them, then call {call.tool_name} again: once for each part.",
    )
    return _refused(call.tool_use_id, error, pb.RECOVERY_CLASS_MALFORMED)


def _refused(tool_use_id: str, error: pb.ToolError, kind: Any) -> pb.ExecuteToolResponse:
    """A result that does not come from the sidecar, of a call that the model may make
    otherwise."""
    fields = ("code", "field", "constraint", "received", "hint")
    content = json.dumps({name: getattr(error, name) for name in fields}, ensure_ascii=False, separators=(",", ":"))
    recovery = pb.Recovery(retryable=True)
    setattr(recovery, "class", kind)  # a keyword of Python's
    return pb.ExecuteToolResponse(
        tool_use_id=tool_use_id, outcome=pb.OUTCOME_ERROR, is_error=True,
        content=content, error=error, violations=[error], recovery=recovery,
    )  # fmt: skip
