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

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolFailed
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import ModelResponse, ToolReturn
from pydantic_ai.tools import AgentDepsT, Tool, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool
from pydantic_core import to_jsonable_python
from typing_extensions import Self

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._context import Failure, Reply
from sidecall._request import Call
from sidecall._worker import Clean, Effect, Worker
from sidecall.adapters._calls import Calls, about, identity, schema, text
from sidecall.adapters._own import Declared, Own
from sidecall.adapters._shown import PICTURES
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
        functions: AbstractToolset[AgentDepsT] | Sequence[Tool[AgentDepsT] | Callable[..., Any]] = (),
        effects: Mapping[str, Effect] | None = None,
        fails_cleanly: Mapping[str, Clean] | None = None,
        worker: Worker | None = None,
        defer_held: bool = False,
        **fields: Any,
    ) -> None:
        """``functions`` of the agent's own, or a toolset of them, run through the sidecar
        too, which needs a worker backend for that: ``effects`` are theirs by their names
        (unsaid, a call must not be repeated), ``worker`` has settings of the worker that
        they are. ``conversation_id`` stands for that of the run, which PydanticAI makes up when
        it is given none. ``defer_held`` ends the run with DeferredToolRequests at a call that
        waits for a person, in place of telling the model so: it is made again when the run
        goes on with DeferredToolResults, and waits again unless the sidecar was told to
        allow it. ``fields`` are those of execute_tools."""
        self._defers = defer_held
        self._calls = Calls(client, {"profile": profile, **fields})
        self._conversation = conversation_id
        self._id = id
        self._tools: dict[str, pb.Tool] | None = None
        self._own = Own(client, self._calls, effects, worker, (CallDeferred, ApprovalRequired), fails_cleanly=fails_cleanly)
        if isinstance(functions, AbstractToolset):
            self._functions: AbstractToolset[AgentDepsT] = functions
        else:
            self._functions = FunctionToolset(list(functions))

    @property
    def id(self) -> str:
        return self._id

    async def refresh(self) -> None:
        """Asks the sidecar for its tools."""
        self._tools = {tool.name: tool for tool in await self._calls.tools_async()}

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        own = await self._functions.get_tools(ctx)
        self._own.declare([_declared(tool.tool_def) for name, tool in own.items() if name not in self._own])
        if own:
            await self._own.start_async()
        if self._tools is None:
            await self.refresh()
        ours = {name: self._tool(tool) for name, tool in (self._tools or {}).items() if name not in self._own.names()}
        return {**ours, **{name: self._function(tool) for name, tool in own.items()}}

    def _function(self, tool: ToolsetTool[AgentDepsT]) -> ToolsetTool[AgentDepsT]:
        return _Function(toolset=self, tool_def=tool.tool_def, max_retries=tool.max_retries, args_validator=_Unchecked(), own=tool)

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        return self._with(await self._functions.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        return self._with(await self._functions.for_run_step(ctx))

    def _with(self, functions: AbstractToolset[AgentDepsT]) -> SidecallToolset[AgentDepsT]:
        if functions is self._functions:
            return self
        other = copy.copy(self)
        other._functions = functions
        return other

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> Any:
        return await self._functions.get_instructions(ctx)

    async def __aenter__(self) -> Self:
        await self._functions.__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> bool | None:
        return await self._functions.__aexit__(*args)

    def _tool(self, tool: pb.Tool) -> ToolsetTool[AgentDepsT]:
        definition = ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=schema(tool))
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=0, args_validator=_Unchecked())

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        given = tool_args.json if isinstance(tool_args, _Text) else tool_args
        call, ids = Call(ctx.tool_call_id or "", name, given), self._ids(ctx)
        returned: list[Any] = []

        async def body() -> Any:
            own = tool.own if isinstance(tool, _Function) else tool
            try:
                returned.append(await self._functions.call_tool(name, _checked(own, given, ctx), ctx, own))
            except (ModelRetry, ToolFailed) as e:
                raise Failure(str(e)) from e
            return _said(returned[-1])

        result = await (self._own.run_async(call, ids, body) if isinstance(tool, _Function) else self._calls.run_async(call, ids))
        if self._defers and result.HasField("hold"):
            raise ApprovalRequired(metadata={**ids, "hold": about(result)["hold"]})
        if result.stop:
            ctx.cancel()
        if result.is_error:
            raise ToolFailed(text(result))
        if returned and isinstance(returned[-1], ToolReturn) and not result.replayed:
            return ToolReturn(_returned(result), content=returned[-1].content, metadata=returned[-1].metadata)
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


@dataclass(kw_only=True)
class _Function(ToolsetTool[AgentDepsT]):
    """A function of the agent's own."""

    own: ToolsetTool[AgentDepsT]


def _declared(tool: ToolDefinition) -> Declared:
    return Declared(tool.name, tool.description or "", tool.parameters_json_schema)


def _checked(tool: ToolsetTool[AgentDepsT], given: Any, ctx: RunContext[AgentDepsT]) -> dict[str, Any]:
    """The arguments as the function takes them; the sidecar has found no fault with them."""
    check = tool.args_validator
    try:
        if isinstance(given, str):
            return cast("dict[str, Any]", check.validate_json(given or "{}", context=ctx.validation_context))
        return cast("dict[str, Any]", check.validate_python(given, context=ctx.validation_context))
    except ValueError as e:
        raise Failure(f"the arguments cannot be read: {e}", code="INVALID_ARGS", not_run=True) from e


def _said(returned: Any) -> Any:
    """What a function has returned, as the sidecar takes it."""
    value = returned.return_value if isinstance(returned, ToolReturn) else returned
    parts = value if isinstance(value, list) else [value]
    pictures = [part for part in parts if isinstance(part, BinaryContent)]
    if pictures and all(isinstance(part, (str, BinaryContent)) for part in parts):
        blocks = [pb.ContentBlock(type="image", data=part.data, mime_type=part.media_type) for part in pictures]
        return Reply("\n\n".join(part for part in parts if isinstance(part, str)), blocks=blocks)
    return value if isinstance(value, str) else Reply(structured=to_jsonable_python(value))


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
    words = text(result, PICTURES)
    pictures = [block for block in result.blocks if block.data and block.mime_type in PICTURES]
    shown = [BinaryContent(block.data, media_type=block.mime_type) for block in pictures]
    return [*([words] if words else []), *shown] if shown else words
