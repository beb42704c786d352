"""Reads the result of `initialize` as tolerantly as the official clients do. Everything here is pure.

They differ in what they accept; what any of them accepts is accepted here, and an odd member that nothing
depends on is dropped. Required are a protocol version, and objects where objects belong.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from pydantic import ValidationError

from mcpx.catalog.model import JSON

_FEATURES: Final = {
    "tools": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "prompts": ("listChanged",),
    "logging": (),
    "completions": (),
}


def read_initialize(raw: JSON) -> types.InitializeResult:
    """Parse the result of `initialize`.

    Raises:
        ValidationError: It is not one.
    """
    try:
        return types.InitializeResult.model_validate(raw, by_name=False)
    except ValidationError:
        return types.InitializeResult.model_validate(_plain(raw), by_name=False)


def _plain(raw: JSON) -> JSON:
    """The result without its odd members; a missing version stays missing."""
    texts = {key: raw[key] for key in ("protocolVersion", "instructions") if isinstance(raw.get(key), str)}
    return {
        **texts,
        "capabilities": _capabilities(raw.get("capabilities")),
        "serverInfo": _server_info(raw.get("serverInfo")),
    }


def _capabilities(value: Any) -> JSON:
    """The capabilities. A feature that is declared with anything but an object is declared all the same."""
    if not isinstance(value, dict):
        return {}
    return {
        feature: _flags(value[feature], flags)
        for feature, flags in _FEATURES.items()
        if value.get(feature) is not None and value[feature] is not False
    }


def _flags(value: Any, flags: tuple[str, ...]) -> JSON:
    if not isinstance(value, dict):
        return {}
    return {flag: value[flag] for flag in flags if isinstance(value.get(flag), bool)}


def _server_info(value: Any) -> JSON:
    info = value if isinstance(value, dict) else {}
    texts = {key: info[key] for key in ("name", "title", "version") if isinstance(info.get(key), str)}
    return {"name": "", "version": "", **texts}
