"""Sockets between two MCPX, and what TLS on them is given: beneath `mcpx.core.wire.tls_channel`."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import anyio

from mcpx.core.store.private_files import create_file

KEEPALIVE_IDLE_S: Final = 20  # a peer whose machine has gone without a word is noticed within 35 s
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
UNACKNOWLEDGED_S: Final = 30.0  # the same for a peer to which something was sent (Linux, tcp(7))


async def connected_to(host: str, port: int) -> socket.socket:
    """A socket that is connected, to the first address of the host that can be.

    Raises:
        OSError: None can.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    error: OSError = OSError(errno.EHOSTUNREACH, f"{host} has no address")
    for family, kind, protocol, _, address in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)  # noqa: FBT003 - the standard library's signature
            await _connect(made, address)
            configure(made)
        except OSError as failed:
            made.close()
            error = failed
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise error


async def _connect(made: socket.socket, address: tuple[str, int] | tuple[str, int, int, int]) -> None:
    with suppress(BlockingIOError):
        made.connect(address)
        return
    await anyio.wait_writable(made)
    if code := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))


def configure(connected: socket.socket) -> None:
    """Have small messages sent at once, and a peer noticed that has gone without a word."""
    option = partial(connected.setsockopt, socket.IPPROTO_TCP)
    option(socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPALIVE", KEEPALIVE_IDLE_S),  # the same, on macOS
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", int(UNACKNOWLEDGED_S * 1000)),
    ):
        if hasattr(socket, name):
            with suppress(OSError):
                option(getattr(socket, name), value)


@lru_cache(maxsize=64)
def client_context(certificate: str) -> ssl.SSLContext:
    """What a client needs to connect to the one that shows this certificate (PEM).

    Raises:
        OSError: This is no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    return context


def server_context(certificate: str, key: str, folder: str) -> ssl.SSLContext:
    """What a server needs to show this certificate (both PEM). Blocks.

    OpenSSL reads them from a file: it lies in `folder` for that moment, for its owner alone.

    Raises:
        OSError: They are no certificate and its key, or the folder cannot be written to.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody resumes: connections last
    path = Path(folder, f"tls-{os.urandom(8).hex()}.pem")
    try:
        create_file(path, f"{key}\n{certificate}\n".encode(), synced=False)
        context.load_cert_chain(path)
    finally:
        path.unlink(missing_ok=True)
    return context
