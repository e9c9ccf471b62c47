"""The Python client of a sidecar: a thin layer over the generated stubs.

With a provider's SDK, one call between two turns:

    with sidecall.Sidecall.launch("sidecall.yaml") as s:
        message = client.messages.create(..., tools=s.tools("anthropic"))
        messages.append({"role": "assistant", "content": message.content})
        messages += s.run_tools(message, conversation_id=conversation, prompt_id=prompt)

Or without one, calls and their results:

    results = s.execute_tools(
        [Call(c.id, c.name, c.arguments) for c in calls], conversation_id=conversation, turn_id=turn)

Functions of this program are tools too, when the sidecar has a worker backend:

    @s.tool(effect="keyed")
    def refund(order_id: str, cents: int, context: sidecall.Context) -> str:
        "Refund an order."
        return bank.refund(context.idempotency_key, order_id, cents)

    with s.work():
        ...

AsyncSidecall is the same for asyncio.

A tool that fails raises nothing: the result says so (``is_error``, ``error``
with the five fields, ``recovery``) and its ``content`` is ready for the model.
``grpc.RpcError`` is for the program, and so is ``SidecarAway``; after any of them the
same calls may be sent again with the same ids, and only with them: what is recorded is
replayed, and what must not be repeated is not run a second time. Every ``SidecallError``
is for the program, and says in one sentence what is wrong.
"""

from __future__ import annotations

from sidecall._aio import AsyncSidecall
from sidecall._channel import DEFAULT_TARGET, MAX_RESPONSE_BYTES
from sidecall._client import Sidecall
from sidecall._context import Context, Failure, Reply
from sidecall._conversation import AsyncConversation, Conversation
from sidecall._errors import (
    BrokenAnswer,
    ClientClosed,
    LaunchFailed,
    SidecallError,
    SidecarAway,
    StaleConversation,
    UnsafeSocket,
    WorkerRefused,
    WrongField,
    WrongMessage,
    WrongTool,
)
from sidecall._messages import Format, Message, ToolMessages
from sidecall._request import Call
from sidecall._session import Loop
from sidecall._work import AsyncWork, Work
from sidecall._worker import Effect, Worker
from sidecall.v1 import tool_service_pb2 as pb

__all__ = [
    "DEFAULT_TARGET",
    "MAX_RESPONSE_BYTES",
    "AsyncConversation",
    "AsyncSidecall",
    "AsyncWork",
    "BrokenAnswer",
    "Call",
    "ClientClosed",
    "Context",
    "Conversation",
    "Effect",
    "Failure",
    "Format",
    "LaunchFailed",
    "Loop",
    "Message",
    "Reply",
    "Result",
    "Sidecall",
    "SidecallError",
    "SidecarAway",
    "StaleConversation",
    "Tool",
    "ToolError",
    "ToolMessages",
    "UnsafeSocket",
    "Work",
    "Worker",
    "WorkerRefused",
    "WrongField",
    "WrongMessage",
    "WrongTool",
    "pb",
]

# The generated messages are the contract, so they are the result types too.
Result = pb.ExecuteToolResponse
Tool = pb.Tool
ToolError = pb.ToolError
