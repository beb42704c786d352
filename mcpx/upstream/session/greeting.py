"""What a server says of itself in the older handshake, read as the official clients read it: pure.

They differ in what they take; what any of them takes is taken, and what only adorns the answer is dropped
where it is odd. Needed are a protocol version, and objects where objects belong.
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
    """The result of `initialize`.

    Raises:
        ValidationError: It cannot be understood.
    """
    try:
        return types.InitializeResult.model_validate(raw, by_name=False)
    except ValidationError:
        return types.InitializeResult.model_validate(_plain(raw), by_name=False)


def _plain(raw: JSON) -> JSON:
    """The answer without what is odd in it; a version that is missing stays missing."""
    texts = {key: raw[key] for key in ("protocolVersion", "instructions") if isinstance(raw.get(key), str)}
    return {
        **texts,
        "capabilities": _capabilities(raw.get("capabilities")),
        "serverInfo": _about(raw.get("serverInfo")),
    }


def _capabilities(value: Any) -> JSON:
    """What it can do. A feature that is declared with anything but an object is declared all the same."""
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


def _about(value: Any) -> JSON:
    about = value if isinstance(value, dict) else {}
    texts = {key: about[key] for key in ("name", "title", "version") if isinstance(about.get(key), str)}
    return {"name": "", "version": "", **texts}
