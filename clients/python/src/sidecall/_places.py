"""The places of a worker."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import threading


class Places:
    """Places of calls that run, over all streams of a worker, whichever event loops they
    belong to."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._lock = threading.Lock()
        self._waiting: collections.deque[concurrent.futures.Future[None]] = collections.deque()

    async def __aenter__(self) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            mine: concurrent.futures.Future[None] = concurrent.futures.Future()
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancel():  # it has got one meanwhile
                self._give()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._give()

    def _give(self) -> None:
        with self._lock:
            while self._waiting:
                following = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        following.set_result(None)
