"""A server over stdio whose tool `work` reports two steps and waits for a file before it answers.

`show` answers with a text, two images and an embedded text.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
IMAGE = {"type": "image", "mimeType": "image/png", "data": PNG}
EMBEDDED = {"type": "resource", "resource": {"uri": "x:///a", "mimeType": "text/css", "text": "a {}"}}
SCHEMA = {"type": "object", "properties": {"until": {"type": "string"}}, "required": ["until"]}
TOOLS = [{"name": "work", "inputSchema": SCHEMA}, {"name": "show", "inputSchema": {"type": "object"}}]
PROMPTS = [{"name": "greet", "description": "Says hello.", "arguments": [{"name": "who", "required": True}]}]
TEMPLATES = [{"uriTemplate": "x:///{id}", "name": "thing"}]


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(request):
    params = request["params"]
    if params["name"] == "show":
        return {"content": [{"type": "text", "text": "see:"}, IMAGE, IMAGE, EMBEDDED]}
    token = params["_meta"]["progressToken"]
    for step, message in ((1, "first step"), (2, "second step")):
        progress = {"progressToken": token, "progress": step, "total": 4, "message": message}
        send(method="notifications/progress", params=progress)
    until = Path(params["arguments"]["until"])
    while not until.exists():
        time.sleep(0.01)
    return {"content": [{"type": "text", "text": "worked"}]}


def answer(request):
    match request["method"]:
        case "initialize":
            capabilities = {"tools": {}, "prompts": {}, "resources": {}}
            info = {"name": "progress", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            who = request["params"]["arguments"]["who"]
            return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Hello, {who}"}}]}
        case "resources/list":
            return {"resources": []}
        case "resources/templates/list":
            return {"resourceTemplates": TEMPLATES}
        case "tools/call":
            return call(request)
        case _:
            return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        if message["method"] == "server/discover":
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        else:
            send(id=message["id"], result=answer(message))
