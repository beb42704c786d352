"""TLS to a server: the certificates of both sides, and why a handshake came to nothing.

`ssl_context` is for a whole `Network`; own certificates are read anew for each, so that new files are taken
at the next connection. With TLS 1.3 a server refuses the client's certificate behind the client's back: the
alert comes where the answer to the first request should, or is lost because that could not be written.
`refusal_behind` finds it in an error, `find_refusal` by a connection on which nothing is sent.
"""

from __future__ import annotations

import functools
import ssl
from typing import Final
from urllib.request import getproxies

import anyio
import httpx2

from mcpx.config.auth import Tls
from mcpx.config.certificates import CertificateProblem, show_certificate, trusting
from mcpx.upstream.transport.loss import ConnectionLost
from mcpx.upstream.transport.unreachable import REFUSALS, alert_in, causes

HTTPS_PORT: Final = 443
REFUSAL_TIMEOUT_S: Final = 1.0  # for a server to refuse a handshake: a round trip


def ssl_context(tls: Tls | None) -> ssl.SSLContext:
    """The certificates that a server is known by, and the one that it is shown. Reads files.

    Raises:
        ConnectionLost: Those of `tls` cannot be used.
    """
    if tls is None:
        return _usual_context()
    try:
        context = httpx2.create_ssl_context() if tls.ca is None else trusting(tls.ca)
        show_certificate(context, tls)
    except CertificateProblem as problem:
        raise ConnectionLost(f'the certificates in "tls" cannot be used: {problem}') from None
    return context


@functools.cache
def _usual_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


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
