"""A client that waits, awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from sidecall._aio import AsyncSidecall
from sidecall._client import Sidecall


class Awaited(AsyncSidecall):
    """The asyncio side of a Sidecall: no thread waits, any event loop may use it, and
    a task that is cancelled cancels its request. Closing is the Sidecall's."""

    def __init__(self, client: Sidecall) -> None:
        self._target = client._target
        self._patience = client._patience
        self.stub = _Stub(client.stub)
        self.conversations = _Stub(client.conversations)
        self._launched = client._launched
        self._id = client._id
        self._closed = client._closed


class _Stub:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        begin = getattr(self._stub, method).future

        async def call(request: Any, **options: Any) -> Any:
            rpc: Any = begin(request, **options)
            loop = asyncio.get_running_loop()
            over = asyncio.Event()

            def ended(_: Any) -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(over.set)

            rpc.add_done_callback(ended)
            try:
                await over.wait()
            finally:
                rpc.cancel()  # of no consequence when it has ended
            return rpc.result()

        return call
