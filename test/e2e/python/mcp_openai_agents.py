"""OpenAI's Agents SDK; see mcpagents.py."""

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPToolMetaContext
from openai import AsyncOpenAI

from mcpagents import PAID, RIGHT, main, meta, played, seen


def named(context: MCPToolMetaContext) -> dict[str, Any]:
    return meta(getattr(context.run_context, "tool_call_id", None))


async def run(to: list[str]) -> dict[str, Any]:
    server: MCPServerStdio | MCPServerStreamableHttp = (
        MCPServerStreamableHttp({"url": to[0], "timeout": 60}, tool_meta_resolver=named, client_session_timeout_seconds=60)
        if to[0].startswith("http")
        else MCPServerStdio({"command": to[0], "args": to[1:]}, tool_meta_resolver=named, client_session_timeout_seconds=60)
    )
    with played() as provider:
        async with server, AsyncOpenAI(base_url=provider.url + "/v1", api_key="none", max_retries=0) as client:
            agent = Agent(name="till", model=OpenAIChatCompletionsModel("played", client), mcp_servers=[server])
            await Runner.run(agent, "Pay.", run_config=RunConfig(tracing_disabled=True))
            again = await server.call_tool("pay", RIGHT, meta=meta(PAID))
    return seen(provider, again.content[0].text)


main(run)
