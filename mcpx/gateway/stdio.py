"""The stdio door: one client on this process's standard streams.

While it serves, file descriptor 0 is empty and 1 goes to standard error, so that stray output of this
process or a child never lands among the messages. When the client closes its end, what it has asked is still
answered, within the grace time; then the door is done. A client that does not read what it is sent is not
read either, until it does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import msgspec
import structlog

from mcpx.gateway.eras import EraServer
from mcpx.gateway.fast_lane import FastLane
from mcpx.gateway.server import GatewayServer
from mcpx.gateway.shaping import Shaper
from mcpx.hub import Hub
from mcpx.wire.channel import Channel, widen
from mcpx.wire.dispatcher import WireDispatcher
from supervisors import Incarnation

log = structlog.get_logger()
ANSWERED_POLL_S: Final = 0.01  # between looks for open requests, once the client has closed its end


class StdioDoor:
    """Serves one session on standard input and output."""

    def __init__(self, hub: Hub, server: GatewayServer) -> None:
        self._hub = hub
        self._server = server

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the client closes its end or stops reading, or the supervisor asks to leave."""
        with claimed_streams() as (stdin, stdout):
            channel = Channel(stdin, stdout)
            try:
                await self._serve(channel, incarnation)
            finally:
                channel.flush()
                channel.close()
        log.info("client.left")

    async def _serve(self, channel: Channel, incarnation: Incarnation) -> None:
        input_ended = anyio.Event()
        wire = WireDispatcher(
            channel,
            limit=self._hub.config.max_message_bytes,
            on_rubbish=_rubbish,
            on_end=input_ended.set,
        )
        channel.on_broken = lambda error: _gone(wire, error)
        connection = EraServer(self._server, wire)
        wire.fast = self._fast_lane(connection).take
        incarnation.ready()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_order, wire, input_ended, incarnation)
            await connection.run()
            tasks.cancel_scope.cancel()

    def _fast_lane(self, connection: EraServer) -> FastLane:
        config = self._hub.config
        shaper = Shaper(toon=config.toon_compression_enabled, toon_min_size=config.toon_compression_min_size)
        info = msgspec.json.encode(self._server.server_info_stamp)
        return FastLane(self._hub, connection, shaper, info)

    async def _end_in_order(
        self, wire: WireDispatcher, input_ended: anyio.Event, incarnation: Incarnation
    ) -> None:
        """After the last message, wait for the answers that are due, and end the session."""
        await incarnation.while_wanted(input_ended.wait)
        wire.channel.pause_reading()
        with anyio.move_on_after(self._hub.config.shutdown_grace):
            while wire.busy or wire.channel.unsent:  # noqa: ASYNC110 - a few looks, at the very end
                await anyio.sleep(ANSWERED_POLL_S)
        wire.end()


def _rubbish(line: bytes, problem: str) -> None:
    log.warning("client.rubbish", problem=problem, line=line.decode(errors="replace"))


def _gone(wire: WireDispatcher, error: OSError) -> None:
    """The client reads no more: it has left."""
    log.warning("client.gone", reason=error.strerror)
    wire.end()


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
        widen(stdout)
        yield stdin, stdout
    finally:
        for fd in (stdin, stdout):
            os.set_blocking(fd, blocking[fd])
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for fd in (nothing, stdin, stdout):
            os.close(fd)
