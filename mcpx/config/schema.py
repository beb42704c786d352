"""The configuration as a JSON Schema, for editors and for readers.

Owns the assembly alone: every key, bound, meaning and default comes from the structs that the parser reads,
by way of msgspec, so that the document cannot drift from the program.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.config.model import Settings
from mcpx.config.per_server import FLAT, PerServer
from mcpx.config.servers import FORMS
from mcpx.config.strings import URL_KEYS, EntryKeys

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of the configuration file: every accepted setting with its meaning and default."""
    per_server = _properties(PerServer)
    return {
        "$schema": DIALECT,
        "title": "MCPX configuration",
        "description": "The servers behind MCPX, and its settings. Unknown keys have no effect.",
        "type": "object",
        "properties": _forms() | _properties(Settings) | per_server,
        "anyOf": [{"required": [form]} for form in FORMS],
        "additionalProperties": True,
        "$defs": {"server": _server(per_server), "servers": _servers()},
    }


def _forms() -> dict[str, Any]:
    named = {"$ref": "#/$defs/servers"}
    about = {
        "mcpServers": "The servers by name, as desktop and terminal clients write them.",
        "servers": "The servers by name, as editors write them.",
        "mcp": "An editor's settings, with the servers inside: by name, or under servers.",
        "mcp_servers": "The servers as a list, each with its name.",
    }
    inside = {"type": "object", "properties": {"servers": named}, "additionalProperties": True}
    return {
        form: (inside if form == "mcp" else named) | {"description": meaning}
        for form, meaning in about.items()
    }


def _servers() -> dict[str, Any]:
    server = {"$ref": "#/$defs/server"}
    name = {"type": "string", "minLength": 1, "description": "Name of the server, used once."}
    listed = {"allOf": [server], "properties": {"name": name}, "required": ["name"]}
    return {
        "type": ["object", "array"],
        "propertyNames": {"minLength": 1},
        "additionalProperties": server,
        "items": listed,
    }


def _server(per_server: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": "One server: a command or a url. ${VAR} and ${VAR:-default} are expanded.",
        "type": "object",
        "properties": _properties(EntryKeys) | _for_one(per_server),
        "oneOf": [{"required": [key]} for key in ("command", *URL_KEYS)],
        "additionalProperties": True,
    }


def _properties(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """What a struct takes at its level of the file; the objects inside are written out."""
    _, found = msgspec.json.schema_components([struct], ref_template="{name}")
    components: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))  # defaults as plain JSON

    def of(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, rule in components[name]["properties"].items():
            members = rule.get("additionalProperties")
            if isinstance(members, dict) and "$ref" in members:
                inside = {"type": "object", "properties": of(members["$ref"]), "additionalProperties": True}
                found[key] = rule | {"additionalProperties": inside}
            elif "$ref" not in rule:
                found[key] = rule
            elif key in FLAT:
                found |= of(rule["$ref"])
            else:
                nested = {"type": "object", "description": rule["description"]}
                found[key] = nested | {"properties": of(rule["$ref"]), "additionalProperties": True}
        return found

    return of(struct.__name__)


def _for_one(settings: dict[str, Any]) -> dict[str, Any]:
    """The same for one server: without a default, which is what stands at the top level."""
    found: dict[str, Any] = {}
    for key, rule in settings.items():
        own = {name: value for name, value in rule.items() if name != "default"}
        if "properties" in rule:
            own["properties"] = _for_one(rule["properties"])
        found[key] = own | {"description": f"{rule['description']} For this server alone."}
    return found
