"""The nodes of a Ray cluster as records: read from Ray's own table, named so that people can tell them apart.

Reading is one question to Ray's GCS for the nodes and one for what is free; the rest is pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import ray
from msgspec.structs import replace
from ray._private.state import state as ray_state  # no public function says what is free on each node

from mcpx.cluster.ray_process.protocol import NodeRecord, Nodes
from mcpx.cluster.ray_process.store import Flags
from mcpx.core.text import one_line

MAX_NAME: Final = 200  # characters of a node's name, which is shown and logged
NAME_LABEL: Final = "mcpx.node"
ID_DIGITS: Final = 6  # of an id in a name
_NO_RESOURCES: Final = ("node:", "object_store_memory", "bundle_group_")


def read_nodes(flags: Flags) -> dict[str, NodeRecord]:
    """The nodes that live, by id. What their actors are is not known here."""
    free: dict[str, dict[str, float]] = ray_state.available_resources_per_node()  # type: ignore[no-untyped-call]
    leaving: Mapping[str, int] = ray_state.get_draining_nodes()
    drained = flags.drained | leaving.keys()
    return named(
        to_record(entry, free.get(entry["NodeID"], {}), draining=entry["NodeID"] in drained)
        for entry in ray.nodes()  # type: ignore[no-untyped-call]
        if entry["Alive"]
    )


def to_record(entry: Mapping[str, Any], free: Mapping[str, float], *, draining: bool) -> NodeRecord:
    """A node of Ray's table. Its name may still be another's, too."""
    host = str(entry["NodeManagerAddress"])
    labels = {str(key): str(value) for key, value in entry.get("Labels", {}).items()}
    given = str(entry.get("NodeName") or "")
    name = labels.get(NAME_LABEL) or (given if given != host else "") or str(entry["NodeManagerHostname"])
    return NodeRecord(
        id=entry["NodeID"],
        name=one_line(name, MAX_NAME) or host,
        host=host,
        draining=draining,
        resources=_resources(entry.get("Resources", {})),
        free=_resources(free),
        labels=labels,
    )


def named(records: Iterable[NodeRecord]) -> dict[str, NodeRecord]:
    """The same by id, each with a name that no other has."""
    known = {record.id: record for record in records}
    count = Counter(record.name for record in known.values())
    return {
        node: replace(record, name=f"{record.name}-{node[:ID_DIGITS]}", given_name=record.name)
        if count[record.name] > 1
        else record
        for node, record in known.items()
    }


def difference(before: Mapping[str, NodeRecord] | None, after: Mapping[str, NodeRecord]) -> Nodes | None:
    """What to say of the second table to somebody who knows the first; None is nothing."""
    if before is None:
        return Nodes(tuple(after.values()), complete=True)
    changed = tuple(record for node, record in after.items() if before.get(node) != record)
    gone = tuple(before.keys() - after.keys())
    return Nodes(changed, gone) if changed or gone else None


def _resources(amounts: Mapping[str, float]) -> dict[str, float]:
    """Those that servers ask for. A placement group's own names are Ray's business."""
    return {
        str(key): float(amount)
        for key, amount in amounts.items()
        if not key.startswith(_NO_RESOURCES) and "_group_" not in key
    }
