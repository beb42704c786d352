"""A stdio server that speaks both eras has one process for the clients of both, or one for each client."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.protocol.context import ClientId
from tests.mcpx.core.servers.raw import heard, raw_server
from tests.mcpx.core.servers.session.test_handshake import DISCOVER, HANDSHAKE, MODERN
from tests.mcpx.core.servers.test_companion import send
from tests.mcpx.scripted import PATIENCE_S

pytestmark = pytest.mark.anyio


async def test_clients_of_both_eras_share_the_process_of_a_server_that_speaks_both(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER) as watch:
        for modern in (True, False):
            assert watch.hub.upstreams["s"].in_era(modern) is watch.hub.upstreams["s"].main
            with anyio.fail_after(PATIENCE_S):
                await send(watch, modern, tool="echo").wait()
        assert heard(tmp_path) == [*HANDSHAKE, "tools/call", "tools/call"]


async def test_clients_with_sessions_of_their_own_have_them_in_their_era(tmp_path):
    settings = {"sessions": "per_client"}
    async with raw_server(tmp_path, answers=DISCOVER, settings=settings) as watch:
        clients = [(ClientId(), modern) for modern in (True, False)]
        for client, modern in clients * 2:
            with anyio.fail_after(PATIENCE_S):
                await send(watch, modern, client, tool="echo").wait()
        called = ["tools/call"]
        assert heard(tmp_path) == [*HANDSHAKE, *MODERN, *called, *HANDSHAKE, *called, *called, *called]
        assert [own.era for own in watch.hub.upstreams["s"].clients.by_client.values()] == [
            "modern",
            "handshake",
        ]


async def test_clients_with_sessions_of_their_own_get_those_that_the_server_speaks(tmp_path):
    settings = {"sessions": "per_client"}
    async with raw_server(tmp_path, first="initialize", settings=settings) as watch:
        for _ in range(2):
            with anyio.fail_after(PATIENCE_S):
                await send(watch, True, ClientId(), tool="echo").wait()
        # the first is asked in its own era, which ends the process; the second is not
        called = "tools/call"
        assert heard(tmp_path) == [*HANDSHAKE, "started", *HANDSHAKE, called, *HANDSHAKE, called]
