"""Why a TLS handshake with a server came to nothing.

With TLS 1.3 a server refuses the client's certificate behind the client's back: the alert comes where the
answer to the first request should, or is lost because that could not be written.
`refusal_behind` finds it in an error, `find_refusal` by a connection on which nothing is sent.
"""

from __future__ import annotations

import ssl
from typing import Final
from urllib.request import getproxies

import anyio
import httpx2

from mcpx.core.wire.unreachable import REFUSALS, alert_in, causes

HTTPS_PORT: Final = 443
REFUSAL_TIMEOUT_S: Final = 1.0  # for a server to refuse a handshake: a round trip


def refusal_behind(error: BaseException) -> ssl.SSLError | None:
    """The server's refusal of a handshake that led to an error: it has read nothing else."""
    found = (each for each in causes(error) if isinstance(each, ssl.SSLError))
    return next((each for each in found if alert_in(each) in REFUSALS), None)


async def find_refusal(url: httpx2.URL, context: ssl.SSLContext) -> ssl.SSLError | None:
    """Make a connection and send nothing; what the server says to that, if it refuses the handshake.

    None where a proxy is to be used: nothing goes past it.
    """
    if getproxies().keys() & {"https", "all"}:
        return None
    host = url.raw_host.decode("ascii")
    with anyio.move_on_after(REFUSAL_TIMEOUT_S):
        try:
            async with await anyio.connect_tcp(
                host, url.port or HTTPS_PORT, ssl_context=context, tls_standard_compatible=False
            ) as stream:
                await stream.receive(1)
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            return refusal_behind(error)
    return None
