"""A server that says too much, or reads nothing; raw lines, standard library only.

Its tools: `big` answers with `size` letters; `chatter` logs messages of `size` letters, `count` of them, and
then answers; `steps` reports progress `count` times; `deaf` answers and reads nothing any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys

ANY = {"type": "object"}
NAMES = ("big", "chatter", "steps", "deaf", "echo")


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: dict, text: str) -> None:
    say({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})


def call(request: dict) -> None:
    params = request["params"]
    given, name = params.get("arguments") or {}, params["name"]
    size, count = given.get("size", 0), given.get("count", 0)
    if name == "chatter":
        for _ in range(count):
            say({"method": "notifications/message", "params": {"level": "error", "data": "x" * size}})
    if name == "steps":
        token = params["_meta"]["progressToken"]
        for step in range(count):
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
    answer(request, "x" * size if name == "big" else name)
    if name == "deaf":
        signal.pause()


def serve(request: dict) -> None:
    match request.get("method"):
        case "initialize":
            version = request["params"]["protocolVersion"]
            about = {"name": "flooding", "version": "1"}
            capabilities = {"tools": {}, "logging": {}}
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": about}
            say({"id": request["id"], "result": result})
        case "tools/list":
            tools = [{"name": name, "inputSchema": ANY} for name in NAMES]
            say({"id": request["id"], "result": {"tools": tools}})
        case "tools/call":
            call(request)
        case "logging/setLevel" | "ping":
            say({"id": request["id"], "result": {}})
        case _ if "id" in request:
            say({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    for line in os.fdopen(0, "rb", buffering=0):
        serve(json.loads(line))
