"""Reservations of places for servers: one placement group of Ray each, by name and until released.

Ray chooses among the nodes that it is offered, and keeps the resources there; nobody's task ever runs in such
a group. Left to itself it fills one node before it begins the next, and of most servers it is not known what
they take; so it is offered the nodes with the fewest servers first, and then all that may be taken. Creating
a group takes Ray 2 ms. That no node has what is asked for is known at once; that all who have it are full is
known when nothing has become free in `RESERVE_TIMEOUT_S`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final

from ray.exceptions import RaySystemError
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from mcpx.cluster.placement import Demand, NodeView, is_named, misfit
from mcpx.cluster.ray_process.protocol import RESERVE_TIMEOUT_S, NodeRecord, Reserve

PREFIXES: Final = {False: "mcpx:", True: "mcpx-spread:"}
"""Of the names of groups; by them those that are kept apart are told from the others."""
POLL_S: Final = 0.01  # while Ray has not placed a group
FULL_S: Final = 0.3  # for one choice of nodes while there is a wider one
FILLER: Final = {"CPU": 0.001}  # a group needs something; and a node without any CPU is not for servers
LEAST: Final = {"memory": 1}  # where no node has a CPU
NODE_ID: Final = "ray.io/node-id"
_PLACED: Final = "CREATED"
_GONE: Final = "REMOVED"


class NoNodeError(Exception):
    """There is no node for a reservation, and why."""


class Reservations:
    """The reservations of all gateways of the cluster. `nodes` gives what is known of the nodes."""

    def __init__(self, nodes: Callable[[], Mapping[str, NodeRecord]]) -> None:
        self._nodes = nodes
        self._placing = threading.Lock()
        self._apart = threading.Lock()

    def reserve(self, request: Reserve) -> str:
        """The node for a server: where it has been, if that may stay, else where Ray puts it.

        Raises:
            NoNodeError: None can be had within `RESERVE_TIMEOUT_S`.
        """
        deadline = time.monotonic() + RESERVE_TIMEOUT_S
        while True:
            node = self._stay(request)
            if node is not None:
                return node
            allowed = self._allowed(request)
            if not allowed:
                raise NoNodeError(self._why(request))
            # two that are kept apart and choose at the same time would both see the same node empty
            with self._apart if request.spread else nullcontext():
                node = self._place(request, self._first_choice(request, allowed), FULL_S)
            if node is None:
                node = self._place(request, allowed, deadline - time.monotonic())
            if node is not None:
                return node
            if time.monotonic() >= deadline or not self._can_ever(request, allowed):
                raise NoNodeError(self._why(request))
            time.sleep(POLL_S)

    def release(self, key: str) -> None:
        """Give a reservation up, if there is one."""
        group = _find(key)
        if group is not None:
            remove_placement_group(group)

    def release_all(self) -> None:
        """Give all up."""
        for key in _table():
            self.release(key)

    def all(self) -> dict[str, str]:
        """The nodes by key, of those reservations that have one."""
        return {key: _node_of(entry) for key, entry in _table().items() if _node_of(entry)}

    # --- one reservation

    def _stay(self, request: Reserve) -> str | None:
        """The node where it is reserved already; None if there is none, or it must not stay."""
        group = _find(request.key)
        if group is None:
            return None
        entry = placement_group_table(group)
        node = _node_of(entry)
        bundle: Mapping[str, float] = entry.get("bundles", {}).get(0, {})
        asked, had = (
            {key: amount for key, amount in each.items() if key not in {"CPU", "memory"}}
            for each in (self._bundle(request), bundle)
        )
        is_same = asked == had and str(entry["name"]).startswith(PREFIXES[request.spread])
        if node and node in self._allowed(request) and is_same:
            return node
        remove_placement_group(group)
        return None

    def _place(self, request: Reserve, choice: list[str], patience: float) -> str | None:
        """Have Ray place it on one of these nodes; None if it does not within `patience` seconds."""
        with self._placing:
            group = self._create(request, choice)
        if group is None:
            return None  # another gateway was quicker: its choice is looked at next
        until = time.monotonic() + patience
        while True:
            entry = placement_group_table(group)
            node = _node_of(entry)
            if node:
                return node
            is_infeasible = entry.get("stats", {}).get("scheduling_state") == "INFEASIBLE"
            if time.monotonic() >= until or entry.get("state") == _GONE or is_infeasible:
                remove_placement_group(group)
                return None
            time.sleep(POLL_S)

    def _create(self, request: Reserve, choice: list[str]) -> PlacementGroup | None:
        nodes = ",".join(choice)
        try:
            created: PlacementGroup = placement_group(
                [self._bundle(request)],
                name=PREFIXES[request.spread] + request.key,
                lifetime="detached",
                bundle_label_selector=[{NODE_ID: f"in({nodes})"}],
            )
        except RaySystemError as error:
            if _find(request.key) is not None:
                return None
            raise NoNodeError(f"Ray refuses the reservation: {error}") from error
        return created

    def _bundle(self, request: Reserve) -> dict[str, float]:
        """Return what is reserved, by the names that Ray has for it: people write gpu, Ray GPU."""
        nodes = self._nodes().values()
        spelled = {name.lower(): name for node in nodes for name in node.resources}
        exact = {name for node in nodes for name in node.resources}
        bundle = {
            name if name in exact else spelled.get(name.lower(), name): amount
            for name, amount in request.resources.items()
            if amount > 0
        }
        if request.memory_bytes > 0:
            bundle["memory"] = max(bundle.get("memory", 0), request.memory_bytes)
        if "CPU" in bundle:
            return bundle
        return bundle | (FILLER if any(node.resources.get("CPU") for node in nodes) else LEAST)

    # --- which nodes

    def _allowed(self, request: Reserve) -> list[str]:
        """The ids of the nodes that may be taken at all, whatever they have."""
        return [
            node.id
            for node in self._nodes().values()
            if node.id not in request.exclude
            and not node.draining
            and node.actor in {"running", "starting"}
            and is_named(_view(node, is_excluded=False), request.node)
        ]

    def _first_choice(self, request: Reserve, allowed: list[str]) -> list[str]:
        """Choose what Ray is offered first: the nodes with the fewest."""
        entries = _table().values()
        count = Counter(_node_of(entry) for entry in entries)
        apart = Counter(
            _node_of(entry)
            for entry in entries
            if request.spread and entry["name"].startswith(PREFIXES[True])
        )
        fewest = min((apart[node], count[node]) for node in allowed)
        return [node for node in allowed if (apart[node], count[node]) == fewest]

    def _can_ever(self, request: Reserve, allowed: list[str]) -> bool:
        bundle, nodes = self._bundle(request), self._nodes()
        return any(
            all(nodes[node].resources.get(name, 0) >= amount for name, amount in bundle.items())
            for node in allowed
            if node in nodes
        )

    def _why(self, request: Reserve) -> str:
        demand = Demand(resources=request.resources, memory=request.memory_bytes, node=request.node)
        views = [_view(node, is_excluded=node.id in request.exclude) for node in self._nodes().values()]
        return misfit(views, demand)


def _table() -> dict[str, dict[str, Any]]:
    """Ray's entries of all reservations that there are, by key."""
    found: dict[str, dict[str, Any]] = {}
    for entry in placement_group_table().values():
        name = str(entry["name"])
        for prefix in PREFIXES.values():
            if name.startswith(prefix) and entry["state"] != _GONE:
                found[name.removeprefix(prefix)] = entry
    return found


def _find(key: str) -> PlacementGroup | None:
    for prefix in PREFIXES.values():
        try:
            group: PlacementGroup = get_placement_group(prefix + key)
        except ValueError:
            continue
        if placement_group_table(group).get("state") != _GONE:
            return group
    return None


def _node_of(entry: Mapping[str, Any]) -> str:
    """The node that Ray has placed it on; empty while it has none."""
    if entry.get("state") != _PLACED:
        return ""
    return str(entry["bundles_to_node_id"].get(0) or "")


def _view(node: NodeRecord, *, is_excluded: bool) -> NodeView:
    return node.view(
        memory_total=int(node.resources.get("memory", 0)),
        memory_free=int(node.free.get("memory", 0)),
        is_draining=node.draining,
        is_suspect=is_excluded or node.actor not in {"running", "starting"},
    )
