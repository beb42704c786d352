"""A stdio MCP server that lists and answers what a row of the hostile table tells it.

Run as `python -S -E hostile_server.py SCRIPT`, where SCRIPT is a JSON file with any of these keys:

* `tools`: what `tools/list` answers, in place of the one tool `echo`.
* `answers`: results by method (`"resources/list": {"resources": [...]}`), given as they are.
* `capabilities`: in place of those that follow from `answers`.
* `modern`: speak 2026-07-28 instead of the older handshake.
* `code`: lines of Python, run once at start. A function named `on_` and a method (`on_tools_call`) takes a
  request of that method, with its id and its params; `on_notification(method, params)` and
  `on_response(message)` take the rest; `start()` is called before anything is read. They use `write` (bytes
  as they are), `send` (a message), `reply` (a result), `raw` (a result as bytes of JSON), `say` (a text),
  `fail` (an error), `notify`, `ask` (a request to the client), `note` (a line in `notes`), and `server`.

Without any of them it is a good neighbour: `echo` says which process has answered. Standard library only, and
little of it, so that it starts in 30 ms. Imports nothing of MCPX.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
CACHED = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
ABOUT = {"name": "hostile", "version": "1"}
EMPTY = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


class HostileServer:
    """One session over the standard streams."""

    def __init__(self, script: dict[str, Any], folder: Path) -> None:
        self.tools = script.get("tools", [ECHO])
        self.answers: dict[str, Any] = script.get("answers", {})
        self.capabilities = script.get("capabilities", self.default_capabilities())
        self.modern = script.get("modern", False)
        self.folder = folder
        self.questions = 0
        with (folder / "starts").open("ab") as starts:
            starts.write(b".")
            self.incarnation = starts.tell()
        offered = ["write", "send", "reply", "raw", "say", "fail", "notify", "ask", "note"]
        self.code: dict[str, Any] = {name: getattr(self, name) for name in offered}
        self.code |= {"server": self, "json": json, "os": os, "sys": sys}
        exec(compile(script.get("code", ""), "<row>", "exec"), self.code)

    def default_capabilities(self) -> dict[str, Any]:
        kinds = {method.partition("/")[0] for method in self.answers} & {"resources", "prompts"}
        return {"tools": {"listChanged": True}, **{kind: {} for kind in kinds}}

    def run(self) -> None:
        if start := self.code.get("start"):
            start()
        for line in sys.stdin.buffer:
            self.take(json.loads(line))

    def take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            self.code.get("on_response", lambda _message: None)(message)
        elif "id" not in message:
            self.code.get("on_notification", lambda _method, _params: None)(method, params)
        elif handler := self.code.get("on_" + method.replace("/", "_")):
            handler(message["id"], params)
        else:
            self.behave(message["id"], method, params)

    def behave(self, request_id: Any, method: str, params: dict[str, Any]) -> None:
        """Answer as the script says, or as a good server does."""
        if method in self.answers:
            self.reply(request_id, self.answers[method])
        elif method == "server/discover" and self.modern:
            about = {"supportedVersions": [MODERN], "capabilities": self.capabilities, "serverInfo": ABOUT}
            self.reply(request_id, about)
        elif method == "initialize":
            version = params["protocolVersion"]
            about = {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": ABOUT}
            self.reply(request_id, about)
        elif method == "ping":
            self.reply(request_id, {})
        elif method == "tools/list":
            self.reply(request_id, {"tools": self.tools})
        elif method in EMPTY and method.partition("/")[0] in self.capabilities:
            self.reply(request_id, {EMPTY[method]: []})
        elif method == "tools/call":
            self.say(request_id, f"{params.get('name')} by {os.getpid()}")
        else:
            self.fail(request_id, -32601, f"Method not found: {method}")

    # --- what a script uses

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def reply(self, request_id: Any, result: Any) -> None:
        if self.modern and isinstance(result, dict):
            result = {**CACHED, **result}
        self.send(id=request_id, result=result)

    def raw(self, request_id: Any, result: bytes) -> None:
        self.write(b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (json.dumps(request_id).encode(), result))

    def say(self, request_id: Any, text: str) -> None:
        self.reply(request_id, {"content": [{"type": "text", "text": text}]})

    def fail(self, request_id: Any, code: Any, message: Any) -> None:
        self.send(id=request_id, error={"code": code, "message": message})

    def notify(self, method: str, params: Any = None) -> None:
        self.send(method=method, **({} if params is None else {"params": params}))

    def ask(self, method: str, params: Any = None) -> str:
        """Ask the client something; the id of the request. The answer goes to `on_response`."""
        self.questions += 1
        request_id = f"q{self.questions}"
        self.send(id=request_id, method=method, params=params or {})
        return request_id

    def note(self, text: str) -> None:
        with (self.folder / "notes").open("a", encoding="utf-8") as notes:
            notes.write(text + "\n")


if __name__ == "__main__":
    file = Path(sys.argv[1])
    HostileServer(json.loads(file.read_bytes()), file.parent).run()
