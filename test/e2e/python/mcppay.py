"""An MCP server on stdio, of the official SDK, whose one tool takes a payment at a URL.

usage: mcppay.py URL
"""

import sys
import urllib.request

from mcp.server import MCPServer

server = MCPServer("till")


@server.tool(structured_output=False)
def pay(cents: int) -> str:
    """Takes a payment."""
    with urllib.request.urlopen(sys.argv[1], str(cents).encode()) as said:
        return said.read().decode()


server.run()
