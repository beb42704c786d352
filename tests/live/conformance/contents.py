"""What the reference servers of the conformance suite offer, as plain JSON: the same for every SDK and era.

Made after the requirements that the suite's scenarios state. `reference.py` (SDK 2, both eras) and
`reference_v1.py` (SDK 1, the handshake era) serve it; neither this module nor those import MCPX.
"""

from __future__ import annotations

from typing import Any, Final

JSON = dict[str, Any]

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PAUSE_S: Final = 0.05
"""Between two notifications of a tool: the suite wants to see them come one by one."""
RECONNECTION_S: Final = 0.5
"""How long `test_reconnection` goes on after its stream is closed; after 0.2 s MCPX makes a stream."""


def text(words: str) -> JSON:
    """A content block of text."""
    return {"type": "text", "text": words}


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> JSON:
    """A content block that holds a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


IMAGE: Final[JSON] = {"type": "image", "data": PNG, "mimeType": "image/png"}

RESULTS: Final[dict[str, JSON]] = {
    "test_simple_text": {"content": [text("This is a simple text response for testing.")]},
    "test_image_content": {"content": [IMAGE]},
    "test_audio_content": {"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]},
    "test_embedded_resource": {
        "content": [embedded("test://embedded-resource", "This is an embedded resource content.")]
    },
    "test_multiple_content_types": {
        "content": [
            text("Multiple content types test:"),
            IMAGE,
            embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
        ]
    },
    "test_error_handling": {
        "content": [text("This tool intentionally returns an error for testing")],
        "isError": True,
    },
    "json_schema_2020_12_tool": {"content": [text("taken")]},
    "test_custom_header": {"content": [text("taken")]},
}
"""The tools that always answer the same."""

_NOTHING: Final[JSON] = {"type": "object", "properties": {}}
_RICH_SCHEMA: Final[JSON] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _one_string(name: str, **more: Any) -> JSON:
    return {"type": "object", "properties": {name: {"type": "string", **more}}, "required": [name]}


def _tool(name: str, description: str, schema: JSON = _NOTHING) -> JSON:
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS: Final[list[JSON]] = [
    _tool("test_simple_text", "Answer with one text"),
    _tool("test_image_content", "Answer with an image"),
    _tool("test_audio_content", "Answer with a sound"),
    _tool("test_embedded_resource", "Answer with an embedded resource"),
    _tool("test_multiple_content_types", "Answer with a text, an image and a resource"),
    _tool("test_error_handling", "Fail"),
    _tool("json_schema_2020_12_tool", "Take arguments of a rich schema", _RICH_SCHEMA),
    _tool("test_tool_with_logging", "Log three messages"),
    _tool("test_tool_with_progress", "Report progress three times"),
    _tool("test_reconnection", "Close the stream of this call, go on, then answer"),
    _tool("test_sampling", "Ask the client's model", _one_string("prompt")),
    _tool("test_elicitation", "Ask the user", _one_string("message")),
    _tool("test_elicitation_sep1034_defaults", "Ask the user with defaults"),
    _tool("test_elicitation_sep1330_enums", "Ask the user with choices of every kind"),
]
"""The tools of both eras."""

USER_SCHEMA: Final[JSON] = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS_SCHEMA: Final[JSON] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}


def _titled(noun: str) -> list[JSON]:
    ordinals = ("First", "Second", "Third")
    return [{"const": f"value{n}", "title": f"{word} {noun}"} for n, word in enumerate(ordinals, 1)]


_OPTIONS: Final = ["option1", "option2", "option3"]
CHOICES_SCHEMA: Final[JSON] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("Choice")}},
    },
}

RESOURCES: Final[list[JSON]] = [
    {
        "uri": "test://static-text",
        "name": "Static text",
        "description": "A text that stays the same",
        "mimeType": "text/plain",
    },
    {
        "uri": "test://static-binary",
        "name": "Static image",
        "description": "An image of one point",
        "mimeType": "image/png",
    },
    {
        "uri": "test://watched-resource",
        "name": "Watched",
        "description": "A text to subscribe to",
        "mimeType": "text/plain",
    },
]
TEMPLATES: Final[list[JSON]] = [
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "Data by id",
        "description": "A text that names its id",
        "mimeType": "application/json",
    }
]
_TEMPLATE_ENDS: Final = ("test://template/", "/data")


def read(uri: str) -> JSON | None:
    """The result of `resources/read`; None where there is no such resource."""
    start, end = _TEMPLATE_ENDS
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": words}]}
    if uri == "test://static-binary":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}]}
    if uri == "test://watched-resource":
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "Watched."}]}
    if uri.startswith(start) and uri.endswith(end) and len(uri) > len(start + end):
        name = uri[len(start) : -len(end)]
        words = f'{{"id":"{name}","templateTest":true,"data":"Data for ID: {name}"}}'
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": words}]}
    return None


PROMPTS: Final[list[JSON]] = [
    {"name": "test_simple_prompt", "description": "One message"},
    {
        "name": "test_prompt_with_arguments",
        "description": "A message with both arguments",
        "arguments": [
            {"name": "arg1", "description": "First test argument", "required": True},
            {"name": "arg2", "description": "Second test argument", "required": True},
        ],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "A message that holds a resource",
        "arguments": [{"name": "resourceUri", "description": "Its URI", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "A message that holds an image"},
]


def prompt(name: str, arguments: dict[str, str]) -> JSON | None:
    """The result of `prompts/get`; None where there is no such prompt."""
    blocks: dict[str, list[JSON]] = {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            embedded(arguments.get("resourceUri", ""), "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, text("Please analyze the image above.")],
    }
    if name not in blocks:
        return None
    return {"messages": [{"role": "user", "content": block} for block in blocks[name]]}


def complete(value: str) -> JSON:
    """The result of `completion/complete`."""
    values = [word for word in ("paris", "park", "party") if word.startswith(value)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
