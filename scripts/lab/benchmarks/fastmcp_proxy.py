"""FastMCP's proxy on standard streams: fastmcp_proxy.py COMMAND ARGUMENT...

Run by the peers' Python. The client is connected beforehand, so that one session serves all calls: by
default FastMCP starts a new child for each, which would be no contest.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main() -> None:
    """Serve until standard input ends."""
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:])) as client:
        await create_proxy(client, name="proxy").run_stdio_async(show_banner=False, log_level="ERROR")


asyncio.run(main())
