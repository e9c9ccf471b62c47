"""The MCP client of OpenAI's Agents SDK, which pays twice under one id.

usage: mcpagents.py (URL | COMMAND ARGUMENT...)

It prints a line of JSON.
"""

import asyncio
import json
import sys

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp


async def main() -> None:
    to = sys.argv[1:]
    server: MCPServerStdio | MCPServerStreamableHttp = (
        MCPServerStreamableHttp({"url": to[0]}) if to[0].startswith("http") else MCPServerStdio({"command": to[0], "args": to[1:]})
    )
    meta = {"dev.sidecall/toolUseId": "t-1", "dev.sidecall/conversationId": "c-1"}
    async with server:
        tools = sorted(tool.name for tool in await server.list_tools())
        paid = [await server.call_tool("pay", {"cents": 5}, meta=meta) for _ in range(2)]
    print(json.dumps({"tools": tools, "texts": [result.content[0].text for result in paid]}))


asyncio.run(main())
