"""Sidecall in the OpenAI Agents SDK.

    agent = Agent(name="desk", tools=await tools(s), tool_use_behavior=stop_when_told)
    await Runner.run(agent, "...", run_config=RunConfig(group_id="c-1"))

What a call is known by: the model's call id, the group_id of the run (conversation),
how long the run's input is (prompt), and how many answers of the model came since
(turn). A RunState keeps all of them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents import (
    FunctionTool,
    FunctionToolResult,
    RunContextWrapper,
    Tool,
    ToolOutputImage,
    ToolOutputText,
    ToolsToFinalOutputResult,
)
from agents.tool_context import ToolContext

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._context import Reply
from sidecall._errors import WrongField
from sidecall._request import Call
from sidecall._worker import Clean, Effect, Worker
from sidecall.adapters._calls import Calls, identity, schema, text
from sidecall.adapters._own import Declared, Own
from sidecall.adapters._shown import PICTURES, pictures_of
from sidecall.v1 import tool_service_pb2 as pb

#: An id, or what gives it for a call: of a ToolContext, and of a RunContextWrapper where it is
#: only asked whether a call is held.
Id = str | Callable[[Any], str]

#: What a result was, in the custom data of the SDK's output items.
_STOP = "sidecall_stop"


async def tools(
    client: Sidecall | AsyncSidecall,
    *,
    conversation_id: Id | None = None,
    prompt_id: Id | None = None,
    profile: str | None = None,
    functions: Sequence[FunctionTool] = (),
    effects: Mapping[str, Effect] | None = None,
    fails_cleanly: Mapping[str, Clean] | None = None,
    worker: Worker | None = None,
    interrupt_held: bool = False,
    **fields: Any,
) -> list[Tool]:
    """The sidecar's tools, for an Agent, and ``functions`` of its own, which run through
    the sidecar then: it needs a worker backend for that. ``effects`` are those of functions
    by their names: unsaid, a call must not be repeated; ``worker`` has settings of the
    worker that they are. ``conversation_id`` stands for the group_id of
    runs that have none; ``prompt_id`` says what the budget counts by, where runs are not
    given the history. ``interrupt_held`` ends a run with interruptions at a call that waits
    for a person, in place of telling the model so: once the sidecar was told to allow it,
    state.approve and run the state again; before that the model is told that it still waits.
    It needs a ``conversation_id``. ``fields`` are those of execute_tools. Calls that the SDK makes at
    once are one request."""
    if interrupt_held and conversation_id is None:
        raise WrongField("conversation_id", "interrupt_held needs it: the SDK asks before it runs a tool, and tells no group_id then")
    door = _Door(Calls(client, {"profile": profile, **fields}), conversation_id, prompt_id, interrupt_held)
    own = Own(client, door.calls, effects, worker, fails_cleanly=fails_cleanly)
    own.declare([Declared(f.name, f.description, f.params_json_schema) for f in functions])
    own.check_names()
    if functions:
        await own.start_async()
    found = [door.tool(tool) for tool in await door.calls.tools_async() if tool.name not in own.names()]
    return [*found, *(door.own(own, function) for function in functions)]


def stop_when_told(context: RunContextWrapper[Any], results: Sequence[FunctionToolResult]) -> ToolsToFinalOutputResult:
    """A tool_use_behavior that ends a run in which the model goes round in circles,
    when the sidecar says stop; its last refusal is the final output."""
    for result in results:
        if (getattr(result.run_item, "custom_data", None) or {}).get(_STOP):
            return ToolsToFinalOutputResult(is_final_output=True, final_output=result.output)
    return ToolsToFinalOutputResult(is_final_output=False)


class _Door:
    """Where calls of the SDK become the sidecar's."""

    def __init__(self, calls: Calls, conversation_id: Id | None, prompt_id: Id | None, interrupts: bool) -> None:
        self.calls = calls
        self._conversation = conversation_id
        self._prompt = prompt_id
        self._interrupts = interrupts

    def tool(self, tool: pb.Tool) -> FunctionTool:
        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            # The text that the model gave: the sidecar finds fault with it.
            call = Call(context.tool_call_id, tool.name, arguments)
            return _output(await self.calls.run_async(call, self._ids(context)))

        async def is_held(context: RunContextWrapper[Any], arguments: dict[str, Any], id: str) -> bool:
            return await self.calls.is_held_async(Call(id, tool.name, arguments), self._ids(context))

        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=schema(tool),
            on_invoke_tool=invoke,
            strict_json_schema=False,  # schemas of tools are not written for a strict mode
            needs_approval=is_held if self._interrupts else False,
            custom_data_extractor=_custom_data,
        )

    def own(self, own: Own, function: FunctionTool) -> FunctionTool:
        """A function of the agent's own, run through the sidecar."""
        # The sidecar is told of a failure, which the SDK would make a text of.
        bare = replace(function, _failure_error_function=None, _use_default_failure_error_function=False)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            async def body() -> Any:
                return _said(await bare.on_invoke_tool(context, arguments))

            call = Call(context.tool_call_id, function.name, arguments)
            return _output(await own.run_async(call, self._ids(context), body))

        async def is_held(context: RunContextWrapper[Any], arguments: dict[str, Any], id: str) -> bool:
            # Both are asked: whoever allows it for the one has not for the other.
            held = await own.is_held_async(Call(id, function.name, arguments), self._ids(context))
            asked = function.needs_approval
            return held or (asked if isinstance(asked, bool) else await asked(context, arguments, id))

        needs_approval = is_held if self._interrupts else function.needs_approval
        return replace(function, on_invoke_tool=invoke, custom_data_extractor=_custom_data, needs_approval=needs_approval)

    def _ids(self, context: RunContextWrapper[Any]) -> dict[str, Any]:
        conversation = _of(self._conversation, context)
        if conversation is None and isinstance(context, ToolContext) and context.run_config is not None:
            conversation = context.run_config.group_id
        # A run with the history of those before it has a longer input.
        prompt = str(len(context.turn_input))
        return {
            "conversation_id": identity(conversation, "run it with RunConfig(group_id=...), or give conversation_id="),
            "turn_id": f"{prompt}.{context.usage.requests}",
            "prompt_id": _of(self._prompt, context) or prompt,
        }


class _Refusal(str):
    """A text that says stop to the program."""

    stop = True


def _custom_data(about: Any) -> dict[str, Any] | None:
    return {_STOP: True} if getattr(about.output, "stop", False) else None


def _said(returned: Any) -> Any:
    """What a function has returned, as the sidecar takes it: what the SDK shows to the
    model as text is text."""
    parts = returned if isinstance(returned, list) else [returned]
    words, pictures = [], []
    for part in parts:
        if isinstance(part, ToolOutputText):
            words.append(part.text)
        elif isinstance(part, ToolOutputImage) and (found := _DATA.fullmatch(part.image_url or "")):
            pictures.append(pb.ContentBlock(type="image", mime_type=found[1], data=base64.b64decode(found[2])))
        else:
            return str(returned)
    return Reply("\n\n".join(words), blocks=pictures)


_DATA = re.compile("data:([^;,]+);base64,(.*)", re.DOTALL)


def _of(id: Id | None, context: RunContextWrapper[Any]) -> str | None:
    return id(context) if callable(id) else id


def _output(result: pb.ExecuteToolResponse) -> Any:
    words = text(result, PICTURES)
    shown = [
        ToolOutputImage(image_url=f"data:{mime_type};base64,{data}") for mime_type, data in pictures_of(result)
    ]
    if shown:
        return [*([ToolOutputText(text=words)] if words else []), *shown]
    return _Refusal(words) if result.stop else words
