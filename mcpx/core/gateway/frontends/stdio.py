"""The stdio frontend: one client on this process's standard streams.

While it serves, file descriptor 0 is empty and 1 goes to standard error, so that stray output of this
process or a child never lands among the messages. When the client closes its end, what it has asked is still
answered, within the grace time; then the frontend ends. Nothing more is read from a client that does not read
what it is sent, until it does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.wire.channel import Channel, grow_pipe
from supervisors import Incarnation

log = structlog.get_logger()


class StdioFrontend:
    """Serves one session, at that endpoint, on standard input and output."""

    def __init__(self, endpoints: Endpoints, endpoint: Endpoint) -> None:
        self._endpoints = endpoints
        self._endpoint = endpoint

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the client closes its end or stops reading, or the supervisor asks to leave."""
        with claimed_streams() as (stdin, stdout):
            channel = Channel(stdin, stdout)
            try:
                client = self._endpoints.stream_client(self._endpoint, channel)
                incarnation.ready()
                await client.serve(incarnation)
            finally:
                channel.flush()
                channel.close()
        log.info("client.left")


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the real standard input and output, which are diverted meanwhile."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    blocking = {fd: os.get_blocking(fd) for fd in (stdin, stdout)}
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        for fd in (stdin, stdout):
            if not os.isatty(fd):  # a terminal is shared with the shell, which would suffer
                os.set_blocking(fd, False)
        grow_pipe(stdout)
        yield stdin, stdout
    finally:
        for fd in (stdin, stdout):
            os.set_blocking(fd, blocking[fd])
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for fd in (nothing, stdin, stdout):
            os.close(fd)
