"""What the MCP clients of agent frameworks do with each server: an agent pays with wrong arguments, then with
right ones; the payment is then sent once more, under its id where the framework says one.

usage: mcp_FRAMEWORK.py SERVER...

A SERVER is a list in JSON: a URL, or a command with its arguments. For each a line of JSON is printed: the tools,
and what the model was told of each call.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from provider import Provider, Say

WRONG, RIGHT = {"cents": "many"}, {"cents": 5}
#: The provider's id of the payment.
PAID = "call_1_0"


def meta(id: str | None) -> dict[str, Any]:
    return {"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c-1"}


def played() -> Provider:
    return Provider([Say(calls=[("pay", WRONG)]), Say(calls=[("pay", RIGHT)]), Say("Paid.")])


def seen(provider: Provider, again: str) -> dict[str, Any]:
    """What the model has seen, and what came of the payment that was sent again."""
    told = [message["content"] for message in provider.requests[-1][1]["messages"] if message["role"] == "tool"]
    texts = [content if isinstance(content, str) else "".join(part["text"] for part in content) for content in told]
    return {"tools": sorted(tool["function"]["name"] for tool in provider.requests[0][1]["tools"]), "told": [*texts, again]}


def main(run: Callable[[list[str]], Awaitable[dict[str, Any]]]) -> None:
    async def each() -> None:
        for server in sys.argv[1:]:
            print(json.dumps(await run(json.loads(server))))

    asyncio.run(each())
