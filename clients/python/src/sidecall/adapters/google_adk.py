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

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._context import Failure
from sidecall._request import Call
from sidecall._worker import Clean, Effect, Worker
from sidecall.adapters._calls import Calls, identity, schema, text
from sidecall.adapters._own import Declared, Own
from sidecall.v1 import tool_service_pb2 as pb


class SidecallToolset(BaseToolset):
    """The sidecar's tools, which are asked for once in each invocation. Calls that ADK
    makes at once are one request. ``functions`` of the agent's own run through the sidecar
    too, which needs a worker backend for that: ``effects`` are theirs by their names
    (unsaid, a call must not be repeated), ``worker`` has settings of the worker that they
    are. ``fields`` are those of execute_tools."""

    def __init__(
        self,
        client: Sidecall | AsyncSidecall,
        *,
        profile: str | None = None,
        functions: Sequence[BaseTool | Callable[..., Any]] = (),
        effects: Mapping[str, Effect] | None = None,
        fails_cleanly: Mapping[str, Clean] | None = None,
        worker: Worker | None = None,
        **fields: Any,
    ) -> None:
        super().__init__()
        self._calls = Calls(client, {"profile": profile, **fields})
        self._own = Own(client, self._calls, effects, worker, (_AsksAPerson,), fails_cleanly=fails_cleanly)
        own = [f if isinstance(f, BaseTool) else FunctionTool(f) for f in functions]
        self._own.declare([Declared(tool.name, tool.description, _parameters(tool)) for tool in own])
        self._own.check_names()
        self._functions = [_OwnTool(self._own, tool) for tool in own]

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        if self._functions:
            await self._own.start_async()
        found = [tool for tool in await self._calls.tools_async() if tool.name not in self._own.names()]
        return [*(_SidecallTool(self._calls, tool) for tool in found), *self._functions]


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


class _OwnTool(BaseTool):
    """A function of the agent's own."""

    def __init__(self, own: Own, tool: BaseTool) -> None:
        super().__init__(name=tool.name, description=tool.description, is_long_running=tool.is_long_running)
        self._own = own
        self._tool = tool

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return self._tool._get_declaration()

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        async def body() -> Any:
            returned = await self._tool.run_async(args=args, tool_context=tool_context)
            if tool_context.function_call_id in tool_context.actions.requested_tool_confirmations:
                raise _AsksAPerson(returned)
            if isinstance(returned, dict) and isinstance(returned.get("error"), str):
                raise Failure(returned["error"])
            return returned

        call, ids = _call(self.name, args, tool_context)
        try:
            return _answer(await self._own.run_async(call, ids, body), tool_context)
        except _AsksAPerson as asks:
            return asks.returned


class _AsksAPerson(Exception):
    """ADK comes with the same call again when a person has confirmed it."""

    def __init__(self, returned: Any) -> None:
        super().__init__()
        self.returned = returned


def _parameters(tool: BaseTool) -> Mapping[str, Any]:
    """The schema of what a model gives a tool."""
    declared = tool._get_declaration()
    found: Any = declared.parameters_json_schema if declared is not None else None
    if found is None and declared is not None and declared.parameters is not None:
        found = declared.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"type": "object", "properties": {}, **(found or {})}


async def _run(calls: Calls, name: str, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    call, ids = _call(name, arguments, context)
    return _answer(await calls.run_async(call, ids), context)


def _call(name: str, arguments: Mapping[str, Any], context: ToolContext) -> tuple[Call, dict[str, Any]]:
    id = context.function_call_id or ""
    return Call(id, name, arguments), {
        "conversation_id": identity(context.session.id, "give the session an id"),
        "turn_id": _turn(context, id),
        "prompt_id": context.invocation_id,
    }


def _answer(result: pb.ExecuteToolResponse, context: ToolContext) -> dict[str, Any]:
    if result.stop:
        context._invocation_context.end_invocation = True
    return {"error" if result.is_error else "result": text(result)}


def _turn(context: ToolContext, id: str) -> str | None:
    """The id of the event that made the call."""
    for event in reversed(context.session.events):
        if any(call.id == id for call in event.get_function_calls()):
            return event.id
    return None
