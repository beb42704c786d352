"""The servers, tools and settings that the clients of an endpoint are shown. Pure.

An endpoint without `only` and `profile` shows all. Of any other, what is hidden does not exist for its
clients: nothing here or above may answer them from more than a `Selection`. A profile that is no longer
configured shows nothing.

A profile narrows the rules of the configuration and never widens them. It is what a person chooses for a
client. It protects against a client only that comes over HTTP with a token for a profile: any other may
connect at another endpoint.
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
from mcpx.core.policy.overrides import ToolOverrides
from mcpx.core.system.endpoint import Endpoint
from mcpx.errors import MCPXError

NOTHING: Final = Profile(servers=())
ALL: Final = Profile()


class EndpointError(MCPXError):
    """An endpoint names a profile or servers that there are not."""


class Selection(msgspec.Struct, frozen=True):
    """Servers that are shown, and what of them.

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
        config = self.config.servers[server]
        return Rules(
            server,
            profile.tool_rules(server),
            profile.resources,
            profile.prompts,
            config.aliases,
            overrides=ToolOverrides(profile.overrides_of(server)),
            below=ToolOverrides(config.overrides),
        )


def select(endpoint: Endpoint, config: Config) -> Selection:
    """Select what the clients of an endpoint are shown of a configuration."""
    if endpoint.shows_all and not any(each.project for each in config.servers.values()):
        return Selection(config)
    endpoint = by_own_names(endpoint, config)
    profile = ALL if endpoint.profile is None else config.profiles.get(endpoint.profile, NOTHING)
    names: Iterable[str] = [
        name for name, each in config.servers.items() if each.project in (None, endpoint.project)
    ]
    if endpoint.peer is not None:  # a node has a thousand such endpoints
        known = config.servers.get(endpoint.peer)
        names = () if known is None or known.project is not None else (endpoint.peer,)
    names = chosen(names, profile.servers)
    if endpoint.only is not None:
        names = chosen(names, endpoint.only)
    servers = {name: _as_shown(config.servers[name], profile) for name in names}
    return Selection(replace(config, servers=servers), None if profile is ALL else profile)


def by_own_names(endpoint: Endpoint, config: Config) -> Endpoint:
    """An endpoint that names each server by its own name, and by none of its aliases."""
    own = config.server_named
    return replace(
        endpoint,
        server=endpoint.server and own(endpoint.server),
        peer=endpoint.peer and own(endpoint.peer),
        only=endpoint.only and tuple(sorted({own(name) for name in endpoint.only})),
    )


def serving_only(endpoint: Endpoint, config: Config) -> Config:
    """A configuration with only the servers that an endpoint shows, for a process that serves it alone.

    They are as configured: it is still the endpoint that hides their tools.
    """
    shown = select(endpoint, config).config.servers
    return replace(config, servers={name: config.servers[name] for name in shown})


def _as_shown(server: ServerConfig, profile: Profile) -> ServerConfig:
    expose = server.expose if profile.expose is None else profile.expose
    pinned = server.pinned if profile.pinned is None else profile.pinned
    return replace(server, expose=expose, pinned=pinned)


def check_endpoint(endpoint: Endpoint, config: Config) -> None:
    """Check that what an endpoint names is there. What it hides is not named in the error.

    Raises:
        EndpointError: There is no such profile, or no such server among those that it shows.
    """
    if endpoint.profile is not None and endpoint.profile not in config.profiles:
        if not config.profiles:
            raise EndpointError(f"there is no profile {quote(endpoint.profile)}: none is configured")
        hint = did_you_mean(endpoint.profile, config.profiles)
        raise EndpointError(f"there is no profile {quote(endpoint.profile)}{hint}")
    if endpoint.peer is not None and not select(endpoint, config).config.servers:
        servers = select(replace(endpoint, peer=None), config).config.servers
        raise EndpointError(no_server(endpoint.peer, servers))
    if endpoint.only is None:
        return
    if not endpoint.only:
        raise EndpointError("no server is named")
    servers = select(replace(endpoint, only=None), config).config.servers
    for name in endpoint.only:
        if not chosen(servers, (config.server_named(name),)):
            raise EndpointError(no_server(name, servers))
