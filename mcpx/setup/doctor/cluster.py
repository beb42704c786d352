"""What is wrong with the cluster of a daemon: Ray, its nodes, and the other gateways, as status has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mcpx.core.text import one_line
from mcpx.setup.doctor.findings import Finding, note, ok, wrong
from mcpx.setup.doctor.installation import Installation

SUBJECT: Final = "cluster"
MAX_NAMED: Final = 8
OPEN: Final = (
    "Ray answers without a token: whoever reaches it, other users of its machines too, can run programs there"
    " and read the token and key of the nodes"
)


def check_cluster(
    installation: Installation, cluster: dict[str, Any], nodes: Iterable[dict[str, Any]], version: str
) -> Iterator[Finding]:
    """Check the cluster that a daemon of that version has joined, or has not."""
    known, gateways = list(nodes), cluster.get("gateways", [])
    if not cluster["joined"]:
        why = one_line(str(cluster.get("problem") or "it has not answered yet"))
        text = f"the Ray cluster {cluster['address']} is not joined: {why}"
        yield wrong(SUBJECT, text, "ray status, on that machine; then mcpx cluster status")
    elif not known:
        yield wrong(SUBJECT, "it has no node", installation.command("cluster", "start"))
    elif not (up := [node for node in known if node["state"] in {"ready", "draining"}]):
        yield wrong(SUBJECT, "no node answers", installation.command("cluster", "status"))
    else:
        here = "1 gateway" if len(gateways) <= 1 else f"{len(gateways)} gateways"
        yield ok(SUBJECT, f"{cluster['address']}: {len(up)} of {len(known)} nodes answer, {here}")
    if cluster.get("open"):
        yield note(SUBJECT, OPEN, "RAY_AUTH_MODE=token for all of Ray, then mcpx cluster start")
    for node in known:
        if node["state"] == "lost":
            why = one_line(str(node.get("problem") or "no reason is known"))
            text = f"the node {one_line(node['name'])} does not answer: {why}"
            yield wrong(SUBJECT, text, installation.command("cluster", "status"))
    if others := [node for node in known if node.get("version") not in {None, version}]:
        text = f"nodes of another version than this gateway's ({version}): {_named(others)}"
        yield note(
            SUBJECT, text, f"mcpx cluster stop --nodes, then {installation.command('cluster', 'start')}"
        )
    if problem := cluster.get("not_shared"):
        yield wrong(SUBJECT, f"pins are not shared with other gateways: {one_line(str(problem))}")
    for gateway in gateways:
        yield from _its_gateway(gateway, version)


def _its_gateway(gateway: dict[str, Any], version: str) -> Iterator[Finding]:
    where = f"the gateway on {one_line(gateway['host'])} (pid {gateway['pid']})"
    if problem := gateway.get("problem"):
        yield wrong(SUBJECT, f"{where} has not reloaded: {one_line(str(problem))}", "mcpx check, there")
    if gateway["version"] != version:
        yield note(SUBJECT, f"{where} is of another version: {one_line(gateway['version'])}")
    if not gateway["same_config"]:
        yield note(
            SUBJECT, f"{where} has another configuration", "put the same file there, if it is to be the same"
        )


def _named(nodes: list[dict[str, Any]]) -> str:
    names = [f"{one_line(node['name'])} ({one_line(node['version'])})" for node in nodes[:MAX_NAMED]]
    return ", ".join(names) + (f" and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else "")
