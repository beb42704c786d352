"""One membership of a Ray cluster: its nodes as records, and the answers to the gateway's requests.

`look` and `wait` are the main thread's, `answer` is called by several threads at a time; between them lies
the table of nodes, which is replaced as a whole. To read it is one question to Ray's GCS for the nodes, named
so that people can tell them apart, and one for what is free.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import ray
from msgspec.structs import replace
from ray._private.state import state as ray_state  # no public function says what is free on each node

from mcpx.cluster.ray_process import protocol as ask
from mcpx.cluster.ray_process.actors import Actors, stop
from mcpx.cluster.ray_process.joining import Flags, Store
from mcpx.cluster.ray_process.protocol import Answer, NodeRecord, Nodes, Request
from mcpx.cluster.ray_process.reservations import NoNodeError, Reservations
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
    """Return the records by id, each with a name that no other has."""
    known = {record.id: record for record in records}
    count = Counter(record.name for record in known.values())
    return {
        node: replace(record, name=f"{record.name}-{node[:ID_DIGITS]}", given_name=record.name)
        if count[record.name] > 1
        else record
        for node, record in known.items()
    }


def difference(before: Mapping[str, NodeRecord] | None, after: Mapping[str, NodeRecord]) -> Nodes | None:
    """Return the changes from the first table to the second; None if there are none."""
    if before is None:
        return Nodes(tuple(after.values()), complete=True)
    changed = tuple(record for node, record in after.items() if before.get(node) != record)
    gone = tuple(before.keys() - after.keys())
    return Nodes(changed, gone) if changed or gone else None


def _resources(amounts: Mapping[str, float]) -> dict[str, float]:
    """Keep the resources that servers ask for. A placement group's own names are Ray's business."""
    return {
        str(key): float(amount)
        for key, amount in amounts.items()
        if not key.startswith(_NO_RESOURCES) and "_group_" not in key
    }


class Session:
    """One membership of a cluster."""

    def __init__(self) -> None:
        self._store = Store()
        self._actors = Actors(self._store.credentials())
        self._nodes: Mapping[str, NodeRecord] = {}
        self._said: Mapping[str, NodeRecord] | None = None
        self._reservations = Reservations(lambda: self._nodes)
        self._keeping = threading.Lock()

    # --- the main thread's

    def look(self) -> Nodes | None:
        """Look at the nodes, have an actor on each, and return what has changed since the last time."""
        with self._keeping:  # none is made after nodes were stopped by what was read before
            flags = self._store.flags()
            nodes = read_nodes(flags)
            if flags.stopped:
                self._actors.forget()
            else:
                self._actors.keep(nodes.values())
        described = {node: self._actors.describe(record) for node, record in nodes.items()}
        for node in flags.drained - described.keys():
            self._store.drain(node, draining=False)  # it does not come back under this id
        news = difference(self._said, described)
        self._nodes = self._said = described
        return news

    def wait(self, seconds: float) -> None:
        """Wait for actors to say something, at most so long."""
        self._actors.look(seconds)

    # --- the requests

    def answer(self, request: Request) -> Answer:
        """Carry out a request.

        Raises:
            RayError: Ray did not do it.
        """
        number = request.id
        try:
            return self._answer(request)
        except NoNodeError as error:
            return Answer(number, error=str(error), code="no_node")
        except ValueError as error:
            return Answer(number, error=str(error), code="invalid")

    def _answer(self, request: Request) -> Answer:  # noqa: C901 - one line for each request
        number = request.id
        match request:
            case ask.Reserve():
                return Answer(number, node=self._reservations.reserve(request))
            case ask.Release(key=key):
                self._reservations.release(key)
            case ask.Reservations():
                return Answer(number, reservations=self._reservations.all())
            case ask.Get(key=key):
                return Answer(number, value=self._store.get(key))
            case ask.Put(key=key, value=value, overwrite=overwrite):
                return Answer(number, value=self._store.put(key, value, overwrite=overwrite))
            case ask.Delete(key=key):
                self._store.delete(key)
            case ask.Keys(prefix=prefix):
                return Answer(number, keys=self._store.keys(prefix))
            case ask.Drain(node=node, draining=draining):
                if node not in self._nodes:
                    raise ValueError(f"there is no node {node}")
                self._store.drain(node, draining=draining)
            case ask.StartNodes():
                self._store.stop(stopped=False)
            case ask.StopNodes():
                self._stop_nodes()
        return Answer(number)

    def _stop_nodes(self) -> None:
        with self._keeping:
            self._store.stop(stopped=True)
            ending = self._actors.take()
        stop(ending)
        self._reservations.release_all()
