"""Entries of other MCPX, and what each of their servers is configured as. Pure.

An entry with `mcpx: true` is a `PeerConfig`: no server, but where servers come from. `derived` makes the
configuration of one of them, with the settings and rules of the entry. Rules in the entry are patterns of
the names that its servers have there, those for all servers of the names here. Called by the reading of the
file, and by `mcpx.cluster.federation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec.structs import asdict, replace

from mcpx.core.config.document import ConfigNotices, Location
from mcpx.core.config.per_server import Era, PerServer, R, Sessions, joined
from mcpx.core.config.profiles import own_pattern, own_patterns, with_meanings
from mcpx.core.config.server_config import Http, PeerConfig, Placed, ServerConfig, Sse, Stdio, Transport
from mcpx.core.config.strings import read_key
from mcpx.core.text.jsonc import JSONObject

_OF_PEERS: Final = frozenset({"prefix", "common"})


def read_peer(
    server: ServerConfig, common: PerServer, given: JSONObject, at: Location, notices: ConfigNotices
) -> PeerConfig | None:
    """The entry of another MCPX, from one that was read as a server; None if it is a server.

    `common` are the settings for all servers.

    Raises:
        LocatedError: A key of it is of the wrong type, or no MCPX is reached in that way.
    """
    prefix = None if given.get("as") is None else read_key(given, "as", at)
    if not (given.get("mcpx") is not None and read_key(given, "mcpx", at)):
        if prefix is not None:
            notices.add(at.key("as"), 'has no effect without "mcpx": true')
        return None
    if isinstance(server.transport, Sse):
        raise at.key("mcpx").error("another MCPX is reached over Streamable HTTP, or by a command")
    if isinstance(server.transport, Http) and server.transport.program is not None:
        raise at.key("mcpx").error("another MCPX is reached by a command or a URL, not by both")
    if given.get("sessions") is not None:
        notices.add(at.key("sessions"), "has no effect: the other MCPX says that for each of its servers")
    if given.get("overrides") is not None:
        notices.add(at.key("overrides"), "has no effect: write them at the other MCPX, or in a profile here")
        server = replace(server, overrides={})
    base = PerServer(**{name: getattr(common, name) for name in PerServer.__struct_fields__})
    return PeerConfig(**asdict(server), prefix=prefix, common=base)


def may_be_of_peer(peers: Iterable[PeerConfig], name: str) -> bool:
    """Return True if a server of that name may come from one of these."""
    return any(peer.prefix is None or name.startswith(f"{peer.prefix}/") for peer in peers)


def derived(peer: PeerConfig, name_there: str, sessions: Sessions) -> ServerConfig:
    """The configuration here of the server that a peer has under that name."""
    said = {name: value for name, value in asdict(peer).items() if name not in _OF_PEERS}
    server = ServerConfig(**said)
    server = replace(
        server,
        name=peer.name_here(name_there),
        name_there=name_there,
        peer=peer.name,
        aliases=(),
        sessions=sessions,
        era=_era(peer, sessions),
        transport=_endpoint(peer.transport, name_there),
    )
    return with_common_rules(server, peer.common)


def _era(peer: PeerConfig, sessions: Sessions) -> Era:
    """The era to speak in: over HTTP only the older one has sessions, by which clients are told apart."""
    if peer.era != "auto":
        return peer.era
    return "handshake" if sessions == "per_client" and peer.transport.kind == "http" else "modern"


def _endpoint(transport: Transport, name: str) -> Transport:
    """The way to the endpoint of one server. Its name is percent-encoded, so that no shell there reads it."""
    encoded = quote(name, safe="")
    if isinstance(transport, Stdio):
        return replace(transport, args=(*transport.args, f"--peer={encoded}"))
    if isinstance(transport, Placed):  # an entry never says so
        return transport
    parts = urlsplit(transport.url)
    path = f"{parts.path.rstrip('/')}/peers/{encoded}"
    return replace(transport, url=urlunsplit(parts._replace(path=path, fragment="")))


# --- rules


def with_common_rules(server: ServerConfig, common: PerServer) -> ServerConfig:
    """A server with the rules for all servers that hold beside those of its entry."""
    own_hints = {} if server.annotations is common.annotations else server.annotations
    hints = {own: its for pattern, its in own_hints.items() for own in _patterns(server, pattern)}
    others = {pattern: its for pattern, its in common.annotations.items() if pattern not in hints}
    pinned = server.pinned
    if pinned is not common.pinned:
        pinned = tuple(own_pattern(server.name, pattern, server.aliases) for pattern in pinned)
    return replace(
        server,
        tools=joined(_own_rules(server, server.tools, common.tools), common.tools),
        resources=joined(server.resources, common.resources),
        prompts=joined(_own_rules(server, server.prompts, common.prompts), common.prompts),
        annotations=others | hints,
        pinned=pinned,
    )


def _own_rules(server: ServerConfig, rules: R, common: R) -> R:
    """Return the rules of an entry, whose patterns of names become such of `server.name`."""
    given = [name for name in rules.__struct_fields__ if getattr(rules, name) is not getattr(common, name)]
    return with_meanings(rules, partial(_patterns, server), given)


def _patterns(server: ServerConfig, pattern: str) -> tuple[str, ...]:
    """Return the meanings of a pattern of an entry: in a peer's, the server may be named as it is there."""
    found = own_patterns(server.name, pattern, server.aliases)
    prefix = server.name.removesuffix(server.name_there)
    if server.peer is None or not prefix or "." not in pattern:
        return found
    return (*found, f"{prefix}{pattern}")
