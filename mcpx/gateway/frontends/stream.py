"""One client on a pair of descriptors: what the stdio door and the socket door share.

When the client closes its end, what it has asked is still answered, within the grace time; so it is when the
supervisor asks the door to leave. A client that has vanished altogether is owed nothing: what it has asked is
cancelled upstream at once. A client that does not read what it is sent is not read either, until it does: log
and progress messages pass it by meanwhile, and with too much unread it has left.
"""

from __future__ import annotations

from typing import Final

import anyio
import msgspec
import structlog

from mcpx.core.hub import Hub
from mcpx.gateway.eras import EraServer
from mcpx.gateway.frontends.fast_path import FastLane
from mcpx.gateway.server import GatewayServer
from mcpx.gateway.tools.encoding import shaper_for
from mcpx.wire.channel import Channel
from mcpx.wire.dispatcher import WireDispatcher
from supervisors import Incarnation

log = structlog.get_logger()
RUBBISH_LOGGED: Final = 3  # lines of one client that are no messages; each is answered
ANSWERED_POLL_S: Final = 0.01  # between looks for open requests, once the client has closed its end


class StreamClient:
    """Serves one connection."""

    def __init__(self, hub: Hub, server: GatewayServer, channel: Channel) -> None:
        self._hub = hub
        self._input_ended = anyio.Event()
        self._wire = WireDispatcher(
            channel,
            limit=hub.config.max_message_bytes,
            on_malformed=self._note_rubbish,
            on_end=self._input_ended.set,
            refuses=True,
        )
        self._leaving = False
        self._dropped = 0
        self._rubbish = 0
        channel.on_broken = self._gone
        channel.on_congested = channel.pause_reading
        self._wire.on_drained = self._read_on
        self._wire.on_dropped = self._count_dropped
        self._connection = EraServer(server, self._wire)
        lane = self._fast_lane(server)
        self._wire.receiver.fast, self._wire.receiver.too_deep = lane.take, lane.refuse_too_deep

    def _fast_lane(self, server: GatewayServer) -> FastLane:
        config = self._hub.config
        return FastLane(
            self._hub, self._connection, shaper_for(config), msgspec.json.encode(server.server_info_stamp)
        )

    async def serve(self, incarnation: Incarnation) -> None:
        """Serve until the client is done, or the supervisor asks to leave."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_order, incarnation)
            await self._connection.run()
            tasks.cancel_scope.cancel()
        if self._dropped:
            log.info("client.went_without", messages=self._dropped)

    async def _end_in_order(self, incarnation: Incarnation) -> None:
        """After the last message, wait for the answers that are due, and end the session."""
        await incarnation.while_wanted(self._input_ended.wait)
        wire = self._wire
        self._leaving = True
        wire.channel.pause_reading()
        with anyio.move_on_after(self._hub.config.shutdown_grace):
            while (wire.busy or wire.channel.unsent) and not wire.channel.hung_up():  # noqa: ASYNC110 - at the end only
                await anyio.sleep(ANSWERED_POLL_S)
        wire.end()

    def _read_on(self) -> None:
        """The client reads what it is sent, so it is read again."""
        if not self._leaving:
            self._wire.channel.start_reading()

    def _count_dropped(self) -> None:
        if not self._dropped:
            unsent = self._wire.channel.unsent
            log.warning("client.not_reading", unsent=unsent, dropped="its log and progress messages")
        self._dropped += 1
        self._hub.audience.dropped += 1

    def _gone(self, error: OSError) -> None:
        """The client reads no more: it has left, or is taken to have left."""
        log.warning("client.gone", reason=error.strerror)
        self._wire.end()

    def _note_rubbish(self, line: bytes, problem: str) -> None:
        self._rubbish += 1
        if self._rubbish <= RUBBISH_LOGGED:
            log.warning("client.rubbish", problem=problem, line=line.decode(errors="replace"))
        if self._rubbish == RUBBISH_LOGGED:
            log.warning("client.rubbish_continues", hint="further lines of this client are not logged")
