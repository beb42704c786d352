"""The actor of one node of a Ray cluster: it keeps the node process of its machine running, and says where.

Detached and named, one for each node, made by whichever gateway comes first (`actors`). Ray starts it again
for ever, with the same setup; no call of a person ever goes through it. The class is found by its name on the
other machine, so MCPX must be installed there. Its methods wait in threads of Ray's.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from mcpx.cluster.ray_process.node_child import NodeChild
from mcpx.paths import digest, ensure_folder, state_folder

FOLLOW_S: Final = 20.0  # then the answer is that nothing has changed
MAX_CONCURRENCY: Final = 64  # two a gateway
NODES_FOLDER: Final = "nodes"
MAX_FOLDER_NAME: Final = 200  # bytes; the system takes 255


class Setup(msgspec.Struct, frozen=True):
    """What a node process is told: its name, where it listens, its secrets, and the folder for its state."""

    name: str
    host: str
    token: str
    certificate: str
    key: str
    state: str = ""
    settings: dict[str, float] = {}


def folder_name(node: str) -> str:
    """The name of a node's folder: it stays inside of the one that it is in, whatever the node is called."""
    name = quote(node, safe="")
    return name if len(name) <= MAX_FOLDER_NAME and name.strip(".") else digest(node)


class NodeActor:
    """Made with an encoded `Setup`, whose `state` is chosen here, on the machine that it is about."""

    def __init__(self, setup: bytes) -> None:
        known = msgspec.json.decode(setup, type=Setup)
        folder = state_folder() / NODES_FOLDER / folder_name(known.name)
        ensure_folder(folder)
        self._child = NodeChild(msgspec.json.encode(replace(known, state=str(folder))))

    def follow(self, seen: int) -> bytes:
        """An encoded `NodeState`: once it is not revision `seen` any more, or after `FOLLOW_S`."""
        return msgspec.json.encode(self._child.follow(seen, FOLLOW_S))

    def end(self, timeout: float) -> int:
        """End the node process in order; returns the pid of the actor."""
        self._child.end(timeout)
        return os.getpid()
