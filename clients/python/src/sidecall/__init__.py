"""The Python client of a sidecar: a thin layer over the generated stubs.

With a provider's SDK, one call between two turns:

    with sidecall.Sidecall.launch("sidecall.yaml") as s:
        message = client.messages.create(..., tools=s.tools("anthropic"))
        messages.append({"role": "assistant", "content": message.content})
        messages += s.run_tools(message, conversation_id=conversation, prompt_id=prompt)

Or without one, calls and their results:

    results = s.execute_tools(
        [Call(c.id, c.name, c.arguments) for c in calls], conversation_id=conversation, turn_id=turn)

AsyncSidecall is the same for asyncio.

A tool that fails raises nothing: the result says so (``is_error``, ``error``
with the five fields, ``recovery``) and its ``content`` is ready for the model.
``grpc.RpcError`` is for the program; after any of them the same calls may be
sent again with the same ids, and only with them: what is recorded is replayed,
and what must not be repeated is not run a second time. A ``SidecallError`` is for
the program too, and says in one sentence what is wrong.
"""

from __future__ import annotations

from sidecall._aio import AsyncSidecall
from sidecall._channel import DEFAULT_TARGET, MAX_RESPONSE_BYTES
from sidecall._client import Sidecall
from sidecall._errors import BrokenAnswer, LaunchFailed, SidecallError, UnsafeSocket, WrongField, WrongMessage
from sidecall._messages import Format, Message, ToolMessages
from sidecall._request import Call
from sidecall._session import Loop
from sidecall.v1 import tool_service_pb2 as pb

__all__ = [
    "DEFAULT_TARGET",
    "MAX_RESPONSE_BYTES",
    "AsyncSidecall",
    "BrokenAnswer",
    "Call",
    "Format",
    "LaunchFailed",
    "Loop",
    "Message",
    "Result",
    "Sidecall",
    "SidecallError",
    "Tool",
    "ToolError",
    "ToolMessages",
    "UnsafeSocket",
    "WrongField",
    "WrongMessage",
    "pb",
]

# The generated messages are the contract, so they are the result types too.
Result = pb.ExecuteToolResponse
Tool = pb.Tool
ToolError = pb.ToolError
