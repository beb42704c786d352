"""The directory of this MCPX, its id, and what a peer asks: `mcpx/servers`, `mcpx/restart`, `mcpx/log`.

A peer is told which servers are shown at its endpoint, and how they are; one that knows a version gets an
answer when there is another one. Changes that follow each other closely are one version. The requests are
JSON-RPC beside MCP, in both eras; clients do not know them. Starting a server again, and what it has logged,
are for those whose endpoint is not narrowed by a profile.

The id tells this MCPX from all others: it is random, made once, and kept in the file `id` of the
configuration's folder, so that a restart keeps it and all processes that serve it have the same. By it
a server that would come back to where it comes from is noticed.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.federation import directory as say
from mcpx.core.catalog.model import JSON, Diff, present
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.ports import Shown
from mcpx.core.daemon.status_snapshot import server_status
from mcpx.core.events.stats import Count
from mcpx.core.gateway.peer.results import as_peer_error
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.servers.server import Server
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, replace_file
from mcpx.core.system.locks import locked
from mcpx.core.system.processes import group_memory
from mcpx.core.text import cut
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcpx.errors import CallError
from mcpx.version import __version__

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]


log = structlog.get_logger()
FILE: Final = "id"
LOCK_TIMEOUT_S: Final = 2.0  # for another process that makes it, of a moment
_ID_BYTES: Final = 16
_MAX_FILE_BYTES: Final = 4096  # of a file that holds something else
_ID_CHARS: Final = frozenset("0123456789abcdef")
P = TypeVar("P", say.DirectoryRequest, say.RestartRequest, say.LogRequest)
_FAILING: Final = ("restarts", "failures", "next_attempt_in_s")
_STATUS: Final = ("name", "state", "transport", "pid", "uptime_s", *_FAILING)
"""Members of a directory's entry that are those of the server's status."""
COALESCE_S: Final = 0.2
FIRST_ANSWER_S: Final = 5.0  # at most, for one's own peers to say theirs; two may be peers of each other
REST: Final = 20.0  # times what a look took, before the next one: of many servers it takes a while
MAX_WAITING: Final = 1024  # requests that wait for a change; more are answered at once
MEMORY_AGE_S: Final = 2.0  # for which a look at the memory of the processes is good
MAX_TEXT_CHARS: Final = 2000


def own_id(folder: Path) -> str:
    """The id in that folder; made if there is none. Where it cannot be kept, it is one of this process."""
    path = folder / FILE
    try:
        if (known := _read_id(path)) is not None:
            return known
        ensure_folder(folder)
        return _make_id(path)
    except OSError as error:
        log.warning("mcpx.id_not_kept", path=str(path), reason=error.strerror)
        return secrets.token_hex(_ID_BYTES)


def _make_id(path: Path) -> str:
    """Make the file, in place of one that holds no id; of several processes the first one's id counts."""
    with locked(path.parent, timeout_s=LOCK_TIMEOUT_S):
        if (known := _read_id(path)) is not None:  # made by another, while this one waited
            return known
        made = secrets.token_hex(_ID_BYTES)
        replace_file(path, f"{made}\n".encode(), synced=False)
        return made


def _read_id(path: Path) -> str | None:
    try:
        text = read_own_file(path, _MAX_FILE_BYTES, closed_to=0).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if len(text) == 2 * _ID_BYTES and set(text) <= _ID_CHARS else None


class _Known(msgspec.Struct):
    """The servers that a view showed last. `lasting` is without what changes with time alone.

    It holds for as long as nothing is reported, and that is `seen`; `took_s` is what it took to look.
    """

    version: int
    seen: tuple[object, ...]
    servers: list[say.PeerServer]
    lasting: list[say.PeerServer]
    at: float
    took_s: float


class OwnDirectory:
    """The servers of this MCPX, for others.

    `own_id` is its id; `via` gives the ids of the MCPX that a server comes through, the next one first, and
    none for one of our own.
    """

    def __init__(self, hub: Hub, own_id: str, via: Callable[[str], Sequence[str]]) -> None:
        self.hub = hub
        self.id = own_id
        self._via = via
        self._known: WeakKeyDictionary[Shown, _Known] = WeakKeyDictionary()
        self._waiting = 0
        self._changes: int | None = None  # of catalogues, from the first request on
        self._memory: tuple[float, dict[int, int]] = (0.0, {})

    async def answer(self, view: Shown, request: say.DirectoryRequest) -> say.Directory:
        """Return what an endpoint shows; for one who has a version, once there is another, or the time is up.

        The first answer waits for the peers whose servers are not known yet: who asks takes it for all.
        """
        self._observe()
        if request.since is None:
            with anyio.move_on_after(FIRST_ANSWER_S):
                await self.hub.peers.listed()
        if request.since is not None and self._waiting < MAX_WAITING:
            self._waiting += 1
            try:
                with anyio.move_on_after(min(request.wait_s, say.MAX_WAIT_S)):
                    known = self._look(view)
                    while known.version == request.since and not self.hub.fleet.stopping:
                        await self.hub.fleet.news.wait()
                        await anyio.sleep(COALESCE_S + REST * known.took_s)
                        known = self._look(view)
            finally:
                self._waiting -= 1
        memory = await self._memory_now(view)
        known = self._look(view, max_age_s=COALESCE_S)
        named = [self._with_memory(each, memory) for each in known.servers]
        return say.Directory(say.PeerIdentity(self.id, __version__), known.version, named)

    def _observe(self) -> None:
        """From the first request on, have changes of catalogues told as those of states are."""
        if self._changes is None:
            self._changes = 0
            self.hub.observe(self._note_change)

    def _note_change(self, _server: str, _changed: Diff) -> None:
        self._changes = (self._changes or 0) + 1
        self.hub.fleet.news.pulse()

    def _look(self, view: Shown, *, max_age_s: float = math.inf) -> _Known:
        """Return what a view shows now; many ask at once, and the times in it may be that old."""
        now, known = anyio.current_time(), self._known.get(view)
        seen = self.hub.fleet.version, self._changes
        if known is not None and known.seen == seen and now - known.at <= max_age_s:
            return known
        servers = [self._server(each) for each in list(view.upstreams.values())[: say.MAX_SERVERS]]
        lasting = [_lasting(server, view.upstreams[server.name]) for server in servers]
        before = (secrets.randbits(40), lasting) if known is None else (known.version, known.lasting)
        version = before[0] + (before[1] != lasting)
        took_s = anyio.current_time() - now
        made = self._known[view] = _Known(version, seen, servers, lasting, now, took_s)
        return made

    def _server(self, shown: VisibleServer) -> say.PeerServer:
        status, info = server_status(self.hub.upstreams[shown.name], Count()), shown.info()
        error = status.last_error
        return say.PeerServer(
            **{name: getattr(status, name) for name in _STATUS},
            described=cut(info.describe_state(), MAX_TEXT_CHARS),
            sessions=shown.config.sessions,
            last_error=None if error is None else cut(error, MAX_TEXT_CHARS),
            **info.counts(),
            via=[self.id, *self._via(status.name)][: say.MAX_HOPS],
        )

    async def _memory_now(self, view: Shown) -> dict[int, int]:
        """The memory of the processes, by their groups; from a moment ago, where somebody has just asked."""
        at, found = self._memory
        if anyio.current_time() - at > MEMORY_AGE_S:
            pids = [pid for name in view.upstreams for pid in _pids(self.hub.upstreams[name])]
            found = await anyio.to_thread.run_sync(group_memory, pids) if pids else {}
            self._memory = anyio.current_time(), found
        return found

    def _with_memory(self, server: say.PeerServer, memory: dict[int, int]) -> say.PeerServer:
        upstream = self.hub.upstreams.get(server.name)
        sizes = [] if upstream is None else [memory[pid] for pid in _pids(upstream) if pid in memory]
        return replace(server, memory_bytes=sum(sizes)) if sizes else server


def _lasting(server: say.PeerServer, upstream: VisibleServer) -> say.PeerServer:
    """A server without what changes with time alone."""
    return replace(server, described=upstream.info().cause or "", uptime_s=None, next_attempt_in_s=None)


def _pids(upstream: Server) -> list[int]:
    return [each.pid for each in upstream.sessions() if each.pid is not None]


# --- the requests


async def answer(directory: OwnDirectory, view: Shown, ctx: Context, stamp: bytes | None) -> JSON:
    """Return the result of one of these requests, enclosed. `stamp` is as for `enveloped`.

    Raises:
        MCPError: There is no such method for this peer; its params are wrong; or it failed.
    """
    may_all = view.endpoint.profile is None
    try:
        match ctx.method:
            case say.SERVERS:
                result = msgspec.to_builtins(await directory.answer(view, _params(ctx, say.DirectoryRequest)))
                servers = result["servers"]  # without what is None
                result["servers"] = [present(**each) for each in servers]
            case say.RESTART if may_all:
                server = _params(ctx, say.RestartRequest).server
                view.registry.upstream(server)  # else an error, with the nearest
                await directory.hub.restart(server)
                result = {}
            case say.LOG if may_all:
                wanted = _params(ctx, say.LogRequest)
                view.registry.upstream(wanted.server)
                lines = await directory.hub.log_tail(wanted.server, wanted.lines)
                result = msgspec.to_builtins(say.LogTail(lines))
            case _:
                raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    except CallError as error:
        raise as_peer_error(error) from None
    return enclose([enveloped(result, stamp)])


def _params(ctx: Context, kind: type[P]) -> P:
    given: Mapping[str, Any] = ctx.params or {}
    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise MCPError(INVALID_PARAMS, f"Invalid params of {ctx.method}: {error}") from None
