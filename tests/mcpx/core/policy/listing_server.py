"""A small MCP server over stdio that offers what it is told to, and notes what it is asked; for tests.

Run as `python -S -E listing_server.py OFFER`, where OFFER is a JSON object: `name`, the names of `tools` and
`prompts`, the URIs of `resources`, `templates`, the `annotations` of tools by name, the `mime_type` of the
resources, and `notes`, a file to which a line is added for each request that runs, reads, gets, completes or
subscribes to something. A request for something that it does not offer is refused as by any server. A tool
whose argument `touch` is a URI says that this resource was updated.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OFFER = json.loads(sys.argv[1])
NAME = OFFER["name"]
TOOLS, PROMPTS, RESOURCES = OFFER["tools"], OFFER["prompts"], OFFER["resources"]
TEMPLATES = OFFER["templates"]


class Refused(Exception):
    """A request that is answered by an error."""


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    entry: dict[str, Any] = {"name": name, "description": f"The {name} of {NAME}", "inputSchema": schema}
    if name in OFFER.get("annotations", {}):
        entry["annotations"] = OFFER["annotations"][name]
    return entry


def note(method: str, what: str) -> None:
    with Path(OFFER["notes"]).open("a") as file:
        file.write(f"{method} {what}\n")


def expand(params: dict[str, Any], known: list[str]) -> str:
    uri: str = params["uri"]
    if uri not in known and not any(uri.startswith(each.partition("{")[0]) for each in TEMPLATES):
        raise Refused(f"Resource not found: {uri}")
    return uri


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            capabilities: dict[str, Any] = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": capabilities | {"completions": {}},
                "serverInfo": {"name": NAME, "version": "1"},
            }
        case "tools/list":
            return {"tools": [tool(each) for each in TOOLS]}
        case "prompts/list":
            return {"prompts": [{"name": each, "arguments": [{"name": "about"}]} for each in PROMPTS]}
        case "resources/list":
            kind = {"mimeType": OFFER["mime_type"]} if "mime_type" in OFFER else {}
            return {"resources": [{"uri": each, "name": each[-1], **kind} for each in RESOURCES]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": each, "name": each} for each in TEMPLATES]}
        case "ping" | "logging/setLevel":
            return {}
    return noted(method, params)


def noted(method: str, params: dict[str, Any]) -> dict[str, Any]:
    ref = params.get("ref", params)
    note(method, ref.get("name") or ref.get("uri") or "")
    match method:
        case "tools/call" if params["name"] in TOOLS:
            return {"content": [{"type": "text", "text": f"ran {params['name']} of {NAME}"}]}
        case "prompts/get" if params["name"] in PROMPTS:
            content = {"type": "text", "text": f"{params['name']} of {NAME}"}
            return {"messages": [{"role": "user", "content": content}]}
        case "resources/read":
            return {"contents": [{"uri": expand(params, RESOURCES), "text": f"a text of {NAME}"}]}
        case "resources/subscribe":
            expand(params, RESOURCES)
            return {}
        case "resources/unsubscribe":
            return {}
        case "completion/complete":
            return {"completion": {"values": [f"value of {NAME}"]}}
    raise Refused(f"Unknown: {method}")


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    try:
        said: dict[str, Any] = {"result": answer(message["method"], message.get("params") or {})}
    except Refused as refused:
        said = {"error": {"code": -32602, "message": str(refused)}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
    if message["method"] == "tools/call" and "touch" in (message["params"].get("arguments") or {}):
        updated = {"uri": message["params"]["arguments"]["touch"]}
        said = {"method": "notifications/resources/updated", "params": updated}
        print(json.dumps({"jsonrpc": "2.0", **said}), flush=True)
