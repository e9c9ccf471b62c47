"""What both clients do, without a connection: each of these is a generator that
says what is to be asked next, and is sent the answer. One client waits for it,
the other awaits it."""

from __future__ import annotations

import contextlib
import functools
import json
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from sidecall import _channel, _messages
from sidecall._errors import BrokenAnswer, SidecallError, WrongField, WrongMessage
from sidecall._messages import Format, Message, ToolMessages
from sidecall._refused import too_large
from sidecall._request import Call, listed, named, request, text
from sidecall.v1 import conversation_service_pb2 as conversations
from sidecall.v1 import tool_service_pb2 as pb

if TYPE_CHECKING:
    from sidecall._conversation import Kept

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
    return (yield from send(sent, insist))


def send(sent: Sequence[pb.ExecuteToolRequest], insist: bool) -> Steps[list[pb.ExecuteToolResponse]]:
    """Sends calls in batches. One that no request can hold costs one result, and not
    the others'."""
    results: list[pb.ExecuteToolResponse] = []
    for first in range(0, len(sent), MAX_BATCH):
        results += yield from _batch(sent[first : first + MAX_BATCH], insist)
    return results


def _batch(batch: Sequence[pb.ExecuteToolRequest], insist: bool) -> Steps[list[pb.ExecuteToolResponse]]:
    try:
        answer = yield Rpc("tools", "ExecuteTools", pb.ExecuteToolsRequest(calls=batch), insist)
    except grpc.RpcError as e:
        most = _channel.most_bytes(e)
        if most is None:
            raise
        if len(batch) == 1:
            return [too_large(batch[0], most)]
        half = len(batch) // 2  # nothing was begun: less at a time, in their order
        return [*(yield from _batch(batch[:half], insist)), *(yield from _batch(batch[half:], insist))]
    got, wanted = [r.tool_use_id for r in answer.results], [c.tool_use_id for c in batch]
    if got != wanted:
        raise BrokenAnswer(f"results of the calls {got} for the calls {wanted}")
    return list(answer.results)


def list_tools(profile: Any, insist: bool) -> Steps[list[pb.Tool]]:
    return (yield from _pages(pb.ListToolsRequest(profile=text(profile, "profile")), insist, lambda page: page.tools))


def _pages(asked: pb.ListToolsRequest, insist: bool, of: Callable[[Any], Any]) -> Steps[list[Any]]:
    """What stands in the pages of a list of tools."""
    found: list[Any] = []
    seen = {""}
    while True:
        page = yield Rpc("tools", "ListTools", asked, insist)
        found += of(page)
        token = page.next_page_token
        if not token:
            return found
        if token in seen:
            raise BrokenAnswer("the pages of the list of tools go round in circles")
        seen.add(token)
        asked = pb.ListToolsRequest(profile=asked.profile, provider=asked.provider, page_token=token)


def run_tools(message: Any, fields: Mapping[str, Any]) -> Steps[ToolMessages]:
    """Runs the calls in a message."""
    named(fields)  # of one that calls nothing, too
    return (yield from run_message(pb.RunMessageRequest(message_json=_messages.sent(message)), fields))


def run_message(asked: pb.RunMessageRequest, fields: Mapping[str, Any], kept: bool = False) -> Steps[ToolMessages]:
    """Asks the sidecar to run calls, with what they share. ``kept`` says that what answers
    them is to be appended: then it has no more than a message may have."""
    asked.shared.CopyFrom(request(Call("", ""), fields))
    asked.max_response_bytes = _channel.MAX_MESSAGE_BYTES if kept else _channel.MAX_RESPONSE_BYTES
    return ToolMessages((yield from _of_message("RunMessage", asked)))


def _of_message(method: str, asked: Any) -> Steps[Any]:
    try:
        return (yield Rpc("tools", method, asked, True))
    except grpc.RpcError as e:
        why = str(e.details())
        if e.code() == grpc.StatusCode.INVALID_ARGUMENT and why.startswith("message_json: "):
            raise WrongMessage(why.removeprefix("message_json: ")) from e
        raise


def tools(profile: Any, format: Format) -> Steps[list[Message]]:
    listed = pb.ListToolsRequest(profile=text(profile, "profile"), provider=_messages.check_format(format))
    return [json.loads(one) for one in (yield from _pages(listed, True, lambda page: page.definitions_json))]


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
    #: when the sidecar said stop; escalation, when a person has to be asked; held, when
    #: calls wait for one: what answers them is not among the messages;
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


def run_loop(
    ask: Callable[[list[Message]], Any],
    messages: Sequence[Any],
    *,
    conversation_id: str | int | None,
    prompt_id: str | int | None,
    profile: str | None,
    max_turns: int,
    on_escalation: Callable[[ToolMessages], Any] | None,
    on_held: Callable[[ToolMessages], Any] | None = None,
    keep: Kept | None = None,
    **fields: Any,
) -> Steps[Loop]:
    """Asks the model and runs its tools until it is done, or the sidecar says stop."""
    conversation_id = _name_of(conversation_id, keep)
    prompt = str(prompt_id) if prompt_id is not None else uuid.uuid4().hex
    shared = {**fields, "conversation_id": conversation_id, "prompt_id": prompt, "profile": profile}
    if keep is None:
        loop = Loop([_messages.plain(m) for m in messages], "error", None, prompt)
    else:
        left = yield from until_decided(lambda: keep._resume(shared), on_held)
        if left.held:
            return Loop(keep.messages, "held", None, keep.prompt_id, results=left.results)
        begun = yield from keep._begin(messages, shared, prompt_id is not None)
        prompt = shared["prompt_id"] = keep.prompt_id
        loop = Loop(begun, "error", None, prompt)
        if not messages and keep._has_ended():
            loop.exit_reason = "end_turn"
            return loop
    try:
        yield from _turns(loop, ask, max_turns, on_escalation, on_held, keep=keep, fields=shared)
        return loop
    except BaseException as e:
        loop.exit_reason = "error" if isinstance(e, Exception) else "cancelled"
        raise
    finally:
        ended = conversations.EndPromptRequest(
            conversation_id=str(conversation_id), prompt_id=prompt, profile=profile or "", exit_reason=loop.exit_reason
        )
        # It is for the figures alone, and the prompt ends by itself later. One that waits for a
        # person has not ended.
        with contextlib.suppress(grpc.RpcError, SidecallError):
            if loop.exit_reason != "held":
                yield Rpc("conversations", "EndPrompt", ended, wait=2)


def until_decided(run: Callable[[], Steps[ToolMessages]], on_held: Callable[[ToolMessages], Any] | None) -> Steps[ToolMessages]:
    """Runs calls, and once more whenever ``on_held`` says so, until none waits for a person."""
    while True:
        answered = yield from run()
        if not answered.held or on_held is None or not (yield Do(on_held, (answered,))):
            return answered


def _name_of(conversation_id: str | int | None, keep: Kept | None) -> str | int:
    if keep is None:
        if conversation_id is None:
            raise WrongField("conversation_id", "a loop needs one, or a conversation to keep")
        return conversation_id
    if conversation_id is not None and str(conversation_id) != keep.id:
        raise WrongField("conversation_id", f"the conversation to keep is {keep.id!r}, and this is {conversation_id!r}")
    return keep.id


def _turns(
    loop: Loop,
    ask: Callable[[list[Message]], Any],
    max_turns: int,
    on_escalation: Callable[[ToolMessages], Any] | None,
    on_held: Callable[[ToolMessages], Any] | None,
    *,
    keep: Kept | None,
    fields: Mapping[str, Any],
) -> Steps[None]:
    told_to_wrap_up = False
    while loop.turns < max_turns:
        loop.message = yield Do(ask, (list(loop.messages),))
        loop.turns += 1
        asked = pb.ReadMessageRequest(message_json=_messages.sent(loop.message))
        turn = yield from _of_message("ReadMessage", asked)
        loop.tokens += turn.tokens
        # A message without an id is known by its place among all: some providers start their
        # ids of calls again in every turn, and a loop that goes on later comes to the same.
        place = turn.id or f"{loop.prompt_id}/{len(loop.messages)}"
        of = {**fields, "turn_id": place, "tokens_used": loop.tokens or None}
        run = pb.RunMessageRequest(message_json=asked.message_json)
        # Calls that are not run have their answers with them: whoever goes on would run them.
        cut = (yield from run_message(run, of, keep is not None)) if turn.cut and turn.calls else None
        # The others are kept before anything is run: whoever goes on finds what became of them.
        own = [json.loads(message) for message in turn.messages_json]
        yield from _add(loop, [*own, *(cut or ())], keep, place, cut is None and turn.calls > 0)
        if not turn.calls:
            loop.exit_reason = turn.exit_reason
            return
        if cut is None:
            appended = yield from until_decided(functools.partial(run_message, run, of, keep is not None), on_held)
            if appended.held:  # what answers a held call closes it
                loop.results, loop.exit_reason = appended.results, "held"
                return
            yield from _add(loop, appended, keep)
        else:
            appended = cut
        loop.results = appended.results
        if appended.stop:
            loop.exit_reason = "loop_detected"
            return
        if appended._spent and told_to_wrap_up:
            loop.exit_reason = "budget_exceeded"
            return
        told_to_wrap_up = told_to_wrap_up or appended._spent
        if appended.require_escalation:
            allowed = False if on_escalation is None else (yield Do(on_escalation, (appended,)))
            if not allowed:
                loop.exit_reason = "escalation"
                return
    loop.exit_reason = "max_turns"


def _add(loop: Loop, messages: Sequence[Message], keep: Kept | None, turn: str = "", is_open: bool = False) -> Steps[None]:
    """Takes in messages, once they are kept."""
    loop.messages += messages if keep is None else (yield from keep._append(messages, turn, is_open))


def one(call: Call, fields: Mapping[str, Any]) -> Steps[pb.ExecuteToolResponse]:
    """Runs one call."""
    asked = request(call, fields)
    try:
        answer = yield Rpc("tools", "ExecuteTool", asked)
    except grpc.RpcError as e:
        most = _channel.most_bytes(e)
        if most is None:
            raise
        return too_large(asked, most)
    return answer  # type: ignore[no-any-return]
