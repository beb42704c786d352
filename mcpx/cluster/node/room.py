"""The memory of a node's machine, and whether one more session has room in it.

Gateways place by figures that are a second old, and none sees what the others place within that second. The
node sees all of them: near its limit it refuses, and the gateway places the session elsewhere at once. The
decision itself is that of `mcpx.cluster.placement`, by which gateways choose.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import anyio

from mcpx.cluster.node.servers import NodeServers
from mcpx.cluster.node.spec import ServerSpec
from mcpx.cluster.placement import has_memory
from mcpx.core.daemon.hub import Hub
from mcpx.core.system.limits import descriptors
from mcpx.core.system.processes import Memory, memory_now
from supervisors import Phase

PROMISE_S: Final = 5.0  # after which a session that was taken is in the machine's figures, or is starting
LOOK_S: Final = 0.1  # between two looks at the machine, each of which takes a tenth of a millisecond
MIB: Final = 1 << 20


class Machine(NamedTuple):
    """The machine at one moment; bytes, and the mean number of processes that wanted a processor."""

    memory: int | None
    memory_free: int | None
    load: float | None
    descriptors: int | None
    max_descriptors: int | None


def look() -> Machine:
    """The machine now."""
    memory = memory_now()
    load = open_now = None
    with suppress(OSError):
        load = round(os.getloadavg()[0], 2)
    with suppress(OSError):
        open_now = len(os.listdir("/dev/fd"))  # noqa: PTH208 - tens of thousands, maybe
    return Machine(memory.total, memory.free, load, open_now, descriptors().now)


class Room:
    """The memory of one node. `look` says how much there is, and how much is free."""

    def __init__(self, hub: Hub, servers: NodeServers, look: Callable[[], Memory] = memory_now) -> None:
        self._hub = hub
        self._servers = servers
        self._look = look
        self._looked_at = -PROMISE_S
        self._memory = Memory(None, None)
        self._starting = 0  # bytes for the sessions that were starting at that look, and those taken since
        self._promised: deque[tuple[float, int]] = deque()  # until when, bytes
        self._wanted: dict[str, int] = {}  # bytes of one session, by the server's name in the hub

    def why_not(self, spec: ServerSpec, wanted: int) -> str | None:
        """Take one more session with that server, which is said to need so many bytes; else why not."""
        server = self._servers.known(spec)
        if server is not None and spec.sessions == "shared":
            return None  # it runs, or starts: what it takes is taken
        now = anyio.current_time()
        if now - self._looked_at >= LOOK_S:
            self._memory, self._looked_at = self._look(), now
            self._starting = self._of_starting()
        while self._promised and self._promised[0][0] <= now:
            self._promised.popleft()
        total, free = self._memory
        if total is not None and free is not None:
            left = free - max(self._starting, sum(memory for _, memory in self._promised))
            if not has_memory(total, left, wanted):
                return f"it has {max(0, left) // MIB} MB of memory left, and needs some for itself"
        if wanted:
            self._promised.append((now + PROMISE_S, wanted))
            self._starting += wanted
            self._wanted[spec.name if server is None else server.name] = wanted
        return None

    def _of_starting(self) -> int:
        """The bytes that those sessions will take that are starting, or wait for that."""
        names = {each.name for each in self._servers}
        self._wanted = {name: wanted for name, wanted in self._wanted.items() if name in names}
        if not self._wanted:
            return 0
        return sum(
            self._wanted.get(session.name, 0)
            for session in self._hub.fleet.children()
            if (life := session.queue.lifecycle_or_none()) is not None and life.phase is Phase.STARTING
        )
