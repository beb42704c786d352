"""A server whose `work` reports progress as it is told, for two clients at once; run as `python -S -E FILE`.

`work {who, steps, held}` says `who` in each of its reports of progress, and in its result. Held, it is
answered by `let {who}`. `cancelled` gives the `who` of all work that was cancelled so far.
"""

from __future__ import annotations

import json
import os

ANY = {"type": "object"}


class Work:
    """What is held, and whose each request is."""

    def __init__(self) -> None:
        self.held: dict[str, object] = {}
        self.names: dict[object, str] = {}
        self.cancelled: list[str] = []

    def run(self) -> None:
        rest = b""
        while chunk := os.read(0, 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self.take(message.get("id"), message.get("method"), message.get("params") or {})

    def take(self, request: object, method: str | None, params: dict) -> None:
        match method:
            case "initialize":
                about = {"serverInfo": {"name": "working", "version": "1"}, "capabilities": {"tools": {}}}
                send(request, {"protocolVersion": params["protocolVersion"], **about})
            case "tools/list":
                tools = [{"name": name, "inputSchema": ANY} for name in ("work", "let", "cancelled")]
                send(request, {"tools": tools})
            case "notifications/cancelled":
                who = self.names.get(params["requestId"], "nobody")
                self.cancelled.append(who)
                self.held.pop(who, None)
            case "tools/call":
                self.call(request, params, params.get("arguments") or {})
            case _ if request is not None:
                send(request, {})

    def call(self, request: object, params: dict, given: dict) -> None:
        if params["name"] == "cancelled":
            say(request, json.dumps({"all": self.cancelled}))
        elif params["name"] == "let":
            say(self.held.pop(given["who"]), given["who"])
            say(request, "done")
        else:
            self.names[request] = given["who"]
            report(params, given)
            if given["held"]:
                self.held[given["who"]] = request
            else:
                say(request, given["who"])


def report(params: dict, given: dict) -> None:
    token = (params.get("_meta") or {}).get("progressToken")
    for step in range(given["steps"] if token is not None else 0):
        told = {"progressToken": token, "progress": step, "message": given["who"]}
        write({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})


def say(request: object, text: str) -> None:
    send(request, {"content": [{"type": "text", "text": text}]})


def send(request: object, result: dict) -> None:
    write({"jsonrpc": "2.0", "id": request, "result": result})


def write(message: dict) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


Work().run()
