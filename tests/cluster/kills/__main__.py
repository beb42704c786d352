"""Plays losses on a Ray cluster of this machine, and prints what calls were told. Started by `scripts/nodes`.

The cluster has a head, on which the gateway is and no server runs, and three nodes. Progress goes to standard
error. The exit code is 1 if a call was lost, ran twice or was told what is not so, or a time was not kept.
"""

from __future__ import annotations

import sys
import time
import traceback

import anyio
import click
import msgspec

from tests.cluster.conftest import RayCluster, cluster_of
from tests.cluster.kills import plays, report
from tests.cluster.kills.site import opened, say

FAR = ("one", "two", "three")
NODES: dict[str, dict[str, float]] = {"head": {"cpus": 0}, **{name: {"far": 1000} for name in FAR}}


class Plan(msgspec.Struct):
    """How much is played."""

    kills: int
    gateways: int
    drains: int
    minutes: float
    seed: int


@click.command(context_settings={"max_content_width": 110})
@click.option("--kills", default=200, show_default=True, metavar="NUMBER", help="Lose so many nodes.")
@click.option("--gateways", default=20, show_default=True, metavar="NUMBER", help="Kill it so often.")
@click.option("--drains", default=10, show_default=True, metavar="NUMBER", help="Drain so many nodes.")
@click.option("--minutes", default=60.0, show_default=True, help="Lose nodes for at most so long.")
@click.option("--seed", default=1, show_default=True, metavar="NUMBER", help="Of what is lost when.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown, for docs/deployment.md.")
def main(kills: int, gateways: int, drains: int, minutes: float, seed: int, *, markdown: bool) -> None:
    """Lose nodes of a real Ray cluster, its gateway and its nodes' peace, in the middle of calls."""
    seen = report.Seen(len(FAR))
    try:
        anyio.run(_play, seen, Plan(kills, gateways, drains, minutes, seed))
    except Exception as error:  # noqa: BLE001 - what was seen until then is shown, too
        traceback.print_exception(error)
        seen.faults.append(f"not played to its end: {error!r}")
    click.echo(seen.as_markdown() if markdown else seen.as_text())
    for fault in seen.faults[:100]:
        click.echo(fault, err=True)
    sys.exit(bool(seen.faults))


async def _play(seen: report.Seen, plan: Plan) -> None:
    with cluster_of(NODES) as cluster:
        say("the cluster runs")
        async with opened(cluster, FAR, attached=5, over_http=3, seed=plan.seed) as site:
            try:
                seen.placed = await plays.placement(site)
                say(f"Ray, the gateway and the processes' parents have: {seen.placed}")
                if plan.kills:
                    await plays.lose_nodes(
                        site, plan.kills, seed=plan.seed, until=time.time() + 60 * plan.minutes
                    )
                    seen.added = await plays.add_node(site, FAR[0], 6)
                for number in range(plan.gateways):
                    seen.gateways.append(await plays.kill_gateway(site))
                    say(f"gateway {number}: {seen.gateways[-1]}")
                for number in range(plan.drains):
                    seen.drains.append(await plays.drain(site, FAR[number % len(FAR)]))
                    say(f"{seen.drains[-1]}")
            finally:
                seen.take(site.tally, site.losses, _deaths(cluster))


def _deaths(cluster: RayCluster) -> dict[str, float]:
    """When Ray has noticed them, as far as it can be asked."""
    try:
        return dict(cluster.table()["deaths"])
    except (RuntimeError, OSError, AssertionError):
        return {}


if __name__ == "__main__":
    main()
