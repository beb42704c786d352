"""Questions that servers on nodes ask: they reach the client behind the gateway, in its era."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.servers.call_queue import RawReply
from tests.mcpx.cluster.gateways import StandInRay, open_gateway, running_nodes
from tests.mcpx.core.servers.relay.answering import ROOTS, entry
from tests.mcpx.core.servers.relay.calling import FakeCaller
from tests.mcpx.scripted import PATIENCE_S, config_of

pytestmark = pytest.mark.anyio


async def test_an_older_client_is_asked_by_its_own_server_that_speaks_both_eras(tmp_path: Path) -> None:
    """One that asks in the middle of a call, as most do, can do so in the older era only."""
    ray, ann = StandInRay(), FakeCaller()
    ann.client = client = ClientId()
    ann.may_answer.set()
    config = config_of({"s": entry("both") | {"sessions": "per_client"}})
    async with (
        running_nodes(tmp_path, "a", ray=ray),
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.hub.upstreams["s"].await_catalogue()
        asking = msgspec.json.encode({"question": ROOTS, "seconds": PATIENCE_S})
        context, reply = RequestContext(caller=ann, client=client), RawReply()
        gateway.hub.calls.call(Exec("s", "patient", asking, context), reply)
        with anyio.fail_after(PATIENCE_S):
            await reply.wait()
        assert [method for method, _ in ann.asked] == [ROOTS["method"]]
