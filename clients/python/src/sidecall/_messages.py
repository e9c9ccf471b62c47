"""What goes to a provider, and what comes from it: the sidecar knows the formats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sidecall._errors import WrongField, WrongMessage
from sidecall._request import json_text
from sidecall.v1 import tool_service_pb2 as pb

Format = Literal["anthropic", "openai", "openai-responses"]

FORMATS: tuple[Format, ...] = ("anthropic", "openai", "openai-responses")

Message = dict[str, Any]


class ToolMessages(list[Message]):
    """The messages to append after an assistant's message, in this order and
    before any other; none when it calls no tool. ``results`` are the results of its
    calls, in order."""

    def __init__(self, answer: pb.RunMessageResponse | None = None) -> None:
        answer = answer or pb.RunMessageResponse()
        super().__init__(json.loads(text) for text in answer.messages_json)
        self.results: Sequence[pb.ExecuteToolResponse] = tuple(answer.results)
        #: The loop has to end now: the model goes round in circles, and was told so.
        self.stop = answer.stop
        #: A person has to be asked before the model goes on.
        self.require_escalation = answer.require_escalation
        #: Nothing ran because the budget of the prompt is used up.
        self._spent = answer.budget_exceeded

    @property
    def held(self) -> Sequence[pb.ExecuteToolResponse]:
        """The results of the calls that wait for a person. To append any of the messages
        closes them: run the same message again once they are decided."""
        return tuple(r for r in self.results if r.HasField("hold"))


def sent(message: Any) -> str:
    """The JSON text of what a provider's SDK gave, or of the same as plain data."""
    try:
        return json_text(message if isinstance(message, str) else plain(message), "message")
    except WrongField as e:
        raise WrongMessage(f"want the message of an assistant, {str(e).partition(': ')[2]}") from e


def check_format(format: Format) -> Format:
    """Refuses what is no format."""
    if format not in FORMATS:
        raise WrongMessage(f"want a format of {', '.join(FORMATS)}, got {format!r}")
    return format


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
