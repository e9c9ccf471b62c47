"""An MCP client, of the official SDK, that pays twice under one id and makes what mistakes there are.

usage: mcpclient.py MODE (URL | COMMAND ARGUMENT...)

MODE is that of mcp.Client. It prints a line of JSON.
"""

import asyncio
import json
import sys
from typing import Any

from mcp import Client, MCPError, StdioServerParameters, types


def named(id: str) -> Any:
    return {"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c-1"}


def told(result: types.CallToolResult) -> dict[str, Any]:
    return {
        "text": "".join(block.text for block in result.content if isinstance(block, types.TextContent)),
        "is_error": bool(result.is_error),
        "structured": result.structured_content,
        "replayed": (result.meta or {}).get("dev.sidecall/replayed", False),
    }


async def main() -> None:
    mode, *to = sys.argv[1:]
    server: Any = to[0] if to[0].startswith("http") else StdioServerParameters(command=to[0], args=to[1:])
    asked: list[str] = []

    async def decline(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="decline")

    async with Client(server, mode=mode, elicitation_callback=decline) as client:  # type: ignore[arg-type]
        said: dict[str, Any] = {"revision": client.protocol_version}
        said["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
        said["paid"] = told(await client.call_tool("pay", {"cents": 5}, meta=named("t-1")))
        said["again"] = told(await client.call_tool("pay", {"cents": 5}, meta=named("t-1")))
        said["wrong"] = told(await client.call_tool("pay", {"cents": "many"}, meta=named("t-2")))
        said["held"] = told(await client.call_tool("pay", {"cents": 500}, meta=named("t-3")))
        said["asked"] = asked
        try:
            await client.call_tool("pya", {}, meta=named("t-4"))
        except MCPError as error:
            said["unknown"] = {"code": error.code, "data": error.data}
    print(json.dumps(said))


asyncio.run(main())
