"""The SDK's own server over HTTP, as a user writes one: sdk_server.py PORT. It offers `echo(text)`."""

import sys

from mcp.server import MCPServer

server = MCPServer("echo", log_level="ERROR")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Give the text back."""
    return text


server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
