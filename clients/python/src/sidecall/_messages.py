"""What a provider's message asks for, and what the provider wants to hear.

read makes the calls of one turn of an assistant's message: the object of the
provider's SDK, or the same as plain dicts. answers makes of the results of these
calls the messages that are to be appended, and nothing else may come in between:

    anthropic         one user message, its tool_result blocks first and in order
    openai            one tool message per call, then, when there are pictures, a
                      user message that has them
    openai-responses  one function_call_output item per call

Tools that the provider runs itself (server_tool_use, web_search_call) are left
alone: it has answered them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sidecall._errors import WrongMessage
from sidecall._request import Call
from sidecall.v1 import tool_service_pb2 as pb

Format = Literal["anthropic", "openai", "openai-responses"]

FORMATS: tuple[Format, ...] = ("anthropic", "openai", "openai-responses")

Message = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """What one message of an assistant asks for."""

    format: Format
    calls: tuple[Call, ...]
    #: The provider's id of the message or response; empty when it has none.
    id: str
    #: Why the message ends before its end, in the provider's word, so that its calls
    #: may be incomplete; empty when it is whole.
    cut: str
    #: Why it ends, in the provider's word; empty when that is not said.
    reason: str
    #: Tokens of the request and of the message; 0 when that is not said.
    tokens: int
    #: What is to be appended for the message itself.
    messages: tuple[Message, ...]


class ToolMessages(list[Message]):
    """The messages to append after an assistant's message, in this order and
    before any other; none when it calls no tool. ``results`` are the results of its
    calls, in order."""

    def __init__(self, messages: Iterable[Message] = (), results: Sequence[pb.ExecuteToolResponse] = ()) -> None:
        super().__init__(messages)
        self.results = tuple(results)

    @property
    def stop(self) -> bool:
        """The loop has to end now: the model goes round in circles, and was told so."""
        return any(r.stop for r in self.results)

    @property
    def require_escalation(self) -> bool:
        """A person has to be asked before the model goes on."""
        return any(r.recovery.require_escalation for r in self.results)


def read(message: Any) -> Turn:
    """The calls in an assistant's message."""
    if _get(message, "choices") is not None:
        return _of_completion(message)
    if _get(message, "message") is not None and _get(message, "finish_reason", _MISSING) is not _MISSING:
        return _of_choice(message, "", 0)
    if _get(message, "object") == "response" or isinstance(_get(message, "output"), list):
        return _of_response(message)
    role = _get(message, "role")
    if role != "assistant":
        raise WrongMessage(f"want the message of an assistant, got {_kind(message, role)}")
    if _is_anthropic(message):
        return _of_anthropic(message)
    return _of_choice({"message": message, "finish_reason": None}, "", 0)


def answers(turn: Turn, results: Sequence[pb.ExecuteToolResponse]) -> ToolMessages:
    """What is to be appended for the results of a turn's calls."""
    if not results:
        return ToolMessages()
    make = {"anthropic": _to_anthropic, "openai": _to_openai, "openai-responses": _to_responses}[turn.format]
    return ToolMessages(make(results), results)


def not_run(turn: Turn) -> list[pb.ExecuteToolResponse]:
    """The results of the calls of a message that was cut: none of them is run, as
    nobody knows whether it is what the model meant."""
    return [_not_run(call, turn.cut) for call in turn.calls]


def cut_short(call: Call, reason: str) -> pb.ExecuteToolResponse | None:
    """The same for one call, by the provider's word for the end of its message."""
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


def tools(listed: Sequence[pb.Tool], format: Format) -> list[Message]:
    """The tools as a provider takes them in its tools parameter."""
    if format not in FORMATS:
        raise WrongMessage(f"want a format of {', '.join(FORMATS)}, got {format!r}")
    return [_tool(tool, format) for tool in listed]


def _tool(tool: pb.Tool, format: Format) -> Message:
    schema = json.loads(tool.input_schema_json)
    about = {"name": tool.name, "description": tool.description}
    if format == "anthropic":
        return {**about, "input_schema": schema}
    # Schemas of tools are not written for a provider's strict mode.
    function = {**about, "parameters": schema, "strict": False}
    if format == "openai":
        return {"type": "function", "function": function}
    return {"type": "function", **function}


# What is read.

_MISSING: Any = object()


def _get(of: Any, name: str, otherwise: Any = None) -> Any:
    """A field of a dict, or of an SDK's object."""
    if isinstance(of, Mapping):
        return of.get(name, otherwise)
    return getattr(of, name, otherwise)


def plain(of: Any) -> Any:
    """An SDK's object as plain data, without what is unset."""
    if isinstance(of, Mapping):
        return {key: plain(value) for key, value in of.items()}
    if isinstance(of, (list, tuple)):
        return [plain(value) for value in of]
    dump = getattr(of, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    return of


def _list(of: Any, name: str) -> list[Any]:
    value = _get(of, name)
    if value is None:
        return []
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise WrongMessage(f"want a list in {name}, got {_named(value)}")
    return list(value)


def _text(of: Any, name: str) -> str:
    value = _get(of, name)
    return value if isinstance(value, str) else ""


def _count(usage: Any, *names: str) -> int:
    numbers = (_get(usage, name) for name in names)
    return sum(n for n in numbers if isinstance(n, int) and n > 0)


def _kind(message: Any, role: Any) -> str:
    return f"one of role {role!r}" if isinstance(role, str) else _named(message)


def _named(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a dict of " + (", ".join(sorted(map(str, value))[:6]) or "nothing")
    return f"a {type(value).__name__}"


_OF_ANTHROPIC = frozenset(
    ("tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "mcp_tool_use")
)


def _is_anthropic(message: Any) -> bool:
    if _get(message, "tool_calls") is not None:
        return False
    if _get(message, "type") == "message" or _get(message, "stop_reason") is not None:
        return True
    content = _get(message, "content")
    return isinstance(content, list) and (
        not content or any(_get(block, "type") in _OF_ANTHROPIC for block in content)
    )


def _of_anthropic(message: Any) -> Turn:
    content = _get(message, "content")
    blocks = [] if isinstance(content, str) else _list(message, "content")
    calls = tuple(
        Call(_id(block, "id"), _text(block, "name"), _input(_get(block, "input")))
        for block in blocks
        if _get(block, "type") == "tool_use"
    )
    reason = _text(message, "stop_reason")
    usage = _get(message, "usage")
    return Turn(
        format="anthropic",
        calls=calls,
        id=_text(message, "id"),
        cut=reason if reason in ("max_tokens", "model_context_window_exceeded", "refusal") else "",
        reason=reason,
        tokens=_count(
            usage, "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"
        ),
        messages=({"role": "assistant", "content": plain(content)},),
    )


def _input(value: Any) -> str | Mapping[str, Any] | None:
    """Arguments that are no object are for the sidecar to find fault with."""
    if value is None or isinstance(value, (str, Mapping)):
        return value
    return json.dumps(plain(value), ensure_ascii=False)


def _id(of: Any, name: str) -> str:
    value = _get(of, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongMessage(f"want a text as the id of a call, got {_named(value)}")
    return value


def _of_completion(completion: Any) -> Turn:
    choices = _list(completion, "choices")
    if not choices:
        raise WrongMessage("want a completion with a choice, got none")
    tokens = _count(_get(completion, "usage"), "total_tokens")
    return _of_choice(choices[0], _text(completion, "id"), tokens)


_NOT_A_FUNCTION = "want calls of functions, got one of type {!r}, which is for the program to run"


def _of_choice(choice: Any, id: str, tokens: int) -> Turn:
    message = _get(choice, "message")
    role = _get(message, "role")
    if role != "assistant":
        raise WrongMessage(f"want the message of an assistant, got {_kind(message, role)}")
    calls = []
    for call in _list(message, "tool_calls"):
        function = _get(call, "function")
        if function is None:
            raise WrongMessage(_NOT_A_FUNCTION.format(_get(call, "type")))
        calls.append(Call(_id(call, "id"), _text(function, "name"), _input(_get(function, "arguments"))))
    reason = _text(choice, "finish_reason")
    return Turn(
        format="openai",
        calls=tuple(calls),
        id=id,
        cut=reason if reason in ("length", "content_filter") else "",
        reason=reason,
        tokens=tokens,
        messages=(plain(message),),
    )


def _of_response(response: Any) -> Turn:
    calls = []
    cut = ""
    if _get(response, "status") == "incomplete":
        cut = _text(_get(response, "incomplete_details"), "reason") or "incomplete"
    items = _list(response, "output")
    for item in items:
        kind = _get(item, "type")
        if kind == "custom_tool_call":
            raise WrongMessage(_NOT_A_FUNCTION.format(kind))
        if kind != "function_call":
            continue
        if _get(item, "status") == "incomplete":
            cut = cut or "incomplete"
        calls.append(Call(_id(item, "call_id"), _text(item, "name"), _input(_get(item, "arguments"))))
    return Turn(
        format="openai-responses",
        calls=tuple(calls),
        id=_text(response, "id"),
        cut=cut,
        reason=cut or _text(response, "status"),
        tokens=_count(_get(response, "usage"), "total_tokens"),
        messages=tuple(plain(item) for item in items),
    )


# What is written.

_PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))


def texts_of(result: pb.ExecuteToolResponse, pictures: frozenset[str] = _PICTURES) -> list[str]:
    """All that a result has in words: its content word for word, then what was tried
    before it, what is to be noticed, and blocks that are text or cannot be shown."""
    texts = [result.content, result.recovery.context, *result.notices]
    for block in result.blocks:
        if block.data and block.mime_type in pictures:
            continue
        if block.text:
            texts.append(f"{block.uri}\n{block.text}" if block.uri else block.text)
        elif block.type == "resource_link":
            texts.append(f"{block.name} {block.uri}".strip())
        elif not block.output_ref:  # of one with a handle the notices speak
            texts.append(f"({block.type} of {block.mime_type or 'unknown type'}, {block.size} bytes: it cannot be shown here)")
    return [text for text in texts if text]


def pictures_of(result: pb.ExecuteToolResponse, types: frozenset[str] = _PICTURES) -> Iterator[tuple[str, str]]:
    for block in result.blocks:
        if block.data and block.mime_type in types:
            yield block.mime_type, base64.b64encode(block.data).decode("ascii")


def _to_anthropic(results: Sequence[pb.ExecuteToolResponse]) -> list[Message]:
    return [{"role": "user", "content": [_tool_result(result) for result in results]}]


#: A document too may stand in a tool_result.
_SHOWN_BY_ANTHROPIC = _PICTURES | {"application/pdf"}


def _tool_result(result: pb.ExecuteToolResponse) -> Message:
    texts = texts_of(result, _SHOWN_BY_ANTHROPIC)
    blocks: list[Message] = [{"type": "text", "text": text} for text in texts]
    for mime_type, data in pictures_of(result, _SHOWN_BY_ANTHROPIC):
        kind = "image" if mime_type in _PICTURES else "document"
        blocks.append({"type": kind, "source": {"type": "base64", "media_type": mime_type, "data": data}})
    written: Message = {
        "type": "tool_result",
        "tool_use_id": result.tool_use_id,
        "content": result.content if [b.get("text") for b in blocks] in ([], [result.content]) else blocks,
    }
    if result.is_error:
        written["is_error"] = True
    return written


def _to_openai(results: Sequence[pb.ExecuteToolResponse]) -> list[Message]:
    messages: list[Message] = []
    pictures: list[Message] = []
    for result in results:
        # As one text: not every server that speaks this format takes a list.
        text = "\n\n".join(texts_of(result))
        messages.append({"role": "tool", "tool_call_id": result.tool_use_id, "content": text})
        shown = [
            {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
            for mime_type, data in pictures_of(result)
        ]
        if shown:
            pictures += [{"type": "text", "text": f"Returned by {result.tool_use_id}:"}, *shown]
    if pictures:  # a tool message has none
        messages.append({"role": "user", "content": pictures})
    return messages


def _to_responses(results: Sequence[pb.ExecuteToolResponse]) -> list[Message]:
    items: list[Message] = []
    for result in results:
        texts = texts_of(result)
        output: str | list[Message] = "\n\n".join(texts)
        shown = [
            {"type": "input_image", "image_url": f"data:{mime_type};base64,{data}"}
            for mime_type, data in pictures_of(result)
        ]
        if shown:
            output = [*({"type": "input_text", "text": text} for text in texts), *shown]
        items.append({"type": "function_call_output", "call_id": result.tool_use_id, "output": output})
    return items
