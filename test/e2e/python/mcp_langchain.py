"""LangChain's adapters, which say no id; see mcpagents.py."""

from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient

from mcpagents import RIGHT, WRONG, main


async def run(to: list[str]) -> dict[str, Any]:
    http = to[0].startswith("http")
    server: Any = {"url": to[0], "transport": "http"} if http else {"command": to[0], "args": to[1:], "transport": "stdio"}
    tools = await MultiServerMCPClient({"till": server}).get_tools()
    pay = next(tool for tool in tools if tool.name == "pay")
    # As an agent makes the calls of its model, and what it gets to tell it.
    calls = [{"type": "tool_call", "id": "call_1_0", "name": "pay", "args": arguments} for arguments in (WRONG, RIGHT, RIGHT)]
    return {"tools": sorted(tool.name for tool in tools), "told": [(await pay.ainvoke(call)).text for call in calls]}


main(run)
