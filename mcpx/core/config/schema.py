"""The configuration as a JSON Schema, for editors and for readers.

Owns the assembly alone: every key, bound, meaning and default comes from the structs that the parser reads,
by way of msgspec, so that the document cannot drift from the program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import combinations
from typing import Any, Final

import msgspec

from mcpx.core.config.entries import FORMS
from mcpx.core.config.model import Settings
from mcpx.core.config.per_server import FLAT, PerServer
from mcpx.core.config.server_config import OAuth
from mcpx.core.config.strings import URL_KEYS, EntryKeys

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_OR_ARRAYS: Final = ("AccessRules", "ToolRules")
"""Structs for which an array may stand: of what is allowed."""
_OR_ARRAY: Final[dict[str, Any]] = {"type": ["object", "array"], "items": {"type": "string", "minLength": 1}}
_COMMENT: Final = r"^(_|//|\$schema$)"


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
        "description": "One server: a command or a url, or both. ${VAR} and ${VAR:-default} are expanded.",
        "type": "object",
        "properties": _properties(EntryKeys) | _for_one(per_server),
        "anyOf": [{"required": [key]} for key in ("command", *URL_KEYS)],
        "not": {"anyOf": [{"required": [*pair]} for pair in combinations(URL_KEYS, 2)]},
        "additionalProperties": True,
    }


def _properties(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return what a struct takes at its level of the file; the objects inside are written out."""
    _, found = msgspec.json.schema_components([struct], ref_template="{name}")
    components: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))  # defaults as plain JSON

    def of(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, rule in components[name]["properties"].items():
            if key in FLAT:
                found |= of(rule["$ref"])
            else:
                found[key] = _merged(rule, of, components)
        return found

    return of(struct.__name__)


def _merged(
    rule: dict[str, Any], of: Callable[[str], dict[str, Any]], components: dict[str, Any]
) -> dict[str, Any]:
    """The rule for a value, with the objects inside written out."""
    if (struct := next((each for each in rule.get("anyOf", ()) if "$ref" in each), None)) is not None:
        if struct["$ref"] not in _OR_ARRAYS:
            return rule | {"anyOf": [_merged(each, of, components) for each in rule["anyOf"]]}
        rule = {name: value for name, value in rule.items() if name != "anyOf"} | struct
    if isinstance(members := rule.get("additionalProperties"), dict):
        or_array = _OR_ARRAY if any(name in str(members) for name in _OR_ARRAYS) else {}
        return rule | {"additionalProperties": _merged(members, of, components)} | or_array
    if "$ref" not in rule:
        return rule
    name = rule["$ref"]
    merged = {"type": "object", **{key: rule[key] for key in ("description",) if key in rule}}
    merged["properties"] = of(name)
    if name in _OR_ARRAYS:
        merged |= _OR_ARRAY
    if components[name].get("additionalProperties") is False:
        taken: dict[str, Any] = {_COMMENT: {}}
        if name == OAuth.__name__:
            taken[_spelled_otherwise(merged["properties"])] = {}
            merged["properties"]["scopes"]["type"] = ["array", "string"]
        return merged | {"patternProperties": taken, "additionalProperties": False}
    return merged | {"additionalProperties": True}


def _spelled_otherwise(keys: Collection[str]) -> str:
    """A pattern of keys in the spellings of other clients: `CLIENT_ID`, `clientId`."""
    words = (key.split("_") for key in keys)
    camel = ("".join([first, *map(str.capitalize, rest)]) for first, *rest in words)
    return f"^({'|'.join([*map(str.upper, keys), *camel])})$"


def _for_one(settings: dict[str, Any]) -> dict[str, Any]:
    """The same for one server: without a default, which is what stands at the top level."""
    found: dict[str, Any] = {}
    for key, rule in settings.items():
        own = {name: value for name, value in rule.items() if name != "default"}
        if "properties" in rule:
            own["properties"] = _for_one(rule["properties"])
        found[key] = own | {"description": f"{rule['description']} For this server alone."}
    return found
