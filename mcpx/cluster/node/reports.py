"""Reports of a node on its process, its machine and its servers, to each gateway that watches.

A report is made once an interval for all of them, and only while somebody watches. The looks at processes
and at the machine are made in a thread, and less often where they take long. A `Ping` is answered at once,
so that a gateway learns quickly whether the node still works.

Gateways place by figures that are a second old, and none sees what the others place within that second. The
node sees all of them: where one more session has no `Room` in its memory, it refuses, and the gateway places
the session elsewhere at once. The decision itself is that of `mcpx.cluster.placement`.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from mcpx.cluster.node.protocol import NodeReport, Ping, Pong, Report, ServerReport, line_of
from mcpx.cluster.node.servers import NodeServer, NodeServers
from mcpx.cluster.node.spec import ServerSpec
from mcpx.cluster.placement import has_memory
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.status_snapshot import server_status
from mcpx.core.system.limits import descriptors
from mcpx.core.system.processes import Memory, ProcessFigures, Use, memory_now
from mcpx.core.text import cut
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.lines import LineSplitter, TooLong
from mcpx.version import __version__
from supervisors import Incarnation, Phase

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


MAX_PING_BYTES: Final = 1024
MAX_ERROR_CHARS: Final = 2000  # of a server's last error
LOOK_SHARE: Final = 0.05  # of the time, that the looks at processes may take
_COUNTS: Final = ("calls", "errors", "in_flight", "queued", "restarts", "failures")
_STATUS: Final = ("state", "pid", "uptime_s", "next_attempt_in_s", *_COUNTS)
"""Members of a report that are those of the server's status."""
MIN_PAUSE_S: Final = 0.05  # between two reports, however many begin to watch


class _Looked:
    """Figures of the processes at the last look."""

    def __init__(self) -> None:
        self.uses: dict[int, Use] = {}
        self.machine = Machine(None, None, None, None, None)
        self.own_memory: int | None = None
        self.own_cpu: float | None = None
        self.next_at = 0.0


class Reports:
    """Makes the reports of one node. `run` it as a child."""

    def __init__(self, name: str, hub: Hub, servers: NodeServers, interval_s: float) -> None:
        self._name = name
        self._hub = hub
        self._servers = servers
        self._interval_s = interval_s
        self._figures = ProcessFigures()
        self._looked = _Looked()
        self._watchers: set[Channel] = set()
        self._joined = anyio.Event()
        self.stopping = False

    async def watch(self, channel: Channel, incarnation: Incarnation) -> None:
        """Report on that channel until it ends, or the node does."""
        ended = anyio.Event()
        splitter = LineSplitter(MAX_PING_BYTES)

        def take(chunk: bytes) -> None:
            for line in splitter.feed(chunk):
                try:
                    if isinstance(line, TooLong):
                        raise msgspec.DecodeError("too long")  # noqa: TRY301 - as any line that is no ping
                    ping = msgspec.json.decode(line, type=Ping)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    ended.set()
                    return
                channel.write(line_of(Pong(ping.ping)))

        channel.on_data = take
        channel.on_end = ended.set
        channel.on_broken = lambda _error: ended.set()
        channel.on_congested = channel.pause_reading
        channel.on_drained = channel.start_reading
        self._watchers.add(channel)
        self._joined.set()
        try:
            channel.start_reading()
            await incarnation.while_wanted(ended.wait)
        finally:
            self._watchers.discard(channel)

    async def run(self, incarnation: Incarnation) -> None:
        """Make reports while somebody watches, until asked to leave."""
        incarnation.ready()
        await incarnation.while_wanted(self._report)

    async def _report(self) -> None:
        while True:
            if not self._watchers:
                self._figures = ProcessFigures()  # shares would be of all that time
                await self._joined.wait()
            self._joined = anyio.Event()
            await self._look()
            line = line_of(Report(self._node()))
            for channel in self._watchers:
                if not channel.congested:  # it gets the next one
                    channel.write(line)
            await anyio.sleep(MIN_PAUSE_S)
            with anyio.move_on_after(self._interval_s - MIN_PAUSE_S):
                await self._joined.wait()

    # --- looking

    async def _look(self) -> None:
        """Look at the processes and the machine, unless the last look was long and not long ago."""
        now = anyio.current_time()
        if now < self._looked.next_at:
            return
        groups = [each.pid for each in self._hub.fleet.children() if each.pid is not None]
        self._looked = await anyio.to_thread.run_sync(self._look_now, groups)
        took = anyio.current_time() - now
        self._looked.next_at = now + took / LOOK_SHARE

    def _look_now(self, groups: list[int]) -> _Looked:
        found = _Looked()
        found.uses = self._figures.look(groups)
        found.machine = look()
        found.own_memory, found.own_cpu = self._figures.look_at_self()
        return found

    def _node(self) -> NodeReport:
        hub, seen = self._hub, self._looked
        machine = seen.machine
        pids: dict[str, list[int]] = defaultdict(list)
        for each in hub.fleet.children():
            if each.pid is not None:
                pids[each.name].append(each.pid)
        return NodeReport(
            name=self._name,
            pid=os.getpid(),
            version=__version__,
            uptime_s=0.0 if hub.started is None else round(anyio.current_time() - hub.started, 1),
            connections=sum(each.connections for each in self._servers),
            servers=tuple(
                self._server(each, pids[each.name]) for each in self._servers if each.name in hub.upstreams
            ),
            cpus=os.cpu_count() or 1,
            cpu=seen.own_cpu,
            load=machine.load,
            memory_bytes=machine.memory,
            memory_free_bytes=machine.memory_free,
            own_memory_bytes=seen.own_memory,
            descriptors=machine.descriptors,
            max_descriptors=machine.max_descriptors,
            stopping=self.stopping,
        )

    def _server(self, server: NodeServer, pids: list[int]) -> ServerReport:
        status = server_status(
            self._hub.upstreams[server.name], self._hub.meter.since_start().of_server(server.name)
        )
        uses = [self._looked.uses[pid] for pid in pids if pid in self._looked.uses]
        shares = [each.cpu for each in uses if each.cpu is not None]
        return ServerReport(
            **{name: getattr(status, name) for name in _STATUS},
            name=server.spec.name,
            digest=server.digest,
            sessions=server.spec.sessions,
            connections=server.connections,
            processes=len(uses),
            memory_bytes=sum(each.memory for each in uses) if uses else None,
            cpu=round(sum(shares), 4) if shares else None,
            last_error=None if status.last_error is None else cut(status.last_error, MAX_ERROR_CHARS),
        )
