"""Sidecall in Google's Agent Development Kit.

    agent = LlmAgent(name="desk", model=..., tools=[SidecallToolset(s)])
    app = App(name="desk", root_agent=agent, plugins=[SidecallPlugin(s)])

The toolset offers the sidecar's tools. The plugin sends their calls through the
sidecar, and those of tools that do not exist, so that the model learns what they are
called. Without the plugin the tools work too, and ADK itself answers wrong names.

What a call is known by: its function_call_id, the id of the session (conversation),
that of the invocation (prompt), and that of the event that made the call (turn). A
session service keeps all four, but an invocation that ADK resumes drops calls without an
answer and asks the model again: these are other calls. A failure is {"error": ...}; when the sidecar says stop,
the invocation ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._request import Call
from sidecall.adapters._calls import Calls, identity, schema, text
from sidecall.v1 import tool_service_pb2 as pb


class SidecallToolset(BaseToolset):
    """The sidecar's tools, which are asked for once in each invocation. Calls that ADK
    makes at once are one request. ``fields`` are those of execute_tools."""

    def __init__(self, client: Sidecall | AsyncSidecall, *, profile: str | None = None, **fields: Any) -> None:
        super().__init__()
        self._calls = Calls(client, {"profile": profile, **fields})

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return [_SidecallTool(self._calls, tool) for tool in await self._calls.tools_async()]


class SidecallPlugin(BasePlugin):
    """Answers calls in the place of ADK. ``fields`` are those of execute_tools, and
    should be those of the toolset."""

    def __init__(
        self, client: Sidecall | AsyncSidecall, *, profile: str | None = None, name: str = "sidecall", **fields: Any
    ) -> None:
        super().__init__(name=name)
        self._calls = Calls(client, {"profile": profile, **fields})

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        # ADK stands a bare BaseTool in for a name that it does not know.
        if isinstance(tool, _SidecallTool) or type(tool) is BaseTool:
            return await _run(self._calls, tool.name, tool_args, tool_context)
        return None


class _SidecallTool(BaseTool):
    def __init__(self, calls: Calls, tool: pb.Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._calls = calls
        self._schema = schema(tool)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=self._schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return await _run(self._calls, self.name, args, tool_context)


async def _run(calls: Calls, name: str, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    id = context.function_call_id or ""
    result = await calls.run_async(Call(id, name, arguments), {
        "conversation_id": identity(context.session.id, "give the session an id"),
        "turn_id": _turn(context, id),
        "prompt_id": context.invocation_id,
    })  # fmt: skip
    if result.stop:
        context._invocation_context.end_invocation = True
    return {"error" if result.is_error else "result": text(result)}


def _turn(context: ToolContext, id: str) -> str | None:
    """The id of the event that made the call."""
    for event in reversed(context.session.events):
        if any(call.id == id for call in event.get_function_calls()):
            return event.id
    return None
