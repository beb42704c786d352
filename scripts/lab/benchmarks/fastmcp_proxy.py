"""FastMCP's proxy: fastmcp_proxy.py [--port PORT] COMMAND ARGUMENT..., over HTTP at that port, else on stdio.

Run by the peers' Python. The client is connected beforehand, so that one session serves all calls: by
default FastMCP starts a new child for each, which would be no contest.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main() -> None:
    """Serve until standard input ends, or until it is told to stop."""
    command, port = sys.argv[1:], None
    if command[0] == "--port":
        port, command = int(command[1]), command[2:]
    async with Client(StdioTransport(command[0], command[1:])) as client:
        proxy = create_proxy(client, name="proxy")
        if port is None:
            await proxy.run_stdio_async(show_banner=False, log_level="ERROR")
        else:
            await proxy.run_http_async(show_banner=False, log_level="ERROR", host="127.0.0.1", port=port)


asyncio.run(main())
