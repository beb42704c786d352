"""The gateway's connections to nodes, but for those that carry MCP: each request is a connection of its own.

A node is trusted by its certificate, which all nodes of a cluster share, and by nothing else; it trusts the
gateway by the cluster's token. What a node says is bounded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import msgspec

from mcpx.cluster.node.protocol import MAX_LOG_BYTES, FirstAnswer, FirstLine, line_of
from mcpx.cluster.ray_process.protocol import NodeAddress
from mcpx.core.text import one_line
from mcpx.core.wire.first_answer import answer_to
from mcpx.core.wire.tls_channel import TlsChannel, connect_tls
from mcpx.errors import MCPXError

CONNECT_TIMEOUT_S: Final = 3.0  # a node is in the same network
ANSWER_TIMEOUT_S: Final = 5.0
RESTART_TIMEOUT_S: Final = 60.0  # the node itself waits 30 s for a new session
MAX_ANSWER_BYTES: Final = 2 * MAX_LOG_BYTES  # with what JSON adds to the lines of a log
_ANSWER: Final = msgspec.json.Decoder(FirstAnswer)


class NodeRefused(MCPXError):  # noqa: N818 - a condition
    """A node did not do what it was asked, or could not be reached."""


@asynccontextmanager
async def connection(address: NodeAddress, certificate: str) -> AsyncIterator[TlsChannel]:
    """A connection to a node; at exit nothing of it is left.

    Raises:
        OSError: It cannot be made, or not in time.
    """
    channel = await connect_tls(address.host, address.port, certificate, timeout=CONNECT_TIMEOUT_S)
    try:
        yield channel
    finally:
        channel.close()


async def ask(
    address: NodeAddress, certificate: str, request: FirstLine, *, answer_s: float = ANSWER_TIMEOUT_S
) -> FirstAnswer:
    """Have a node do something, which may take `answer_s` seconds.

    Raises:
        NodeRefused: It does not, and why.
    """
    try:
        async with connection(address, certificate) as channel:
            with anyio.fail_after(answer_s):
                said = await answer_to(channel, line_of(request), limit=MAX_ANSWER_BYTES)
                answer = _ANSWER.decode(said.partition(b"\n")[0])
    except TimeoutError:
        raise NodeRefused("the node does not answer") from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NodeRefused(f"the node cannot be asked: {one_line(str(error))}") from None
    if answer.error is not None:
        raise NodeRefused(one_line(answer.error))
    return answer
