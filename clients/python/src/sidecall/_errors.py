"""What a program may have to handle. A tool that fails is none of it: that is a
result, for the model."""

from __future__ import annotations

from typing import Any


class SidecallError(Exception):
    """Everything that this package raises by itself. ``grpc.RpcError`` comes
    beside it: then the sidecar has refused a request."""


class WrongField(SidecallError, ValueError):
    """A field of a request that is not what the contract has. Nothing was sent.
    ``field`` says which one, such as calls[2].arguments."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field


class WrongMessage(SidecallError, ValueError):
    """A message that is none of an assistant by a provider that is known here.
    Nothing was sent."""


class BrokenAnswer(SidecallError):
    """The results of a batch do not belong to its calls: what answers is no
    sidecar of this contract."""


class StaleConversation(SidecallError):
    """Somebody else has appended to the conversation, or has run a call that the messages
    say was not run, and nothing was appended now. ``version`` is how many messages it
    has; resume loads them, and makes what calls are left."""

    def __init__(self, why: str, version: int) -> None:
        super().__init__(why)
        self.version = version


class SidecarAway(SidecallError, ConnectionError):
    """The sidecar cannot be reached, or is about to end, and has been for as long as the
    client's patience. What was sent may have been begun: the same calls with the same ids
    may be sent again, and only those. The cause is the ``grpc.RpcError``."""


class ClientClosed(SidecallError):
    """The client was closed, and sends nothing more. What it had sent may have been begun: the
    same calls with the same ids may be sent again by another, and only those."""

    def __init__(self) -> None:
        super().__init__(
            "the client is closed: make another, and send the same calls with the same ids, since what was sent may have been begun"
        )


class LaunchFailed(SidecallError):
    """The sidecar's program cannot be found or started, or it has ended."""


class UnsafeSocket(SidecallError):
    """A unix socket that other users of the machine may open, or may have made."""


class WrongTool(SidecallError, TypeError):
    """A function that cannot be a tool as it stands: its types give no schema, its
    name is taken, there is no such effect. Nothing of it is registered."""


class WorkerRefused(SidecallError):
    """The sidecar does not take a worker's functions, and says why; none of them is
    registered then. ``code`` is the grpc.StatusCode."""

    def __init__(self, why: str, code: Any = None) -> None:
        super().__init__(why)
        self.code = code
