"""The configuration as a JSON Schema, for editors and for readers.

Owns the assembly alone: every key, rule, meaning and default comes from the tables that the parser reads, so
that the document cannot drift from the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mcpx.config.servers import SWITCHES
from mcpx.config.settings import FOR_EACH_SERVER, TOP_LEVEL, Group
from mcpx.config.strings import KEYS, URL_KEYS
from mcpx.config.transport import TYPE_KEYS, TYPES
from mcpx.config.values import JSON

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> JSON:
    """JSON Schema 2020-12 of the configuration file: every accepted setting with its meaning and default."""
    return {
        "$schema": DIALECT,
        "title": "MCPX configuration",
        "description": "The servers behind MCPX, and its settings. Unknown keys have no effect.",
        "type": "object",
        "properties": _forms() | _settings(TOP_LEVEL, defaults=True),
        "anyOf": [{"required": [form]} for form in _forms()],
        "additionalProperties": True,
        "$defs": {"server": _server(), "servers": _servers()},
    }


def _forms() -> JSON:
    named = {"$ref": "#/$defs/servers"}
    listed = {
        "allOf": [{"$ref": "#/$defs/server"}],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Name of the server, used once."}
        },
        "required": ["name"],
    }
    return {
        "mcpServers": named
        | {"description": "The servers by name, as desktop and terminal clients write them."},
        "servers": named | {"description": "The servers by name, as editors write them."},
        "mcp": {
            "description": "An editor's settings, with the servers inside.",
            "type": "object",
            "properties": {"servers": named},
            "additionalProperties": True,
        },
        "mcp_servers": {
            "description": "The servers as a list, each with its name.",
            "type": "array",
            "items": listed,
        },
    }


def _servers() -> JSON:
    return {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"$ref": "#/$defs/server"},
    }


def _server() -> JSON:
    reached = {key: check.schema() | {"description": text} for key, (check, text) in KEYS.items()}
    types = {"enum": list(TYPES), "description": "How the server is reached; may be left out."}
    switches = {key: {"type": "boolean", "description": text} for key, text in SWITCHES.items()}
    return {
        "description": "One server: a command or a url. ${VAR} and ${VAR:-default} are expanded.",
        "type": "object",
        "properties": reached
        | dict.fromkeys(TYPE_KEYS, types)
        | switches
        | _settings(FOR_EACH_SERVER, defaults=False),
        "oneOf": [{"required": [key]} for key in ("command", *URL_KEYS)],
        "additionalProperties": True,
    }


def _settings(groups: Iterable[Group], *, defaults: bool) -> JSON:
    """The properties of these groups; without `defaults`, that is what stands at the top level."""
    found: JSON = {}
    for group in groups:
        rules = {each.key: _setting(group, each.key, defaults=defaults) for each in group.settings}
        if group.under is None:
            found |= rules
        else:
            nested: JSON = {"type": "object", "description": group.text, "properties": rules}
            found[group.under] = nested | {"additionalProperties": True}
    return found


def _setting(group: Group, key: str, *, defaults: bool) -> JSON:
    setting = next(each for each in group.settings if each.key == key)
    if not defaults:
        return setting.check.schema() | {"description": f"{setting.text} For this server alone."}
    default: Any = msgspec.to_builtins(group.default(setting))
    plain = list(default) if isinstance(default, tuple) else default
    return setting.check.schema() | {"description": setting.text, "default": plain}
