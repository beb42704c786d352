"""Greetings: what MCPX says of itself to a server, and how its answer is read. Everything here is pure.

The results of `initialize` and of `server/discover` are read as tolerantly as the official clients do. They
differ in what they accept; what any of them accepts is accepted here, and an odd member that nothing depends
on is dropped. Required are a protocol version, and objects where objects belong.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import BaseModel, ValidationError

from mcpx.core.catalog.model import JSON

_FEATURES: Final = {
    "tools": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "prompts": ("listChanged",),
    "logging": (),
    "completions": (),
}


Greeting = types.InitializeResult | types.DiscoverResult
"""The server's half of a greeting."""

# --- what is said


def initialize_params(client: types.Implementation, capabilities: types.ClientCapabilities) -> JSON:
    """The parameters of `initialize`."""
    version = LATEST_HANDSHAKE_VERSION
    params = types.InitializeRequestParams(
        protocol_version=version, capabilities=capabilities, client_info=client
    )
    return _sent(params)


def discover_params(
    client: types.Implementation, capabilities: types.ClientCapabilities, version: str
) -> JSON:
    """The parameters of `server/discover` in that revision."""
    meta = {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: _sent(client),
        CLIENT_CAPABILITIES_META_KEY: _sent(capabilities),
    }
    return {"_meta": meta}


def _sent(model: BaseModel) -> JSON:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


# --- what is answered


def read_initialize(raw: JSON) -> types.InitializeResult:
    """Read the result of `initialize`.

    Raises:
        RuntimeError: It names a revision that is not known.
        ValidationError: It is not such a result.
    """
    try:
        result = types.InitializeResult.model_validate(raw, by_name=False)
    except ValidationError:
        result = types.InitializeResult.model_validate(_plain_initialize(raw), by_name=False)
    if result.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise RuntimeError(f"the server speaks an unknown revision: {result.protocol_version[:100]}")
    return result


def shared_version(error: MCPError) -> str | None:
    """The newest revision of 2026-07-28 or later that a refusal names, if we know it."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.error.data, dict):
        return None
    named = error.error.data.get("supported")
    shared = [each for each in MODERN_PROTOCOL_VERSIONS if each in (named if isinstance(named, list) else ())]
    return shared[-1] if shared else None


def read_discover(raw: JSON) -> types.DiscoverResult:
    """Read the result of `server/discover`.

    Raises:
        RuntimeError: It names no revision of that era that is known.
        ValidationError: It is not such a result.
    """
    try:
        result = types.DiscoverResult.model_validate(raw, by_name=False)
    except ValidationError:
        result = types.DiscoverResult.model_validate(_plain_discover(raw), by_name=False)
    if LATEST_MODERN_VERSION not in result.supported_versions:
        shown = ", ".join(result.supported_versions)[:100]
        raise RuntimeError(f"the server speaks unknown revisions: {shown}")
    return result


def _plain_initialize(raw: JSON) -> JSON:
    """The result without its odd members; a missing version stays missing."""
    return {
        **_texts(raw, "protocolVersion", "instructions"),
        "capabilities": _capabilities(raw.get("capabilities")),
        "serverInfo": _server_info(raw.get("serverInfo")),
    }


def _plain_discover(raw: JSON) -> JSON:
    """The result without its odd members; missing versions stay missing."""
    plain = {**_texts(raw, "instructions"), "capabilities": _capabilities(raw.get("capabilities"))}
    versions, meta = raw.get("supportedVersions"), raw.get("_meta")
    if isinstance(versions, list):
        plain["supportedVersions"] = [each for each in versions if isinstance(each, str)]
    return plain | ({"_meta": meta} if isinstance(meta, dict) else {})


def _texts(raw: JSON, *names: str) -> JSON:
    return {name: raw[name] for name in names if isinstance(raw.get(name), str)}


def _capabilities(value: Any) -> JSON:
    """The capabilities. A feature that is declared with anything but an object is declared all the same."""
    if not isinstance(value, dict):
        return {}
    found: JSON = {
        feature: _flags(value[feature], flags)
        for feature, flags in _FEATURES.items()
        if value.get(feature) is not None and value[feature] is not False
    }
    if isinstance(extensions := value.get("extensions"), dict):
        found["extensions"] = {name: each for name, each in extensions.items() if isinstance(each, dict)}
    return found


def _flags(value: Any, flags: tuple[str, ...]) -> JSON:
    if not isinstance(value, dict):
        return {}
    return {flag: value[flag] for flag in flags if isinstance(value.get(flag), bool)}


def _server_info(value: Any) -> JSON:
    info = value if isinstance(value, dict) else {}
    return {"name": "", "version": "", **_texts(info, "name", "title", "version")}
