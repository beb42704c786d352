"""A server whose results are large; raw lines, standard library only.

Its tools: `table` gives `rows` rows as JSON, `lines` so many lines of text; `several` three texts and an
image; `broken` fails with `rows` lines; `claims` is `lines` with a limit of its own, 2,000 characters;
`structured` gives rows as structured content beside one line of text, and counts its calls. A resource has
20,000 lines.
"""

from __future__ import annotations

import json
import os
import sys

ANY = {"type": "object"}
NAMES = ("table", "lines", "several", "broken", "claims", "structured", "echo")
URI = "file:///lines.txt"
calls = 0


def row(number: int) -> dict:
    return {
        "id": number,
        "name": f"row {number}",
        "price": number * 1.25,
        "tags": ["a", "b"],
        "note": "x" * 40,
    }


def table(rows: int) -> dict:
    return {"total": rows, "items": [row(number) for number in range(rows)]}


def lines(count: int) -> str:
    return "\n".join(f"line {number} of the log, with some words after it" for number in range(count))


def text(value: str) -> dict:
    return {"type": "text", "text": value}


def call(name: str, given: dict) -> dict:
    global calls  # noqa: PLW0603 - the one thing that it remembers
    calls += 1
    rows = given.get("rows", 10)
    match name:
        case "table":
            return {"content": [text(json.dumps(table(rows), indent=given.get("indent")))]}
        case "lines" | "claims":
            return {"content": [text(lines(rows))]}
        case "several":
            image = {"type": "image", "data": "aGk=" * 1000, "mimeType": "image/png"}
            return {"content": [text(lines(rows)), image, text(json.dumps(table(rows))), text("the end")]}
        case "broken":
            return {"content": [text(lines(rows))], "isError": True}
        case "structured":
            value = {**table(rows), "calls": calls}
            return {"content": [text("see the data")], "structuredContent": value}
    return {"content": [text(given.get("text", "hi"))]}


def tools() -> list[dict]:
    claim = {"_meta": {"anthropic/maxResultSizeChars": 2000}}
    return [{"name": name, "inputSchema": ANY, **(claim if name == "claims" else {})} for name in NAMES]


def result(method: str, params: dict) -> dict | None:
    match method:
        case "initialize":
            about = {"name": "tables", "version": "1"}
            capabilities = {"tools": {}, "resources": {}}
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": capabilities,
                "serverInfo": about,
            }
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "resources/list":
            return {"resources": [{"uri": URI, "name": "lines", "mimeType": "text/plain", "size": 1 << 20}]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read":
            return {"contents": [{"uri": URI, "mimeType": "text/plain", "text": lines(20_000)}]}
        case "ping":
            return {}
    return None


def serve(request: dict) -> None:
    if "id" in request:
        found = result(request["method"], request.get("params") or {})
        refusal = {"error": {"code": -32601, "message": "no such method"}}
        answer = {"jsonrpc": "2.0", "id": request["id"], **(refusal if found is None else {"result": found})}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    for line in os.fdopen(0, "rb", buffering=0):
        serve(json.loads(line))
