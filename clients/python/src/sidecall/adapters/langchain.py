"""Sidecall in LangChain and LangGraph.

    agent = create_agent(model, middleware=[SidecallMiddleware(s)], checkpointer=...)
    agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "c-1"}})

or, in a graph of your own,

    graph.add_node("tools", ToolNode(tools(s)))

What a call is known by: the model's id of the call, the graph's thread_id
(conversation), the id of the AIMessage (turn) and that of the user's last message
(prompt). A checkpointer keeps all four, so a tool node that runs again after an
interrupt, a crash or a fork runs nothing twice: each call is answered from its record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as as_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall
from sidecall._context import Failure, Reply
from sidecall._errors import WrongField
from sidecall._refused import cut_short
from sidecall._request import Call
from sidecall._worker import Clean, Effect, Worker
from sidecall.adapters._calls import Calls, about, identity, schema, text
from sidecall.adapters._own import Body, Declared, Own
from sidecall.adapters._shown import PICTURES, pictures_of
from sidecall.v1 import tool_service_pb2 as pb

#: Gives the id of the conversation from the config of a run.
Conversation = str | Callable[[RunnableConfig], str]


class SidecallMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Gives an agent the sidecar's tools and runs their calls through it. ``functions``
    of the agent's own are given to it too, and run through the sidecar, which needs a
    worker backend for that; other tools of the agent stay what they are.

    It also answers what LangChain drops: calls of tools that do not exist, and calls
    whose arguments are no JSON, so that the model learns what to correct. When the
    sidecar says stop, the agent ends."""

    def __init__(
        self,
        client: Sidecall | AsyncSidecall,
        *,
        conversation_id: Conversation | None = None,
        profile: str | None = None,
        listed: Sequence[pb.Tool] | None = None,
        functions: Sequence[BaseTool | Callable[..., Any]] = (),
        effects: Mapping[str, Effect] | None = None,
        fails_cleanly: Mapping[str, Clean] | None = None,
        worker: Worker | None = None,
        interrupt_held: bool = False,
        **fields: Any,
    ) -> None:
        """``conversation_id`` stands for the thread_id in graphs that have none.
        ``effects`` are those of functions by their names: unsaid, a call must not be
        repeated; ``worker`` has settings of the worker that they are. In a graph of your
        own, ToolNode(middleware.tools, wrap_tool_call=middleware.wrap_tool_call,
        awrap_tool_call=middleware.awrap_tool_call) runs them. ``listed`` are the sidecar's tools, which are asked for now when they are not
        given: with an AsyncSidecall, await client.list_tools() for them. ``interrupt_held``
        interrupts the graph at a call that waits for a person, in place of telling the model
        so: resumed, the call is made again, with its id. ``fields`` are those of
        execute_tools."""
        super().__init__()
        self._door = _Door(client, conversation_id, {"profile": profile, **fields}, interrupt_held)
        own = [f if isinstance(f, BaseTool) else as_tool(f) for f in functions]
        self._own = Own(client, self._door.calls, effects, worker, (GraphBubbleUp,), fails_cleanly=fails_cleanly)
        self._own.declare([Declared(tool.name, tool.description, _parameters(tool)) for tool in own])
        self._own.check_names()
        if own and listed is None:
            self._own.start()
        found = self._door.calls.tools() if listed is None else listed
        self.tools = [*(_tool(self._door, tool) for tool in found if tool.name not in self._own.names()), *own]
        self._names = self._door.names = {tool.name for tool in self.tools}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        if not self._is_ours(request):
            return handler(request)
        if request.tool_call["name"] not in self._own:
            return self._door.run(_Asked.of(request))
        ran = _Ran(request, handler)
        return ran.answer(self._door.run(_Asked.of(request), ran.run, self._own))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        if not self._is_ours(request):
            return await handler(request)
        if request.tool_call["name"] not in self._own:
            return await self._door.run_async(_Asked.of(request))
        ran = _Ran(request, handler)
        return ran.answer(await self._door.run_async(_Asked.of(request), ran.run_async, self._own))

    def _is_ours(self, request: ToolCallRequest) -> bool:
        """Whether the sidecar runs it. A name that nobody knows is for it to explain."""
        return request.tool is None or request.tool_call["name"] in self._names

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return _go_on(state, [self._door.run(asked) for asked in _unreadable(state)])

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return _go_on(state, [await self._door.run_async(asked) for asked in _unreadable(state)])

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return {"jump_to": "end"} if _told_to_stop(state) else None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return self.before_model(state, runtime)


def tools(
    client: Sidecall | AsyncSidecall,
    *,
    conversation_id: Conversation | None = None,
    profile: str | None = None,
    listed: Sequence[pb.Tool] | None = None,
    interrupt_held: bool = False,
    **fields: Any,
) -> list[BaseTool]:
    """The sidecar's tools as LangChain's, for a ToolNode or any agent that runs
    BaseTools. They are to be called by tool calls, which have an id. The arguments are
    those of SidecallMiddleware."""
    door = _Door(client, conversation_id, {"profile": profile, **fields}, interrupt_held)
    found: list[BaseTool] = [_tool(door, tool) for tool in (door.calls.tools() if listed is None else listed)]
    door.names = {tool.name for tool in found}
    return found


@dataclass(frozen=True)
class _Asked:
    """A tool call, and what is around it."""

    id: str | None
    name: str
    arguments: Any
    config: RunnableConfig
    messages: Sequence[Any]

    @classmethod
    def of(cls, request: ToolCallRequest) -> _Asked:
        call = request.tool_call
        return cls(call["id"], call["name"], call["args"], request.runtime.config, _messages(request.state))

    def turn(self) -> AIMessage | None:
        """The message that made the call."""
        for message in reversed(self.messages):
            if isinstance(message, AIMessage) and any(
                call["id"] == self.id for call in [*message.tool_calls, *message.invalid_tool_calls]
            ):
                return message
        return None

    def made(self, turn: AIMessage | None, names: Set[str]) -> int:
        """How many calls with these names of the same message are run at once: those that
        have no result yet, and no more than the graph runs."""
        answered = {message.tool_call_id for message in self.messages if isinstance(message, ToolMessage)}
        made = sum(call["name"] in names and call["id"] not in answered for call in turn.tool_calls) if turn else 1
        return min(made, self.config.get("max_concurrency") or made)

    def prompt(self) -> str | None:
        said = (message.id for message in reversed(self.messages) if isinstance(message, HumanMessage))
        return next(said, None)


class _Door:
    """Where LangChain's calls become the sidecar's, and results ToolMessages."""

    def __init__(
        self, client: Sidecall | AsyncSidecall, conversation_id: Conversation | None, fields: Mapping[str, Any], interrupts: bool
    ) -> None:
        self.calls = Calls(client, fields)
        #: Of the tools whose calls come here.
        self.names: Set[str] = frozenset()
        self._conversation = conversation_id
        self._interrupts = interrupts

    def run(self, asked: _Asked, body: Body | None = None, own: Own | None = None) -> ToolMessage:
        turn = asked.turn()
        call, ids = self._call(asked, turn)
        result = _cut(call, turn)
        while result is None or self._waits(asked, ids, result):
            result = self.calls.run([call], ids)[0] if own is None or body is None else own.run(call, ids, body)
        return _message(asked, result)

    async def run_async(self, asked: _Asked, body: Body | None = None, own: Own | None = None) -> ToolMessage:
        turn = asked.turn()
        call, ids = self._call(asked, turn)
        result = _cut(call, turn)
        while result is None or self._waits(asked, ids, result):
            made = asked.made(turn, self.names)
            result = await (self.calls.run_async(call, ids, made) if own is None or body is None else own.run_async(call, ids, body, made))
        return _message(asked, result)

    def _waits(self, asked: _Asked, ids: Mapping[str, Any], result: pb.ExecuteToolResponse) -> bool:
        """Whether a call is to be made again, because the graph was interrupted for it and is
        resumed: LangGraph runs a node from its start, so it has been made once more by then."""
        if not self._interrupts or not result.HasField("hold"):
            return False
        interrupt({"tool_name": asked.name, "tool_use_id": asked.id, "arguments": asked.arguments, **ids, "hold": about(result)["hold"]})
        return True

    def _call(self, asked: _Asked, turn: AIMessage | None) -> tuple[Call, dict[str, Any]]:
        if asked.id is None:
            raise WrongField("tool_call_id", "call this tool with a tool call of the model, which has an id, and not with bare arguments")
        conversation = self._conversation
        if conversation is None:
            conversation = asked.config.get("configurable", {}).get("thread_id")
        elif callable(conversation):
            conversation = conversation(asked.config)
        return Call(asked.id, asked.name, asked.arguments), {
            "conversation_id": identity(conversation, 'invoke it with {"configurable": {"thread_id": ...}}, or give conversation_id='),
            "turn_id": (turn.id or turn.response_metadata.get("id")) if turn else None,
            "prompt_id": asked.prompt(),
        }


class _Ran:
    """A call of a function of the agent's own, and what its tool returned, which may
    be more than a record can hold."""

    def __init__(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> None:
        self._request = request
        self._handler = handler
        self._returned: ToolMessage | Command[Any] | None = None

    def run(self) -> Any:
        return self._said(self._handler(self._request))

    async def run_async(self) -> Any:
        return self._said(await self._handler(self._request))

    def _said(self, returned: ToolMessage | Command[Any]) -> Any:
        """What the model is told of it."""
        self._returned = returned
        if isinstance(returned, Command):
            told = [m for m in _messages(returned.update) if isinstance(m, ToolMessage)]
            return Reply("\n\n".join(m.text for m in told) or "Done.")
        pictures = _pictures(returned)
        # Blocks of other kinds are for the model as they are.
        known = {"text", "image"} if pictures else {"text"}
        strange = [b for b in returned.content if not isinstance(b, str) and b.get("type") not in known]
        words = json.dumps(returned.content, ensure_ascii=False) if strange else returned.text
        if returned.status == "error":
            raise Failure(words)
        return Reply(words, blocks=[] if strange else pictures)

    def answer(self, message: ToolMessage) -> ToolMessage | Command[Any]:
        """The sidecar's answer, with what the tool has for the program when it has run
        just now."""
        if message.artifact["sidecall"].get("replayed") or message.status == "error":
            return message
        if isinstance(self._returned, Command):
            return self._returned
        kept = self._returned.artifact if self._returned is not None else None
        if kept is not None:
            message.artifact = {**(kept if isinstance(kept, dict) else {"artifact": kept}), **message.artifact}
        return message


def _pictures(message: ToolMessage) -> list[pb.ContentBlock]:
    found = []
    for block in message.content:
        if isinstance(block, dict) and block.get("type") == "image" and isinstance(block.get("base64"), str):
            data = base64.b64decode(block["base64"])
            found.append(pb.ContentBlock(type="image", data=data, mime_type=block.get("mime_type", "")))
    return found


def _parameters(tool: BaseTool) -> Mapping[str, Any]:
    """The schema of what a model gives a tool."""
    parameters: Mapping[str, Any] = convert_to_openai_tool(tool)["function"]["parameters"]
    return parameters


#: The name under which a ToolNode gives a tool what is around its call. A model cannot
#: forge it: ToolNode takes it out of the arguments.
_RUNTIME = "sidecall_runtime"


class _SidecallTool(BaseTool):
    """A registered tool. Its arguments are the sidecar's to check, and its answer is a
    whole ToolMessage."""

    door: Any

    def func(self, sidecall_runtime: ToolRuntime) -> None:
        """Never called: ToolNode looks here for what it is to hand over."""

    @property
    def _injected_args_keys(self) -> frozenset[str]:
        return frozenset((_RUNTIME,))  # no argument, so traces have none of it

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = dict(tool_input) if isinstance(tool_input, dict) else tool_input
        runtime = arguments.pop(_RUNTIME, None) if isinstance(arguments, dict) else None
        return (tool_call_id, arguments, runtime), {}

    def _run(self, id: str | None, arguments: Any, runtime: ToolRuntime | None, config: RunnableConfig) -> ToolMessage:
        answer: ToolMessage = self.door.run(_Asked(id, self.name, arguments, config, _messages(runtime and runtime.state)))
        return answer

    async def _arun(self, id: str | None, arguments: Any, runtime: ToolRuntime | None, config: RunnableConfig) -> ToolMessage:
        answer: ToolMessage = await self.door.run_async(
            _Asked(id, self.name, arguments, config, _messages(runtime and runtime.state))
        )
        return answer


def _tool(door: _Door, tool: pb.Tool) -> _SidecallTool:
    return _SidecallTool(name=tool.name, description=tool.description, args_schema=schema(tool), door=door)


def _messages(state: Any) -> Sequence[Any]:
    """The messages in the state of a graph."""
    if isinstance(state, Mapping):
        state = state.get("messages")
    elif not isinstance(state, list):
        state = getattr(state, "messages", None)
    return state if isinstance(state, list) else ()


def _message(asked: _Asked, result: pb.ExecuteToolResponse) -> ToolMessage:
    content: Any = text(result, PICTURES)
    shown = [{"type": "image", "base64": data, "mime_type": kind} for kind, data in pictures_of(result)]
    if shown:
        content = [*([{"type": "text", "text": content}] if content else []), *shown]
    return ToolMessage(
        content,
        tool_call_id=asked.id,
        name=asked.name,
        status="error" if result.is_error else "success",
        artifact={"sidecall": about(result)},
    )


def _cut(call: Call, turn: AIMessage | None) -> pb.ExecuteToolResponse | None:
    """The answer to a call of a message that ends early, which is not run."""
    about = turn.response_metadata if turn else {}
    reason = about.get("stop_reason") or about.get("finish_reason")
    incomplete = about.get("incomplete_details") or {}
    return cut_short(call, str(incomplete.get("reason") or reason or ""))


def _unreadable(state: AgentState[Any]) -> list[_Asked]:
    """The calls of the last message whose arguments are no JSON."""
    messages = state["messages"]
    last = messages[-1] if messages else None
    if not isinstance(last, AIMessage):
        return []
    config = get_config()
    return [_Asked(c["id"], c["name"] or "", c["args"], config, messages) for c in last.invalid_tool_calls if c["id"]]


def _go_on(state: AgentState[Any], answers: list[ToolMessage]) -> dict[str, Any] | None:
    """Lets the model correct what it has called, when nothing else is to be run."""
    if not answers:
        return None
    last = state["messages"][-1]
    more = isinstance(last, AIMessage) and last.tool_calls
    return {"messages": answers, **({} if more else {"jump_to": "model"})}


def _told_to_stop(state: AgentState[Any]) -> bool:
    for message in reversed(state["messages"]):
        if not isinstance(message, ToolMessage):
            return False
        about = message.artifact.get("sidecall") if isinstance(message.artifact, dict) else None
        if about and about.get("stop"):
            return True
    return False
