"""What the clients of a door are shown: which servers, which of their tools, and under which settings. Pure.

A door without `only` and `profile` shows all. Of any other, what is hidden does not exist for its clients:
nothing here or above may answer them from more than a `Selection`. A profile that is no longer configured
shows nothing.

A profile narrows the rules of the configuration and never widens them. It is what a person chooses for a
client. It protects against a client only that comes over HTTP with a token for a profile: any other may
connect at another door.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.core.config import Config, Profile, ServerConfig
from mcpx.core.config.document import quote
from mcpx.core.config.profiles import chosen, did_you_mean, no_server
from mcpx.core.policy.catalogue_rules import DENY_ALL, Rules
from mcpx.core.system.endpoint import Door
from mcpx.errors import MCPXError

NOTHING: Final = Profile(servers=())
ALL: Final = Profile()


class DoorError(MCPXError):
    """A door names a profile or servers that there are not."""


class Selection(msgspec.Struct, frozen=True):
    """What is shown.

    `config` is the configuration with the servers that are shown and no others, each as the profile has it.
    `profile` says what is shown of these servers; without one, everything.
    """

    config: Config
    profile: Profile | None = None

    def rules(self, server: str) -> Rules | None:
        """The rules beside a server's own; None where there is no profile, and never can be."""
        profile = self.profile
        if profile is None:
            return None
        if server not in self.config.servers:
            return DENY_ALL
        aliases = self.config.servers[server].aliases
        return Rules(server, profile.tool_rules(server), profile.resources, profile.prompts, aliases)


def select(door: Door, config: Config) -> Selection:
    """What the clients of a door are shown of a configuration."""
    if door.shows_all:
        return Selection(config)
    door = by_own_names(door, config)
    profile = ALL if door.profile is None else config.profiles.get(door.profile, NOTHING)
    names: Iterable[str] = config.servers
    if door.peer is not None:  # a node has a thousand such doors
        names = (door.peer,) if door.peer in config.servers else ()
    names = chosen(names, profile.servers)
    if door.only is not None:
        names = chosen(names, door.only)
    servers = {name: _as_shown(config.servers[name], profile) for name in names}
    return Selection(replace(config, servers=servers), None if profile is ALL else profile)


def by_own_names(door: Door, config: Config) -> Door:
    """A door that names each server by its own name, and by none of its aliases."""
    own = config.server_named
    return replace(
        door,
        server=door.server and own(door.server),
        peer=door.peer and own(door.peer),
        only=door.only and tuple(sorted({own(name) for name in door.only})),
    )


def serving_only(door: Door, config: Config) -> Config:
    """A configuration with the servers that a door shows and no others, for a process that serves it alone.

    They are as configured: it is still the door that hides their tools.
    """
    shown = select(door, config).config.servers
    return replace(config, servers={name: config.servers[name] for name in shown})


def _as_shown(server: ServerConfig, profile: Profile) -> ServerConfig:
    expose = server.expose if profile.expose is None else profile.expose
    pinned = server.pinned if profile.pinned is None else profile.pinned
    return replace(server, expose=expose, pinned=pinned)


def check_door(door: Door, config: Config) -> None:
    """Check that what a door names is there. What it hides is not named in the error.

    Raises:
        DoorError: There is no such profile, or no such server among those that it shows.
    """
    if door.profile is not None and door.profile not in config.profiles:
        if not config.profiles:
            raise DoorError(f"there is no profile {quote(door.profile)}: none is configured")
        hint = did_you_mean(door.profile, config.profiles)
        raise DoorError(f"there is no profile {quote(door.profile)}{hint}")
    if door.peer is not None and not select(door, config).config.servers:
        servers = select(replace(door, peer=None), config).config.servers
        raise DoorError(no_server(door.peer, servers))
    if door.only is None:
        return
    if not door.only:
        raise DoorError("no server is named")
    servers = select(replace(door, only=None), config).config.servers
    for name in door.only:
        if not chosen(servers, (config.server_named(name),)):
            raise DoorError(no_server(name, servers))
