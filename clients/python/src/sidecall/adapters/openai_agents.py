"""Sidecall in the OpenAI Agents SDK.

    agent = Agent(name="desk", tools=await tools(s), tool_use_behavior=stop_when_told)
    await Runner.run(agent, "...", run_config=RunConfig(group_id="c-1"))

What a call is known by: the model's call id, the group_id of the run (conversation),
how long the run's input is (prompt), and how many answers of the model came since
(turn). A RunState keeps all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from sidecall._messages import _PICTURES, pictures_of
from sidecall._request import Call
from sidecall.adapters._calls import Calls, identity, schema, text
from sidecall.v1 import tool_service_pb2 as pb

#: An id, or what gives it for a call.
Id = str | Callable[[ToolContext[Any]], str]

#: What a result was, in the custom data of the SDK's output items.
_STOP = "sidecall_stop"


async def tools(
    client: Sidecall | AsyncSidecall,
    *,
    conversation_id: Id | None = None,
    prompt_id: Id | None = None,
    profile: str | None = None,
    **fields: Any,
) -> list[Tool]:
    """The sidecar's tools, for an Agent. ``conversation_id`` stands for the group_id of
    runs that have none; ``prompt_id`` says what the budget counts by, where runs are not
    given the history. ``fields`` are those of execute_tools. Calls that the SDK makes at
    once are one request."""
    door = _Door(Calls(client, {"profile": profile, **fields}), conversation_id, prompt_id)
    return [door.tool(tool) for tool in await door.calls.tools_async()]


def stop_when_told(context: RunContextWrapper[Any], results: Sequence[FunctionToolResult]) -> ToolsToFinalOutputResult:
    """A tool_use_behavior that ends a run in which the model goes round in circles,
    when the sidecar says stop; its last refusal is the final output."""
    for result in results:
        if (getattr(result.run_item, "custom_data", None) or {}).get(_STOP):
            return ToolsToFinalOutputResult(is_final_output=True, final_output=result.output)
    return ToolsToFinalOutputResult(is_final_output=False)


class _Door:
    """Where calls of the SDK become the sidecar's."""

    def __init__(self, calls: Calls, conversation_id: Id | None, prompt_id: Id | None) -> None:
        self.calls = calls
        self._conversation = conversation_id
        self._prompt = prompt_id

    def tool(self, tool: pb.Tool) -> FunctionTool:
        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            # The text that the model gave: the sidecar finds fault with it.
            call = Call(context.tool_call_id, tool.name, arguments)
            return _output(await self.calls.run_async(call, self._ids(context)))

        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=schema(tool),
            on_invoke_tool=invoke,
            strict_json_schema=False,  # schemas of tools are not written for a strict mode
            custom_data_extractor=lambda about: {_STOP: True} if getattr(about.output, "stop", False) else None,
        )

    def _ids(self, context: ToolContext[Any]) -> dict[str, Any]:
        conversation = _of(self._conversation, context)
        if conversation is None and context.run_config is not None:
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


def _of(id: Id | None, context: ToolContext[Any]) -> str | None:
    return id(context) if callable(id) else id


def _output(result: pb.ExecuteToolResponse) -> Any:
    words = text(result, _PICTURES)
    shown = [
        ToolOutputImage(image_url=f"data:{mime_type};base64,{data}") for mime_type, data in pictures_of(result)
    ]
    if shown:
        return [*([ToolOutputText(text=words)] if words else []), *shown]
    return _Refusal(words) if result.stop else words
