"""An agent whose conversation the sidecar keeps: it begins it, or goes on with it, and
prints how it has ended and what is kept.

usage: kept.py sync|async TARGET PROVIDER FORMAT
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from typing import Any

from sidecall import AsyncSidecall, Sidecall

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "openai-responses": "/v1/responses"}
HELLO = [{"role": "user", "content": "Pay."}]

way, target, url, form = sys.argv[1:]


def ask(messages: list[Any]) -> Any:
    field = "input" if form == "openai-responses" else "messages"
    body = json.dumps({"model": "played", "max_tokens": 100, field: messages}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + PATHS[form], body)) as answer:
        return json.load(answer)


def tell(loop: Any, kept: Any) -> None:
    print(json.dumps({"reason": loop.exit_reason, "turns": loop.turns, "texts": kept.texts}))


def waiting() -> None:
    with Sidecall(target) as s:
        kept = s.conversation("c-1", form)
        tell(s.run_loop(ask, () if kept.texts else HELLO, keep=kept), kept)


async def awaiting() -> None:
    async with AsyncSidecall(target) as s:
        kept = await s.conversation("c-1", form)
        tell(await s.run_loop(lambda m: asyncio.to_thread(ask, m), () if kept.texts else HELLO, keep=kept), kept)


waiting() if way == "sync" else asyncio.run(awaiting())
