"""Greetings: what MCPX says of itself to a server, and how its answer is read. Everything here is pure.

The results of `initialize` and of `server/discover` are read as tolerantly as the official clients do. They
differ in what they accept; what any of them accepts is accepted here, and an odd member that nothing depends
on is dropped. Required are a protocol version, and objects where objects belong.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from mcpx.core.catalog.model import JSON
from mcpx.core.servers.call_errors import NotMCP
from mcpx.core.wire import envelope

_FEATURES: Final = {
    "tools": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "prompts": ("listChanged",),
    "logging": (),
    "completions": (),
}


class ServerInfo(msgspec.Struct, frozen=True):
    """A server's name, title and version for itself; a name or version that it does not say is ""."""

    name: str = ""
    version: str = ""
    title: str | None = None


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The server's half of a greeting: the revision that was agreed on, and what it says of itself."""

    version: str
    modern: bool
    capabilities: JSON
    info: ServerInfo | None
    instructions: str | None


# --- what is said


def initialize_params(client: JSON, capabilities: JSON) -> JSON:
    """The parameters of `initialize`; `client` is what MCPX says of itself."""
    return {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": capabilities, "clientInfo": client}


def discover_params(client: JSON, capabilities: JSON, version: str) -> JSON:
    """The parameters of `server/discover` in that revision; their `_meta` comes with every request of it."""
    meta = {
        envelope.PROTOCOL_VERSION_META_KEY: version,
        envelope.CLIENT_INFO_META_KEY: client,
        envelope.CLIENT_CAPABILITIES_META_KEY: capabilities,
    }
    return {"_meta": meta}


# --- what is answered


def read_initialize(raw: JSON) -> Greeting:
    """Read the result of `initialize`.

    Raises:
        RuntimeError: It names a revision that is not known.
        NotMCP: It is not such a result.
    """
    version = raw.get("protocolVersion")
    if not isinstance(version, str):
        raise NotMCP("protocolVersion: a string is required")
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise RuntimeError(f"the server speaks an unknown revision: {version[:100]}")
    return Greeting(
        version=version,
        modern=False,
        capabilities=_capabilities(raw.get("capabilities")),
        info=_server_info(raw.get("serverInfo")),
        instructions=_text(raw, "instructions"),
    )


def shared_version(error: envelope.MCPError) -> str | None:
    """The newest revision of 2026-07-28 or later that a refusal names, if we know it."""
    if error.code != envelope.UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.data, dict):
        return None
    named = error.data.get("supported")
    shared = [each for each in MODERN_PROTOCOL_VERSIONS if each in (named if isinstance(named, list) else ())]
    return shared[-1] if shared else None


def read_discover(raw: JSON) -> Greeting:
    """Read the result of `server/discover`.

    Raises:
        RuntimeError: It names no revision of that era that is known.
        NotMCP: It is not such a result.
    """
    given, meta = raw.get("supportedVersions"), raw.get("_meta")
    if not isinstance(given, list):
        raise NotMCP("supportedVersions: a list is required")
    versions = [each for each in given if isinstance(each, str)]
    shared = [each for each in MODERN_PROTOCOL_VERSIONS if each in versions]
    if LATEST_MODERN_VERSION not in shared:
        raise RuntimeError(f"the server speaks unknown revisions: {', '.join(versions)[:100]}")
    about = meta.get(envelope.SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
    named = isinstance(about, dict) and isinstance(about.get("name"), str)
    return Greeting(
        version=shared[-1],
        modern=True,
        capabilities=_capabilities(raw.get("capabilities")),
        info=_server_info(about) if named else None,
        instructions=_text(raw, "instructions"),
    )


def _text(raw: JSON, name: str) -> str | None:
    value = raw.get(name)
    return value if isinstance(value, str) else None


def _capabilities(value: Any) -> JSON:
    """The capabilities. A feature that is declared with anything but an object is declared all the same."""
    if not isinstance(value, dict):
        return {}
    found: JSON = {
        feature: _flags(value[feature], flags)
        for feature, flags in _FEATURES.items()
        if value.get(feature) is not None and value[feature] is not False
    }
    for named in ("extensions", "experimental"):
        if isinstance(given := value.get(named), dict):
            found[named] = {name: each for name, each in given.items() if isinstance(each, dict)}
    if isinstance(tasks := value.get("tasks"), dict):
        found["tasks"] = tasks
    return found


def _flags(value: Any, flags: tuple[str, ...]) -> JSON:
    if not isinstance(value, dict):
        return {}
    return {flag: value[flag] for flag in flags if isinstance(value.get(flag), bool)}


def _server_info(value: Any) -> ServerInfo:
    info = value if isinstance(value, dict) else {}
    return ServerInfo(_text(info, "name") or "", _text(info, "version") or "", _text(info, "title"))
