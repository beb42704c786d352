"""The answers of MCPX while no daemon can be had: a client's session opens, and inspect says what is wrong.

Pure. Few shims ever import it. The texts are always the same, but for the reason; the tools are those of
`mcpx.core.gateway.tools.definitions`, with their titles, schemas and annotations. A transparent client, which
is to see one server alone, is given inspect only.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.attach.refusals import VERSION_KEY, PendingRequest, decode_object
from mcpx.core.wire.envelope import encode
from mcpx.version import __version__

MODERN: Final = "2026-07-28"
HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The protocol revisions with a handshake, the latest last."""
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
INSTRUCTIONS: Final = (
    "No server can be reached yet: inspect() says why, and what to do about it. Once that is done,"
    " inspect(query) finds tools, and exec(server_name, tool_name, arguments) runs one."
)
MENDED: Final = (
    "Tell the user. MCPX looks again by itself: when it is mended the tools appear here, and this client need"
    " not be restarted."
)
_INSPECT: Final = (
    "No server can be reached yet: inspect() says why, and what to do about it. After that, inspect(query)"
    " searches all servers' tools; inspect(server_name) lists one's; inspect(server_name, tool_name) shows"
    " one. exec runs it."
)
_EXEC: Final = (
    "Run one tool of one server; its own parameters go inside arguments. They are checked first, and nothing"
    " is sent unless they fit. An error of MCPX has a code and an outcome: not_sent (nothing happened;"
    " correct and repeat), unknown (the action may have happened; check first) or failed (the server answered"
    " with an error). One without is the tool's own answer."
)
_SELECT: Final = "JMESPath: the part of a JSON result to return, as items[].{id: id, title: title}"
_RESOURCES: Final = "Read one resource of one server. Where a URI holds {a part in braces}, fill that in."
_INFO: Final = {"name": "mcpx", "title": "MCPX", "version": __version__}
_CAPABILITIES: Final = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
_NAME: Final = {"type": "string"}
TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "inspect",
        "title": "Inspect servers and tools",
        "description": _INSPECT,
        "inputSchema": {
            "type": "object",
            "properties": {
                "server_name": _NAME,
                "tool_name": {"anyOf": [_NAME, {"type": "array", "items": _NAME}]},
                "query": {"type": "string", "description": "What to do, in a few words"},
            },
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {"anthropic/alwaysLoad": True},
    },
    {
        "name": "exec",
        "title": "Run a tool",
        "description": _EXEC,
        "inputSchema": {
            "type": "object",
            "properties": {
                "server_name": _NAME,
                "tool_name": _NAME,
                "arguments": {
                    "type": "object",
                    "description": "The tool's own parameters",
                    "additionalProperties": True,
                },
                "select": {
                    "type": "string",
                    "description": _SELECT,
                },
                "max_tokens": {
                    "type": "integer",
                    "description": "Of the result; the rest can be read afterwards",
                },
            },
            "required": ["server_name", "tool_name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": True,
        },
        "_meta": {"anthropic/alwaysLoad": True},
    },
    {
        "name": "resources",
        "title": "Read a resource",
        "description": _RESOURCES,
        "inputSchema": {
            "type": "object",
            "properties": {
                "server_name": _NAME,
                "uri": {"type": "string", "description": "Without it, the resources are listed"},
            },
            "required": ["server_name"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
)
_EMPTY_LISTS: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def result(request: PendingRequest, cause: str) -> msgspec.Raw | None:
    """The result of a request; None for one that only a daemon can answer. `cause` as for `explained`."""
    params = decode_object(request.params)
    meta = params.get("_meta")
    modern = isinstance(meta, dict) and VERSION_KEY in meta
    match request.method:
        case "initialize" if not modern:
            found = _opening(params.get("protocolVersion"))
        case "server/discover" if modern:
            found = {"supportedVersions": [MODERN], **_introduction()}
        case "tools/list":
            found = {"tools": TOOLS[:1] if request.transparent else TOOLS}
        case "tools/call" if params.get("name") == "inspect":
            found = _inspected(cause)
        case "ping" | "logging/setLevel" if not modern:
            found = {}
        case method if method in _EMPTY_LISTS:
            found = {_EMPTY_LISTS[method]: []}
        case _:
            return None
    if modern:
        found |= {"resultType": "complete", "_meta": {SERVER_INFO_KEY: _INFO}}
        if request.method != "tools/call":
            found |= {"ttlMs": 0, "cacheScope": "private"}
    return msgspec.Raw(encode(found))


def explained(cause: str) -> str:
    """What a model is to know, and do; `cause` is a sentence or two, without the last full stop."""
    return f"No server can be reached. {cause}. {MENDED}"


def _opening(version: object) -> dict[str, Any]:
    agreed = version if version in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
    return {"protocolVersion": agreed, "serverInfo": _INFO, **_introduction()}


def _introduction() -> dict[str, Any]:
    return {"capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}


def _inspected(cause: str) -> dict[str, Any]:
    text = explained(cause)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"servers": [], "error": text},
        "isError": False,
    }
