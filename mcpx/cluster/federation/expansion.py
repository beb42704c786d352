"""The servers that other MCPX give this one: from their directories to a configuration, and kept in a file.

`expand` takes a configuration, with the servers of peers that it may hold already or without, and gives it
with those that the directories name. A server that would come back here is left out, and so is one whose
name cannot be used or is taken. Only what a server *is* counts here, not how it is: a server that changes
its state changes no configuration. Pure.

`PeerMemory` keeps what was known last, so that the servers are there at the next start: one file for each
peer, in the folder of the configuration. An entry that reaches its MCPX in another way than when the file was
written is a new peer. A file that cannot be read counts as none; one that cannot be written costs only what
is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.federation.directory import Directory
from mcpx.core.config import Config, PeerConfig, ServerConfig
from mcpx.core.config.peers import derived
from mcpx.core.config.per_server import Sessions
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, replace_file
from mcpx.core.text import holds_controls
from mcpx.paths import digest

log = structlog.get_logger()
MAX_OF_PEER: Final = 1000
"""Servers that one peer can add: each has a connection and a supervisor here."""
MAX_NAME: Final = 200  # bytes of a name, percent-encoded: files are called by it
_OTHER_PATHS: Final = frozenset({".", ".."})  # which no percent-encoding changes
ITSELF: Final = "this is this MCPX itself"
FOLDER: Final = "peers"
MAX_FILE_BYTES: Final = 16 << 20


class Offered(msgspec.Struct, frozen=True, omit_defaults=True):
    """A peer's server, as far as it counts. `via`: ids of the MCPX that it goes through, the peer first."""

    name: str
    sessions: Sessions = "shared"
    via: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """A peer's directory, as far as it counts. Beyond `servers` there are `more`, left out."""

    id: str
    servers: tuple[Offered, ...] = ()
    more: int = 0


class LeftOut(msgspec.Struct, frozen=True):
    """A server of a peer that is none here, and why; without `server` none of the peer's is."""

    peer: str
    server: str | None
    why: str


class Expansion(msgspec.Struct, frozen=True):
    """A configuration with the servers of its peers, and what was left out of it."""

    config: Config
    left_out: tuple[LeftOut, ...] = ()


def offered_by(directory: Directory) -> Known:
    """Reduce a directory to what counts."""
    counting = directory.servers[:MAX_OF_PEER]
    servers = tuple(Offered(each.name, each.sessions, tuple(each.via)) for each in counting)
    return Known(directory.mcpx.id, servers, len(directory.servers) - len(servers))


def expand(config: Config, known: Mapping[str, Known], own_id: str) -> Expansion:
    """The configuration with the servers that its peers are known to have, after those of its own."""
    servers = {name: server for name, server in config.servers.items() if server.peer is None}
    left_out: list[LeftOut] = []
    for peer in config.peers.values():
        its = known.get(peer.name)
        if its is None or peer.disabled is not None:
            continue
        if its.id == own_id:
            left_out.append(LeftOut(peer.name, None, ITSELF))
            continue
        for found in _servers_of(peer, its, servers, own_id):
            if isinstance(found, LeftOut):
                left_out.append(found)
            else:
                servers[found.name] = found
    return Expansion(replace(config, servers=servers), tuple(left_out))


def _servers_of(
    peer: PeerConfig, known: Known, taken: Mapping[str, ServerConfig], own_id: str
) -> Iterator[ServerConfig | LeftOut]:
    more = known.more + len(known.servers[MAX_OF_PEER:])
    if more:
        yield LeftOut(peer.name, None, f"{more} more servers: one MCPX can add {MAX_OF_PEER}")
    for each in known.servers[:MAX_OF_PEER]:
        name = peer.name_here(each.name)
        if own_id in each.via:
            yield LeftOut(peer.name, each.name, "it comes from here")
        elif problem := _bad_name(each.name, name):
            yield LeftOut(peer.name, each.name[:MAX_NAME], problem)
        elif name in taken:
            other = taken[name].peer
            owner = "a server of the configuration" if other is None else f"a server of {other}"
            yield LeftOut(peer.name, each.name, f'the name {name} is that of {owner}; "as" gives a prefix')
        else:
            yield derived(peer, each.name, each.sessions)


def _bad_name(name: str, here: str) -> str | None:
    if not name.strip() or holds_controls(name):
        return "its name is empty, or holds control characters"
    if name in _OTHER_PATHS:
        return "its name means another path in a URL"
    return "its name is too long" if len(quote(here, safe="")) > MAX_NAME else None


class _Kept(msgspec.Struct, frozen=True):
    reached: str
    known: Known


class PeerMemory:
    """The files. `folder` is that of the configuration. The methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def read(self, peer: PeerConfig) -> Known | None:
        """Read what is kept of a peer."""
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            kept = msgspec.json.decode(
                read_own_file(self._path(peer), MAX_FILE_BYTES, closed_to=0), type=_Kept
            )
            return kept.known if kept.reached == _reached(peer) else None
        return None

    def write(self, peer: PeerConfig, known: Known) -> None:
        """Keep what is known of a peer."""
        try:
            ensure_folder(self._folder)
            replace_file(self._path(peer), msgspec.json.encode(_Kept(_reached(peer), known)))
        except OSError as error:
            log.warning("peer.not_remembered", peer=peer.name, reason=error.strerror)

    def _path(self, peer: PeerConfig) -> Path:
        return self._folder / f"{digest(peer.name)}.json"


def _reached(peer: PeerConfig) -> str:
    """Digest of how a peer is reached: the text may hold secrets."""
    return digest(msgspec.json.encode(peer.transport).decode(errors="replace"))
