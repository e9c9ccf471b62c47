"""The Python client of a sidecar: a thin layer over the generated stubs.

It adds three things to them and hides nothing: the channel options that keep
the promise "never twice" (nothing between here and the sidecar sends a request
again), a Call in Python's own types, and a check that a batch brought one
result for each call, in order.

    with Client() as sidecall:
        results = sidecall.execute_tools(
            conversation_id=conversation, turn_id=turn,
            calls=[Call(c.id, c.name, c.arguments) for c in message.tool_calls])
        for result in results:
            history.append(tool_result(result.tool_use_id, result.content, result.is_error))

A tool that fails raises nothing: the result says so (``is_error``, ``error``
with the five fields, ``recovery``) and its ``content`` is ready for the model.
``grpc.RpcError`` is for the program; after any of them the same calls may be
sent again with the same ids, and only with them: what is recorded is replayed,
and what must not be repeated is not run a second time. ``WrongField`` is for the
program too, and says before anything is sent which field is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

import grpc

from sidecall._request import Call, WrongField, address, listed, request, seconds, text
from sidecall.v1 import tool_service_pb2 as pb
from sidecall.v1 import tool_service_pb2_grpc as pb_grpc

__all__ = ["DEFAULT_TARGET", "MAX_RESPONSE_BYTES", "BrokenAnswer", "Call", "Client", "Result", "Tool", "ToolError", "WrongField", "pb"]

#: Where a sidecar listens when its config does not say.
DEFAULT_TARGET = "tcp://127.0.0.1:8470"

#: Bounds one response. A batch of results can be much larger than gRPC's own
#: default of 4 MiB.
MAX_RESPONSE_BYTES = 256 << 20

# The generated messages are the contract, so they are the result types too.
Result = pb.ExecuteToolResponse
Tool = pb.Tool
ToolError = pb.ToolError

_CHANNEL_OPTIONS = (
    # There is one retry layer, and it is in the sidecar.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # A sidecar is next door: never through http_proxy.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.max_send_message_length", -1),  # the sidecar is the one to refuse
)


class BrokenAnswer(Exception):
    """The results of a batch do not belong to its calls: what answers is no
    sidecar of this contract."""


class Client:
    """Speaks to one sidecar. Safe for use by several threads; one per process
    is enough. It connects at the first call, and again by itself whenever the
    connection was lost."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """``target`` is tcp://host:port, unix:///path or anything else that
        gRPC resolves. Without credentials the connection is plain text, as on a
        loopback or unix socket it may be. ``options`` come after the client's
        own channel options."""
        at = address(target)
        everything = [*_CHANNEL_OPTIONS, *options]
        if credentials is None:
            self._channel = grpc.insecure_channel(at, options=everything)
        else:
            self._channel = grpc.secure_channel(at, credentials, options=everything)
        #: The generated stub, for what has no method here: GetExecution ("did
        #: it run?") and ReadOutput (pages of an output that was cut;
        #: with the conversation_id of its call).
        self.stub = pb_grpc.ToolServiceStub(self._channel)

    def execute_tool(
        self,
        call: Call,
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> Result:
        """Runs one call; one whose effect must not be repeated at most once per
        (conversation_id, turn_id, tool_use_id). See execute_tools."""
        one = request(call, {"conversation_id": conversation_id, "turn_id": turn_id, **fields})
        return self.stub.ExecuteTool(one, timeout=_wait(rpc_timeout))

    def execute_tools(
        self,
        calls: Sequence[Call],
        *,
        conversation_id: str | int | None = None,
        turn_id: str | int | None = None,
        rpc_timeout: float | timedelta | None = None,
        **fields: Any,
    ) -> list[Result]:
        """Runs the calls of one assistant turn, in parallel where the tools
        allow it, and returns one result per call in the order of the calls.

        ``conversation_id`` and ``turn_id`` are part of each call's identity. The
        former is required, unless the sidecar's ``identity.require`` says
        otherwise. Some providers start their ids again in every turn, so ``turn_id``
        should be something stable such as the turn's index.

        ``fields`` are further fields of ExecuteToolRequest for every call, by
        their names in the contract: ``prompt_id``, ``profile``, ``timeout``
        (seconds or a timedelta), ``validate_only``, ``max_output_chars``,
        ``tokens_used``, ``labels``, ``allow_duplicate_effect``. Integers are taken as ids. ``rpc_timeout``,
        likewise in seconds, is when waiting ends; what is running then is finished
        and recorded by the sidecar.
        """
        if not calls:
            return []
        shared = {"conversation_id": conversation_id, "turn_id": turn_id, **fields}
        sent = [request(c, shared, f"calls[{i}]") for i, c in enumerate(listed(calls))]
        results = list(self.stub.ExecuteTools(pb.ExecuteToolsRequest(calls=sent), timeout=_wait(rpc_timeout)).results)
        got, wanted = [r.tool_use_id for r in results], [c.tool_use_id for c in sent]
        if got != wanted:
            raise BrokenAnswer(f"results of the calls {got} for the calls {wanted}")
        return results

    def list_tools(self, profile: str = "", *, rpc_timeout: float | timedelta | None = None) -> list[Tool]:
        """Lists what a profile may call, sorted by name. A long list comes in pages;
        rpc_timeout bounds each."""
        named = text(profile, "profile")
        tools: list[Tool] = []
        token = ""
        while True:
            page = self.stub.ListTools(pb.ListToolsRequest(profile=named, page_token=token), timeout=_wait(rpc_timeout))
            tools += page.tools
            token = page.next_page_token
            if not token:
                return tools

    def close(self) -> None:
        """Closes the connection. The sidecar finishes and records what it has
        begun."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _wait(rpc_timeout: float | timedelta | None) -> float | None:
    return None if rpc_timeout is None else seconds(rpc_timeout, "rpc_timeout")
