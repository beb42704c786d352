"""A server over stdio with one of everything that the page shows; for tests.

Run as `python -S -E shown_server.py FILE`, where FILE holds a JSON object: `word` stands in every text that
the server gives (names, titles, descriptions, results, logs, errors), so that a test can put anything there,
and `changed` in the description of the tool `change`. The file is read at each start. Standard library only.

Tools: `echo` (read-only), `order` (a form with one of every kind), `draw` (an image), `say` (to standard
error), `fail`, `change`, `die`, `link` (results that lead elsewhere), `odd` (a form with odd names), and one
whose name is the word.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

GIVEN = json.loads(Path(sys.argv[1]).read_text("utf-8"))
WORD, CHANGED = GIVEN.get("word", "plain"), GIVEN.get("changed", "as it was")
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": WORD}},
    "required": ["text"],
}
ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "description": f"What to order. {WORD}"},
        "count": {"type": "integer", "minimum": 1, "maximum": 99, "default": 1},
        "weight": {"type": "number"},
        "express": {"type": "boolean"},
        "size": {"enum": ["small", "large", WORD]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "town": {"type": "string"}},
            "required": ["town"],
        },
    },
    "required": ["item"],
}

ODD = {
    "type": "object",
    "title": WORD,
    "properties": {
        name: {"type": "string", "title": WORD, "default": WORD, "pattern": WORD, "examples": [WORD]}
        for name in (WORD[:200], "__proto__", "constructor", "toString")
    },
    "additionalProperties": {"type": "object", "properties": {"hasOwnProperty": {"const": WORD}}},
}
SCRIPT = "javascript:window.owned=1"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="window.owned=1"><script>window.owned=1</script></svg>'


def tool(name: str, schema: dict[str, Any], description: str = "", **annotations: bool) -> dict[str, Any]:
    said = f"{description or name}. {WORD}"
    return {"name": name, "title": f"{name} {WORD}", "description": said, "inputSchema": schema} | (
        {"annotations": annotations} if annotations else {}
    )


TOOLS = [
    tool("echo", TEXT, "Says the text", readOnlyHint=True),
    tool("order", ORDER, "Takes an order"),
    tool("draw", {"type": "object"}, "Draws a square", readOnlyHint=True),
    tool("say", TEXT, "Says the text on standard error"),
    tool("fail", {"type": "object"}, "Fails"),
    tool("change", {"type": "object"}, CHANGED),
    tool("die", {"type": "object"}, "Ends the server"),
    tool("link", {"type": "object"}, "Gives links", readOnlyHint=True),
    tool("odd", ODD, "Takes odd names"),
    tool(WORD[:100], {"type": "object"}),
]
RESOURCES = [
    {"uri": "notes://one", "name": f"one {WORD}", "description": WORD, "mimeType": "text/plain"},
    {"uri": "notes://square", "name": "square", "mimeType": "image/png"},
    {"uri": "notes://page", "name": "page", "mimeType": "text/html"},
    {"uri": SCRIPT, "name": "script", "mimeType": "image/svg+xml"},
]
TEMPLATES = [{"uriTemplate": "notes://{name}", "name": WORD, "title": WORD, "description": WORD}]
PROMPTS = [
    {"name": "greet", "title": WORD, "description": WORD, "arguments": [{"name": "who", "description": WORD}]}
]


def png() -> str:
    """A red square of 8 by 8 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = (8).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    rows = zlib.compress((b"\x00" + b"\xff\x00\x00" * 8) * 8)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "die":
        os._exit(7)
    if name == "say":
        os.write(2, f"{arguments['text']}\n".encode())
    if name == "link":
        return {"content": links()}
    if name == "draw":
        return {"content": [{"type": "image", "data": png(), "mimeType": "image/png"}]}
    said = json.dumps(arguments) if name == "order" else str(arguments.get("text", WORD))
    return {"content": [{"type": "text", "text": f"{said} {WORD}"}], "isError": name == "fail"}


def links() -> list[dict[str, Any]]:
    """What a page might turn into something that runs."""
    svg = {"mimeType": "image/svg+xml", "data": base64.b64encode(SVG.encode()).decode()}
    page = {"uri": SCRIPT, "mimeType": "text/html", "text": SVG}
    return [
        {"type": "resource_link", "uri": SCRIPT, "name": WORD, "title": WORD, "mimeType": WORD},
        {"type": "image", **svg},
        {"type": "image", "mimeType": f"image/png;{WORD}", "data": f'" onerror="window.owned=1 {WORD}'},
        {"type": "resource", "resource": page},
        {"type": WORD, WORD: WORD},
    ]


def read(uri: str) -> dict[str, Any]:
    if uri == "notes://square":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": png()}]}
    if uri == SCRIPT:
        return {"contents": [{"uri": uri, "mimeType": "image/svg+xml", "text": SVG}]}
    kind = "text/html" if uri == "notes://page" else "text/plain"
    return {"contents": [{"uri": uri, "mimeType": kind, "text": f"the text of {uri} {WORD}"}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": f"shown {WORD}", "version": WORD},
                "instructions": f"Everything that a page shows. {WORD}",
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "resources/list":
            return {"resources": RESOURCES}
        case "resources/templates/list":
            return {"resourceTemplates": TEMPLATES}
        case "resources/read":
            return read(params["uri"])
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            said = {"type": "text", "text": f"Greet {params.get('arguments', {}).get('who')} {WORD}"}
            return {"description": WORD, "messages": [{"role": "user", "content": said}]}
        case "ping":
            return {}
    return None


def main() -> None:
    os.write(2, f"started {WORD}\n".encode())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        error = {"code": -32601, "message": f"no such method {WORD}"}
        said = {"error": error} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


main()
