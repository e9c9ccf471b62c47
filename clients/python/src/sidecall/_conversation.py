"""Conversations that the sidecar keeps, so that another process can go on with one.

What both clients do with them is here as generators, as in _session; Conversation
and AsyncConversation wait for it and await it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from sidecall import _channel, _messages, _session
from sidecall._errors import BrokenAnswer, StaleConversation, WrongField
from sidecall._messages import Format, Message, ToolMessages
from sidecall._request import Call, identity, json_text, request
from sidecall.v1 import conversation_service_pb2 as pb
from sidecall.v1 import tool_service_pb2 as tools

if TYPE_CHECKING:
    from sidecall._aio import AsyncSidecall
    from sidecall._client import Sidecall

#: The trailing metadata that tells the version of a conversation to whom had another.
_VERSION = "sidecall-conversation-version"

#: What a conversation says of the calls in it.
_ITS_OWN = ("conversation_id", "turn_id")

K = TypeVar("K", bound="Kept")


class Kept:
    """A conversation as it was when this process saw it last. It is for one thread, or
    task, at a time."""

    def __init__(self, id: Any, provider: Format, compact_after_turns: int = 0, compact_to_tokens: int = 0) -> None:
        #: What names it.
        self.id = identity(id, "conversation_id")
        #: Whose array its messages are.
        self.provider: Format = _messages.check_format(provider)
        #: The messages, each the JSON text that was appended, byte for byte but for
        #: results that are left out.
        self.texts: list[str] = []
        #: The calls in it that had no result when it was loaded, and what had become
        #: of each.
        self.pending: Sequence[Any] = ()
        #: The prompt that the last messages belong to.
        self.prompt_id = ""
        # What is left out when it is loaded.
        self._leaves: dict[str, Any] = {
            "compact_after_turns": _bound(compact_after_turns, "compact_after_turns", 2**31),
            "compact_to_tokens": _bound(compact_to_tokens, "compact_to_tokens", 2**63),
        }
        # There may be more in it than this process knows, or calls without a result.
        self._unsure = False

    @property
    def version(self) -> int:
        """How many messages it has."""
        return len(self.texts)

    @property
    def messages(self) -> list[Message]:
        """The messages, as a provider's SDK takes them."""
        return [json.loads(text) for text in self.texts]

    def _load(self: K) -> _session.Steps[K]:
        """Fetches all of it; one that is not there yet has no messages."""
        try:
            page = yield _rpc("ResumeConversation", pb.ResumeConversationRequest(conversation_id=self.id, **self._leaves))
        except grpc.RpcError as e:
            if e.code() != grpc.StatusCode.NOT_FOUND:
                raise
            self.texts, self.pending, self.prompt_id, self._unsure = [], (), "", False
            return self
        if page.provider != self.provider:
            raise WrongField("provider", f"the conversation {self.id} is one of {page.provider}, not of {self.provider}")
        version, pending, before, prompt = page.version, tuple(page.pending), page.compacted_before, page.prompt_id
        texts = list(page.messages_json)
        while len(texts) < version:
            asked = pb.LoadConversationRequest(conversation_id=self.id, from_version=len(texts), compact_before=before)
            page = yield _rpc("LoadConversation", asked)
            if not page.messages_json:
                raise BrokenAnswer(f"a page of the conversation {self.id} without messages, before its end")
            texts += page.messages_json
        # Who has appended meanwhile has made this one stale: the next append says so.
        self.texts, self.pending, self.prompt_id, self._unsure = texts[:version], pending, prompt, False
        return self

    def _append(self, messages: Sequence[Any], turn: str = "", is_open: bool = False) -> _session.Steps[list[Message]]:
        """Appends messages, and gives them back as a loop started anew would load them.
        ``is_open`` says that afterwards there may be calls without a result."""
        texts = [text_of(message, f"messages[{i}]") for i, message in enumerate(messages)]
        if not texts:
            return []
        asked = pb.AppendMessagesRequest(
            conversation_id=self.id, expected_version=self.version, provider=self.provider, turn_id=turn, messages_json=texts,
            append_id=uuid.uuid4().hex, prompt_id=self.prompt_id,
        )  # fmt: skip
        # Whatever comes of it: what is not known to have been refused may have been kept.
        self._unsure = True
        try:
            yield _rpc("AppendMessages", asked)
        except grpc.RpcError as e:
            raise _stale(e, self.version) or e from e
        self.texts += texts
        self._unsure = is_open
        return [json.loads(text) for text in texts]

    def _resume(self, fields: Mapping[str, Any]) -> _session.Steps[ToolMessages]:
        """Makes the calls that have no result, with the ids that they had, in the prompt
        that they belong to, and appends what answers them. One that is forgotten is not
        made again: the sidecar sees to that."""
        if self._unsure:
            yield from self._load()
        if not self.pending:
            return ToolMessages()
        if not self.prompt_id and fields.get("prompt_id") is not None:
            self.prompt_id = identity(fields["prompt_id"], "prompt_id")
        shared = {**fields, "conversation_id": self.id, "turn_id": None, "prompt_id": self.prompt_id}
        self._unsure = True  # whatever comes of it
        try:
            answered = yield from _session.run_message(tools.RunMessageRequest(open_at_version=self.version), shared, True)
        except grpc.RpcError as e:
            raise _stale(e, self.version) or e from e
        if answered.held:  # what answers a held call closes it
            return answered
        yield from self._append(answered)
        self.pending = ()
        return answered

    def _begin(self, messages: Sequence[Any], fields: Mapping[str, Any], named: bool) -> _session.Steps[list[Message]]:
        """What a loop begins with: all that is kept, with the calls answered, and the
        messages that it is given behind it. These begin the prompt of ``fields``; without
        them the one that is unfinished goes on, unless the caller has ``named`` another."""
        yield from self._resume(fields)
        if named or messages or not self.prompt_id:
            self.prompt_id = str(fields["prompt_id"])
        yield from self._append(messages)
        return self.messages

    def _has_ended(self) -> bool:
        """Whether the model has said its last word: a message without calls."""
        last = json.loads(self.texts[-1]) if self.texts else None
        return isinstance(last, Mapping) and last.get("role") == "assistant"


class Conversation(Kept):
    """One that the sidecar keeps; Sidecall.conversation loads it. When two processes
    append to the same one, the second is told by StaleConversation."""

    def __init__(self, client: Sidecall, id: Any, provider: Format, **leaves: int) -> None:
        super().__init__(id, provider, **leaves)
        self._client = client

    def append(
        self,
        *messages: Any,
        turn_id: str | int | None = None,
        prompt_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
    ) -> None:
        """Keeps messages, all or none: objects of the provider's SDK, dicts, or JSON
        texts. Each is written as JSON once, and is this text from then on. ``turn_id``
        is that of the calls in them, which are made after this and not before;
        ``prompt_id`` the prompt that they belong to, where a message of the user begins
        another.

        While the sidecar is away, it is sent again, for the client's patience: what
        was kept then is not kept twice. StaleConversation: somebody else has appended,
        or has run a call that the messages say was not run."""
        self._client._run(self._append(messages, **_named(self, turn_id, prompt_id)), rpc_timeout)

    def resume(self, *, rpc_timeout: float | timedelta | None = None, **fields: Any) -> ToolMessages:
        """Makes the calls that have no result, with the ids that they had: what is done
        is replayed, and nothing runs twice. What answers them is appended and
        returned; it is empty where every call has its result. Where one of them waits for
        a person (``held``) nothing is appended: resume once more when it is decided. ``fields`` are those of
        execute_tools, without the ids of the conversation and of the turn; the prompt is
        the calls' own where they have one. After an
        error or a StaleConversation it loads what there is first."""
        return self._client._run(self._resume(_shared(fields)), rpc_timeout)


class AsyncConversation(Kept):
    """Conversation for asyncio: AsyncSidecall.conversation loads it."""

    def __init__(self, client: AsyncSidecall, id: Any, provider: Format, **leaves: int) -> None:
        super().__init__(id, provider, **leaves)
        self._client = client

    async def append(
        self,
        *messages: Any,
        turn_id: str | int | None = None,
        prompt_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
    ) -> None:
        """As Conversation.append."""
        await self._client._run(self._append(messages, **_named(self, turn_id, prompt_id)), rpc_timeout)

    async def resume(self, *, rpc_timeout: float | timedelta | None = None, **fields: Any) -> ToolMessages:
        """As Conversation.resume."""
        return await self._client._run(self._resume(_shared(fields)), rpc_timeout)


def text_of(message: Any, at: str) -> str:
    """The JSON text of a message; a text is one already."""
    text = json_text(message if isinstance(message, str) else _messages.plain(message), at)
    if (size := len(text.encode())) > (most := _channel.MAX_MESSAGE_BYTES):
        why = f"has {size} bytes, and a message that is kept has at most {most}: name pictures and files by their URL, or say less"
        raise WrongField(at, why)
    return text


def _rpc(method: str, asked: Any) -> _session.Rpc:
    return _session.Rpc("conversations", method, asked, insist=True)


def _bound(value: Any, name: str, below: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        raise WrongField(name, f"want 0, which is no bound, or more, got {value!r}")
    return value


def _named(kept: Kept, turn_id: Any, prompt_id: Any) -> dict[str, Any]:
    if prompt_id is not None:
        kept.prompt_id = identity(prompt_id, "prompt_id")
    turn = "" if turn_id is None else identity(turn_id, "turn_id")
    return {"turn": turn, "is_open": bool(turn or kept.pending)}


def _shared(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    for own in _ITS_OWN:
        if own in fields:
            raise WrongField(own, "the conversation says that itself")
    request(Call("", ""), {"conversation_id": "", **fields})  # a wrong one is told before anything is asked
    return fields


def _stale(error: grpc.RpcError, known: int) -> StaleConversation | None:
    """What an append was refused with, if that was its version, or what it says of a
    call."""
    trailing: Any = error.trailing_metadata()
    version = dict(trailing or ()).get(_VERSION)
    if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
        version = version or known
    elif error.code() != grpc.StatusCode.ABORTED:
        return None
    return StaleConversation(str(error.details()), int(version)) if version is not None else None
