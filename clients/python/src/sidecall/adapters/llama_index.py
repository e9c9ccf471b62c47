"""Sidecall in LlamaIndex.

    agent = SidecallFunctionAgent(llm=..., tools=await tools(s))
    await agent.run("...", memory=Memory.from_defaults(session_id="c-1"))

or SidecallAgentWorkflow(agents=[FunctionAgent(tools=await tools(s), ...), ...]). These
are LlamaIndex's own but for one step, call_tool: a tool of LlamaIndex is not told the id
of its call, and the workflow is.

What a call is known by: its tool_id, the session_id of the memory (conversation), how
many messages the memory has (prompt), and how many the model has made in this run
(turn). When the sidecar says stop, the run ends with its last refusal. A workflow hands
the calls of a turn out one after the other, four at a time, so they are requests of
their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCall, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ContentBlock, ImageBlock, MessageRole, TextBlock
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context, step
from workflows.runtime.types.results import WaitingForEvent

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._context import Failure, Reply
from sidecall._errors import WrongField
from sidecall._request import Call
from sidecall._worker import Clean, Effect, Worker
from sidecall.adapters._calls import Calls, about, identity, schema, text
from sidecall.adapters._own import Declared, Own
from sidecall.adapters._shown import PICTURES
from sidecall.v1 import tool_service_pb2 as pb

#: An id, or what gives it for a run.
Id = str | Callable[[Context], str]


async def tools(
    client: Sidecall | AsyncSidecall,
    *,
    conversation_id: Id | None = None,
    prompt_id: Id | None = None,
    profile: str | None = None,
    functions: Sequence[AsyncBaseTool | Callable[..., Any]] = (),
    effects: Mapping[str, Effect] | None = None,
    fails_cleanly: Mapping[str, Clean] | None = None,
    worker: Worker | None = None,
    **fields: Any,
) -> list[AsyncBaseTool]:
    """The sidecar's tools, for the agents of this module, and ``functions`` of the agent's
    own, which run through the sidecar then: it needs a worker backend for that. ``effects``
    are those of functions by their names: unsaid, a call must not be repeated; ``worker``
    has settings of the worker that they are. ``conversation_id`` stands for
    the session_id of the memory; ``prompt_id`` says what the budget counts by, if not by
    runs. ``fields`` are those of execute_tools."""
    door = _Door(Calls(client, {"profile": profile, **fields}), conversation_id, prompt_id)
    own = [f if isinstance(f, AsyncBaseTool) else FunctionTool.from_defaults(f) for f in functions]
    door.own = Own(client, door.calls, effects, worker, (WaitingForEvent,), fails_cleanly=fails_cleanly)
    door.own.declare([Declared(tool.metadata.get_name(), tool.metadata.description, _parameters(tool)) for tool in own])
    door.own.check_names()
    if own:
        await door.own.start_async()
    found = [tool for tool in await door.calls.tools_async() if tool.name not in door.own.names()]
    return [*(_SidecallTool(door, _Metadata(tool)) for tool in found), *(_SidecallTool(door, tool.metadata, tool) for tool in own)]


class SidecallFunctionAgent(FunctionAgent):
    """A FunctionAgent that sends the calls of the sidecar's tools through it, and those
    of tools that do not exist, which it explains."""

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        door = _door(await self.get_tools(ev.tool_name), ev.tool_name)
        return await (door.run(ctx, ev, self._call_tool) if door else super().call_tool(ctx, ev))


class SidecallAgentWorkflow(AgentWorkflow):
    """An AgentWorkflow that does."""

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        agent = await ctx.store.get("current_agent_name")
        door = _door(await self.get_tools(agent, ev.tool_name), ev.tool_name)
        return await (door.run(ctx, ev, self._call_tool) if door else super().call_tool(ctx, ev))


class _Door:
    """Where LlamaIndex's calls become the sidecar's."""

    own: Own

    def __init__(self, calls: Calls, conversation_id: Id | None, prompt_id: Id | None) -> None:
        self.calls = calls
        self.functions: dict[str, AsyncBaseTool] = {}
        self._conversation = conversation_id
        self._prompt = prompt_id

    async def run(self, ctx: Context, ev: ToolCall, as_is: Callable[..., Awaitable[ToolOutput]]) -> ToolCallResult:
        """Runs a call; ``as_is`` is LlamaIndex's way to run a function."""
        call = ToolCall(tool_name=ev.tool_name, tool_kwargs=ev.tool_kwargs, tool_id=ev.tool_id)
        ctx.write_event_to_stream(call)
        asked, ids = Call(ev.tool_id, ev.tool_name, ev.tool_kwargs), await self._ids(ctx)
        function = self.functions.get(ev.tool_name)

        async def body() -> Any:
            return _said(await as_is(ctx, function, ev.tool_kwargs))

        result = await (self.calls.run_async(asked, ids) if function is None else self.own.run_async(asked, ids, body))
        answer = ToolCallResult(
            tool_name=ev.tool_name,
            tool_kwargs=ev.tool_kwargs,
            tool_id=ev.tool_id,
            tool_output=_output(ev, result),
            return_direct=result.stop or (function is not None and function.metadata.return_direct),
        )
        ctx.write_event_to_stream(answer)
        return answer

    async def _ids(self, ctx: Context) -> Mapping[str, Any]:
        memory = await ctx.store.get("memory")
        prompt = str(len(await memory.aget_all()))  # a message of the user is put there first
        conversation = self._conversation(ctx) if callable(self._conversation) else self._conversation
        return {
            "conversation_id": identity(
                conversation or getattr(memory, "session_id", None),
                "run it with memory=Memory.from_defaults(session_id=...), or give conversation_id=",
            ),
            "turn_id": f"{prompt}.{_turns(await ctx.store.get('scratchpad', default=[]))}",
            "prompt_id": (self._prompt(ctx) if callable(self._prompt) else self._prompt) or prompt,
        }


def _turns(scratchpad: Sequence[ChatMessage]) -> int:
    """How many turns the model had in this run. LlamaIndex counts too (num_iterations),
    but counts a turn again when a Context is resumed."""
    return sum(message.role == MessageRole.ASSISTANT for message in scratchpad)


class _Metadata(ToolMetadata):
    """What a model is told of a tool, with the sidecar's schema as it is."""

    def __init__(self, tool: pb.Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._schema = schema(tool)

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._schema


class _SidecallTool(AsyncBaseTool):
    def __init__(self, door: _Door, metadata: ToolMetadata, function: AsyncBaseTool | None = None) -> None:
        self.door = door
        self._metadata = metadata
        if function is not None:
            door.functions[metadata.get_name()] = function

    @property
    def metadata(self) -> ToolMetadata:
        return self._metadata

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        raise WrongField("tool_id", "a tool is not told it: run this one by a SidecallFunctionAgent or a SidecallAgentWorkflow")

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return self.call()


def _parameters(tool: AsyncBaseTool) -> Mapping[str, Any]:
    """The schema of what a model gives a function, which the sidecar checks strictly."""
    return {"additionalProperties": False, **tool.metadata.get_parameters_dict()}


def _said(output: ToolOutput) -> Any:
    """What a function has returned, as the sidecar takes it."""
    if output.is_error:
        raise output.exception if output.exception is not None else Failure(output.content)
    pictures = [block for block in output.blocks if isinstance(block, ImageBlock) and block.image]
    blocks = [
        pb.ContentBlock(type="image", data=p.resolve_image().read(), mime_type=p.image_mimetype or "image/png") for p in pictures
    ]
    return Reply(output.content, blocks=blocks)


def _door(tools: Sequence[Any], name: str) -> _Door | None:
    """Where a call goes that the sidecar is to run. A name that nobody knows is for it
    to explain."""
    doors = {tool.metadata.name: tool.door for tool in tools if isinstance(tool, _SidecallTool)}
    if name in doors:
        return doors[name]
    known = any(tool.metadata.name == name for tool in tools)
    return None if known else next(iter(doors.values()), None)


def _output(ev: ToolCall, result: pb.ExecuteToolResponse) -> ToolOutput:
    words = text(result, PICTURES)
    pictures = [block for block in result.blocks if block.data and block.mime_type in PICTURES]
    blocks: list[ContentBlock] = [TextBlock(text=words)] if words or not pictures else []
    blocks += [ImageBlock(image=block.data, image_mimetype=block.mime_type) for block in pictures]
    return ToolOutput(
        tool_name=ev.tool_name,
        blocks=blocks,
        raw_input=ev.tool_kwargs,
        raw_output=about(result),
        # An error never ends a run, and one that says stop has to.
        is_error=result.is_error and not result.stop,
    )
