"""A server over stdio whose runs are counted: each writes a line into a file before anything else; for tests.

Run as `python -S -E counting_server.py FILE [modern] [pids]`; with `pids` a line is `ID PID`. `work` takes
`id` and `seconds`, and answers with `PID did ID`. `ask` asks its client first: with a request, or as `modern`
with a result that wants input, whose state is `PID:ID`; another process refuses it. Either is counted when
the answer has come. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

OBJECT = {"type": "object"}
QUESTION = {
    "mode": "form",
    "message": "Go on?",
    "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
}
FORM = {"method": "elicitation/create", "params": QUESTION}


class Server:
    """One session. Each call has a thread of its own."""

    def __init__(self, path: str, *, modern: bool, pids: bool) -> None:
        self.modern = modern
        self.end_of_line = f" {os.getpid()}\n" if pids else "\n"
        self.log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.writing = threading.Lock()
        self.asked: dict[Any, Any] = {}

    def send(self, **message: Any) -> None:
        with self.writing:
            os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def count(self, name: str) -> None:
        os.write(self.log, f"{name}{self.end_of_line}".encode())

    def take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            if (call := self.asked.pop(message["id"], None)) is not None:
                self.count(call[1])
                self.say(call[0], json.dumps(message.get("result")))
        elif "id" in message:
            self.answer(message["id"], method, params)

    def answer(self, request: Any, method: str, params: dict[str, Any]) -> None:
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.modern else {}
        if method == "tools/call":
            threading.Thread(target=self.call, args=(request, params), daemon=True).start()
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": OBJECT} for name in ("work", "ask", "large")]
            self.send(id=request, result=complete | {"tools": tools})
        elif method == "initialize" and not self.modern:
            about = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            self.send(id=request, result=about | {"serverInfo": {"name": "counting", "version": "1"}})
        elif method == "server/discover" and self.modern:
            about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            self.send(id=request, result=complete | about)
        elif method == "ping":
            self.send(id=request, result={})
        else:
            self.send(id=request, error={"code": -32601, "message": "no such method"})

    def call(self, request: Any, params: dict[str, Any]) -> None:
        given = params.get("arguments") or {}
        if params["name"] == "work":
            self.count(given["id"])
            time.sleep(given.get("seconds", 0))
            self.say(request, f"{os.getpid()} did {given['id']}")
        elif params["name"] == "large":
            self.say(request, "\n".join(f"line {number} of {os.getpid()}" for number in range(20_000)))
        elif not self.modern:
            name = f"q{request}"
            self.asked[name] = request, given["id"]
            self.send(id=name, **FORM)
        elif "inputResponses" not in params:
            wants = {"inputRequests": {"go": FORM}, "requestState": f"{os.getpid()}:{given['id']}"}
            self.send(id=request, result={"resultType": "input_required", **wants})
        elif params.get("requestState") != f"{os.getpid()}:{given['id']}":
            self.send(id=request, error={"code": -32602, "message": "this state is not of this process"})
        else:
            self.count(given["id"])
            self.say(request, json.dumps(params["inputResponses"]["go"]))

    def say(self, request: Any, text: str) -> None:
        more = {"resultType": "complete"} if self.modern else {}
        self.send(id=request, result={"content": [{"type": "text", "text": text}], **more})


if __name__ == "__main__":
    serving = Server(sys.argv[1], modern="modern" in sys.argv[2:], pids="pids" in sys.argv[2:])
    for line in sys.stdin.buffer:
        serving.take(json.loads(line))
