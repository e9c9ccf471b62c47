"""Sidecall in PydanticAI.

    agent = Agent(model, toolsets=[SidecallToolset(s)])
    await agent.run("...", conversation_id="c-1")

What a call is known by: the model's id of the call, the conversation_id of the run, its
run_id (prompt), and the provider's id of the response that made the call (turn), or how
many responses there were where it has none. The history of messages keeps all but the
run_id, so a history that ends in calls can be run again: each is answered from its
record. A failure is a ToolFailed; when the sidecar says stop, the run is cancelled
(RunCancelled), which keeps the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic_ai import BinaryContent, RunContext, ToolFailed
from pydantic_ai.messages import ModelResponse
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._messages import _PICTURES
from sidecall._request import Call
from sidecall.adapters._calls import Calls, identity, schema, text
from sidecall.v1 import tool_service_pb2 as pb


class SidecallToolset(AbstractToolset[AgentDepsT]):
    """The sidecar's tools. They are asked for once; ``refresh`` asks again. Calls that
    PydanticAI makes at once are one request."""

    def __init__(
        self,
        client: Sidecall | AsyncSidecall,
        *,
        conversation_id: str | Callable[[RunContext[AgentDepsT]], str] | None = None,
        profile: str | None = None,
        id: str = "sidecall",
        **fields: Any,
    ) -> None:
        """``conversation_id`` stands for that of the run, which PydanticAI makes up when
        it is given none. ``fields`` are those of execute_tools."""
        self._calls = Calls(client, {"profile": profile, **fields})
        self._conversation = conversation_id
        self._id = id
        self._tools: dict[str, pb.Tool] | None = None

    @property
    def id(self) -> str:
        return self._id

    async def refresh(self) -> None:
        """Asks the sidecar for its tools."""
        self._tools = {tool.name: tool for tool in await self._calls.tools_async()}

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        if self._tools is None:
            await self.refresh()
        return {name: self._tool(tool) for name, tool in (self._tools or {}).items()}

    def _tool(self, tool: pb.Tool) -> ToolsetTool[AgentDepsT]:
        definition = ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=schema(tool))
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=0, args_validator=_Unchecked())

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        given = tool_args.json if isinstance(tool_args, _Text) else tool_args
        result = await self._calls.run_async(Call(ctx.tool_call_id or "", name, given), self._ids(ctx))
        if result.stop:
            ctx.cancel()
        if result.is_error:
            raise ToolFailed(text(result))
        return _returned(result)

    def _ids(self, ctx: RunContext[AgentDepsT]) -> dict[str, Any]:
        conversation = self._conversation(ctx) if callable(self._conversation) else self._conversation
        responses = [message for message in ctx.messages if isinstance(message, ModelResponse)]
        named = responses[-1].provider_response_id if responses else None
        return {
            "conversation_id": identity(conversation or ctx.conversation_id, "run it with conversation_id="),
            "turn_id": named or str(len(responses)),
            "prompt_id": ctx.run_id,
        }


class _Text(dict[str, Any]):
    """Arguments as the model gave them: a text that may be no JSON."""

    def __init__(self, json: str) -> None:
        super().__init__()
        self.json = json


class _Unchecked:
    """Lets all arguments through: the sidecar is the one to find fault with them, and
    to say how they are corrected."""

    def validate_json(
        self, input: str | bytes | bytearray, *, allow_partial: bool | Literal["off", "on", "trailing-strings"] = False, **kwargs: Any
    ) -> dict[str, Any]:
        return _Text(input if isinstance(input, str) else input.decode("utf-8", "replace"))

    def validate_python(
        self, input: Any, *, allow_partial: bool | Literal["off", "on", "trailing-strings"] = False, **kwargs: Any
    ) -> Any:
        return input


def _returned(result: pb.ExecuteToolResponse) -> Any:
    words = text(result, _PICTURES)
    pictures = [block for block in result.blocks if block.data and block.mime_type in _PICTURES]
    shown = [BinaryContent(block.data, media_type=block.mime_type) for block in pictures]
    return [*([words] if words else []), *shown] if shown else words
