"""How a client is connected: the channel options that keep the promise "never
twice", and what is done about a sidecar that is away."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import grpc

from sidecall._errors import SidecarAway, UnsafeSocket
from sidecall.v1 import conversation_service_pb2_grpc, tool_service_pb2_grpc, worker_service_pb2_grpc

#: Where a sidecar listens when its config does not say.
DEFAULT_TARGET = "tcp://127.0.0.1:8470"

#: The metadata in which a client says what it calls itself.
CLIENT = "sidecall-client"

#: Bounds one response. A batch of results can be much larger than gRPC's own
#: default of 4 MiB.
MAX_RESPONSE_BYTES = 256 << 20

#: Bounds one message of a conversation that the sidecar keeps.
MAX_MESSAGE_BYTES = 3 << 20

#: How long requests are sent again, in seconds, while a sidecar is away: it is
#: being replaced, say.
PATIENCE = 30.0

OPTIONS: tuple[tuple[str, Any], ...] = (
    # There is one retry layer, and it is in the sidecar.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # A sidecar is next door: never through http_proxy, and back at once when it is.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.max_send_message_length", -1),  # the sidecar is the one to refuse
)


def stubs(channel: Any) -> tuple[Any, Any]:
    """The stubs of the services of tools and of conversations, which have no types of
    their own."""
    tools = tool_service_pb2_grpc.ToolServiceStub(channel)  # type: ignore[no-untyped-call]
    conversations = conversation_service_pb2_grpc.ConversationServiceStub(channel)  # type: ignore[no-untyped-call]
    return tools, conversations


def worker_stub(channel: Any) -> Any:
    """The stub of the service of workers."""
    return worker_service_pb2_grpc.WorkerServiceStub(channel)  # type: ignore[no-untyped-call]


def is_away(error: BaseException) -> TypeGuard[grpc.RpcError]:
    """Whether a sidecar was draining or gone. What was sent may have been begun:
    the same ids, and only they, are safe to send again."""
    return isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE


def away(error: grpc.RpcError, target: str) -> SidecarAway:
    """The same in words for who has to do something about it."""
    return SidecarAway(
        f"the sidecar at {target} does not answer: {error.details()}."
        " Start it (sidecall serve sidecall.yaml), or give the address of one that runs (Sidecall(target));"
        " then send the same calls with the same ids again, and only those: what ran is answered from its record"
    )


def most_bytes(error: grpc.RpcError) -> int | None:
    """How many bytes a request may have, when one was refused for having more: nothing of
    it was begun. None of any other error."""
    trailers: Any = error.trailing_metadata() if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED else None
    return next((int(value) for key, value in trailers or () if key == "sidecall-max-request-bytes"), None)


def pauses(patience: float, now: Callable[[], float]) -> Iterator[float]:
    """The pauses between tries, in seconds, until the patience is at its end."""
    end = now() + patience
    pause = 0.05
    while now() + pause < end:
        yield pause
        pause = min(2 * pause, 1.0)


def check_socket(target: str) -> None:
    """Refuses a unix socket that is open to other users, or is theirs: who can open
    it can call tools, and whoever has made it answers in the sidecar's place."""
    named = re.match("unix:(?://)?(.+)", target)
    if named is None or not hasattr(os, "getuid"):
        return
    path = named[1]
    try:
        found = os.stat(path)
    except OSError:
        return  # connecting will say so
    if found.st_uid not in (0, os.getuid()):
        raise UnsafeSocket(
            f"{path}: this socket is of the user {found.st_uid}, and you are {os.getuid()}: what answers may be no sidecar of yours"
        )
    if found.st_mode & stat.S_IWOTH:
        raise UnsafeSocket(f"{path}: any user of this machine may open this socket and call tools: give it mode 0600")
