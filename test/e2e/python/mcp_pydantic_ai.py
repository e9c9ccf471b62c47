"""PydanticAI; see mcpagents.py."""

import json
from typing import Any

from fastmcp.client.transports import StdioTransport
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from mcpagents import PAID, RIGHT, main, meta, played, seen


async def named(ctx: Any, call: Any, name: str, arguments: dict[str, Any]) -> Any:
    return await call(name, arguments, metadata=meta(ctx.tool_call_id))


async def run(to: list[str]) -> dict[str, Any]:
    server = to[0] if to[0].startswith("http") else StdioTransport(to[0], to[1:])
    # Its five seconds for a server to start are a clock of its own, which a busy machine's wrapper and server may pass.
    toolset: MCPToolset[None] = MCPToolset(server, process_tool_call=named, init_timeout=60)
    with played() as provider:
        async with AsyncOpenAI(base_url=provider.url + "/v1", api_key="none", max_retries=0) as client:
            model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
            async with Agent(model, toolsets=[toolset]) as agent:
                await agent.run("Pay.")
                again = await toolset.direct_call_tool("pay", RIGHT, metadata=meta(PAID))
    return seen(provider, json.dumps(again, separators=(",", ":")))


main(run)
