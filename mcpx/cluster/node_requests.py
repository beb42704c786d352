"""The gateway's connections to nodes, but for those that carry MCP: each request is a connection of its own.

A node is trusted by its certificate, which all nodes of a cluster share, and by nothing else; it trusts the
gateway by the cluster's token. What a node says is bounded.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import msgspec

from mcpx.cluster.node.protocol import MAX_REPORT_BYTES, FirstAnswer, FirstLine, line_of
from mcpx.cluster.ray_process.protocol import NodeAddress
from mcpx.errors import MCPXError
from mcpx.text import one_line

CONNECT_TIMEOUT_S: Final = 3.0  # a node is in the same network
RESTART_TIMEOUT_S: Final = 60.0  # the node itself waits 30 s for a new session
_ANSWER: Final = msgspec.json.Decoder(FirstAnswer)


class NodeRefused(MCPXError):  # noqa: N818 - a condition
    """A node did not do what it was asked, or could not be reached."""


@asynccontextmanager
async def connection(
    address: NodeAddress, trusted: ssl.SSLContext, *, limit: int = MAX_REPORT_BYTES
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a node; at exit nothing of it is left.

    Raises:
        OSError: It cannot be made.
        TimeoutError: Not in time.
    """
    with anyio.fail_after(CONNECT_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=trusted, server_hostname="", limit=limit
        )
    try:
        yield reader, writer
    finally:
        with suppress(OSError, RuntimeError):
            writer.transport.abort()


def trusting(certificate: str) -> ssl.SSLContext:
    """What a connection needs to be to the holder of that certificate (PEM), and to nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is the cluster's, on whatever machine
    context.load_verify_locations(cadata=certificate)
    return context


async def ask(
    address: NodeAddress,
    trusted: ssl.SSLContext,
    request: FirstLine,
    *,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> FirstAnswer:
    """Have a node do something.

    Raises:
        NodeRefused: It does not, and why.
    """
    try:
        async with connection(address, trusted) as (reader, writer):
            writer.write(line_of(request))
            with anyio.fail_after(timeout_s):
                answer = _ANSWER.decode(await reader.readline())
    except TimeoutError:
        raise NodeRefused("the node does not answer") from None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise NodeRefused(f"the node cannot be asked: {one_line(str(error))}") from None
    if answer.error is not None:
        raise NodeRefused(one_line(answer.error))
    return answer
