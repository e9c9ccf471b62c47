"""What both clients do, without a connection: each of these is a generator that
says what is to be asked next, and is sent the answer. One client waits for it,
the other awaits it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from sidecall import _messages
from sidecall._errors import BrokenAnswer
from sidecall._messages import Format, Message, ToolMessages
from sidecall._request import Call, listed, request, text
from sidecall.v1 import conversation_service_pb2 as conversations
from sidecall.v1 import tool_service_pb2 as pb

#: The most calls that one batch may have.
MAX_BATCH = 128

#: The turns of a loop that sets no other limit.
MAX_TURNS = 200


@dataclass(frozen=True)
class Rpc:
    """One request to the sidecar. ``insist`` says that it is sent again, as it
    is, while the sidecar is away."""

    service: str
    method: str
    request: Any
    insist: bool = False
    #: Seconds to wait for the answer; None for what the caller has set.
    wait: float | None = None


@dataclass(frozen=True)
class Do:
    """One call of a function of the caller's, which may be async in one client."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


T = TypeVar("T")
Steps = Generator["Rpc | Do", Any, T]


def execute(calls: Any, fields: Mapping[str, Any], insist: bool) -> Steps[list[pb.ExecuteToolResponse]]:
    """Runs the calls of one turn, and checks that there is one result for each."""
    sent = [request(c, fields, f"calls[{i}]") for i, c in enumerate(listed(calls))]
    results: list[pb.ExecuteToolResponse] = []
    for first in range(0, len(sent), MAX_BATCH):
        batch = sent[first : first + MAX_BATCH]
        answer = yield Rpc("tools", "ExecuteTools", pb.ExecuteToolsRequest(calls=batch), insist)
        got, wanted = [r.tool_use_id for r in answer.results], [c.tool_use_id for c in batch]
        if got != wanted:
            raise BrokenAnswer(f"results of the calls {got} for the calls {wanted}")
        results += answer.results
    return results


def list_tools(profile: Any, insist: bool) -> Steps[list[pb.Tool]]:
    named = text(profile, "profile")
    tools: list[pb.Tool] = []
    token, seen = "", {""}
    while True:
        page = yield Rpc("tools", "ListTools", pb.ListToolsRequest(profile=named, page_token=token), insist)
        tools += page.tools
        token = page.next_page_token
        if not token:
            return tools
        if token in seen:
            raise BrokenAnswer("the pages of the list of tools go round in circles")
        seen.add(token)


def run_tools(message: Any, fields: Mapping[str, Any]) -> Steps[ToolMessages]:
    """Runs the calls in a message."""
    return (yield from _run_turn(_messages.read(message), fields))


def _run_turn(turn: _messages.Turn, fields: Mapping[str, Any]) -> Steps[ToolMessages]:
    if turn.cut:
        return _messages.answers(turn, _messages.not_run(turn))
    named = dict(fields)
    if named.get("turn_id") is None:
        named["turn_id"] = turn.id
    results = yield from execute(turn.calls, named, insist=True)
    return _messages.answers(turn, results)


def tools(profile: Any, format: Format) -> Steps[list[Message]]:
    _messages.tools([], format)  # a wrong one is told before anything is asked
    return _messages.tools((yield from list_tools(profile, insist=True)), format)


def instructions(profile: Any) -> Steps[str]:
    asked = pb.GetInstructionsRequest(profile=text(profile, "profile"))
    answer = yield Rpc("tools", "GetInstructions", asked, True)
    return str(answer.text)


@dataclass
class Loop:
    """How a loop has ended."""

    #: All messages: those that it was given, and what came to them.
    messages: list[Message]
    #: Why it ended: end_turn; max_tokens or refusal, of the provider; loop_detected,
    #: when the sidecar said stop; escalation, when a person has to be asked;
    #: budget_exceeded; max_turns.
    exit_reason: str
    #: The last message of the model, as the provider's SDK gave it.
    message: Any
    #: The prompt that the calls belong to.
    prompt_id: str
    #: How often the model was asked.
    turns: int = 0
    #: Tokens that it used, as far as the provider says.
    tokens: int = 0
    #: The results of the last turn that called tools.
    results: Sequence[pb.ExecuteToolResponse] = field(default_factory=tuple)


#: What a provider calls the end of a message, as an exit reason.
_REASONS = {
    "max_tokens": "max_tokens", "length": "max_tokens", "max_output_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens", "refusal": "refusal", "content_filter": "refusal",
}  # fmt: skip


def run_loop(
    ask: Callable[[list[Message]], Any],
    messages: Sequence[Any],
    *,
    conversation_id: str | int,
    prompt_id: str | int | None,
    profile: str | None,
    max_turns: int,
    on_escalation: Callable[[ToolMessages], Any] | None,
    **fields: Any,
) -> Steps[Loop]:
    """Asks the model and runs its tools until it is done, or the sidecar says stop."""
    prompt = str(prompt_id) if prompt_id is not None else uuid.uuid4().hex
    loop = Loop([_messages.plain(m) for m in messages], "error", None, prompt)
    try:
        yield from _turns(loop, ask, max_turns, on_escalation, {
            **fields, "conversation_id": conversation_id, "prompt_id": prompt, "profile": profile,
        })  # fmt: skip
        return loop
    except BaseException as e:
        loop.exit_reason = "error" if isinstance(e, Exception) else "cancelled"
        raise
    finally:
        ended = conversations.EndPromptRequest(
            conversation_id=str(conversation_id), prompt_id=prompt, profile=profile or "", exit_reason=loop.exit_reason
        )
        # It is for the figures alone, and the prompt ends by itself later.
        with contextlib.suppress(grpc.RpcError):
            yield Rpc("conversations", "EndPrompt", ended, wait=2)


def _turns(
    loop: Loop,
    ask: Callable[[list[Message]], Any],
    max_turns: int,
    on_escalation: Callable[[ToolMessages], Any] | None,
    fields: Mapping[str, Any],
) -> Steps[None]:
    told_to_wrap_up = False
    while loop.turns < max_turns:
        loop.message = yield Do(ask, (list(loop.messages),))
        loop.turns += 1
        turn = _messages.read(loop.message)
        loop.tokens += turn.tokens
        # A message without an id is known by its place among all: some providers start their
        # ids of calls again in every turn, and a loop that goes on later comes to the same.
        place = turn.id or f"{loop.prompt_id}/{len(loop.messages)}"
        loop.messages += turn.messages
        if not turn.calls:
            loop.exit_reason = _REASONS.get(turn.reason, "end_turn")
            return
        appended = yield from _run_turn(turn, {**fields, "turn_id": place, "tokens_used": loop.tokens or None})
        loop.messages += appended
        loop.results = appended.results
        if appended.stop:
            loop.exit_reason = "loop_detected"
            return
        if appended.require_escalation:
            allowed = False if on_escalation is None else (yield Do(on_escalation, (appended,)))
            if not allowed:
                loop.exit_reason = "escalation"
                return
        spent = all(r.error.code == "BUDGET_EXCEEDED" for r in appended.results)
        if spent and told_to_wrap_up:
            loop.exit_reason = "budget_exceeded"
            return
        told_to_wrap_up = told_to_wrap_up or spent
    loop.exit_reason = "max_turns"


def one(call: Call, fields: Mapping[str, Any]) -> Steps[pb.ExecuteToolResponse]:
    """Runs one call."""
    answer = yield Rpc("tools", "ExecuteTool", request(call, fields))
    return answer  # type: ignore[no-any-return]
