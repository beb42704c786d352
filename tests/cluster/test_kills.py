"""Nodes and gateways of a real cluster are lost under load: the short form of `scripts/nodes`."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import RayCluster
from tests.cluster.kills import plays, report
from tests.cluster.kills.site import opened

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


async def test_no_call_is_lost_or_run_twice_whatever_is_lost(ray_cluster: RayCluster) -> None:
    seen = report.Seen(far=2, known_s=5.0)
    async with opened(ray_cluster, ("two", "three"), attached=2, over_http=2) as site:
        seen.placed = await plays.placement(site)
        seen.gateways.append(await plays.kill_gateway(site))
        seen.drains.append(await plays.drain(site, "two"))
        await plays.lose_nodes(site, 2, how=("frozen",))
        await plays.lose_nodes(site, 1, how=("killed",))
        seen.take(site.tally, site.losses, ray_cluster.table()["deaths"])
    print(seen.as_text())
    assert not seen.faults
    assert {call.told for call in site.tally.calls} >= {"done", "unknown"}
    assert len(site.losses) == 3
