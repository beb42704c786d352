"""A server of 2026-07-28 with the extension for tasks, and one of its own; for tests.

Over stdio it is run as `python -S -E task_server.py [EXTENSIONS]`; `serve_http` serves the same over HTTP,
from a thread. Its tool `start` becomes a task, with the id `task_id` where that is given, for a client that
takes tasks, and for any other where it is `rude`. The task wants input (what it `asks`, and it asks at once,
which the protocol does not have), and is completed with what `tasks/update` brings. Each answer about it has
in `asked` what came, and in `name` the header Mcp-Name. `declared` answers with its caller's capabilities;
`die` ends the process. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager
from typing import Any

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
EXTENSIONS = {TASKS: {}, "com.acme/x": {"speed": 1}}
NOT_FOUND = {"code": -32602, "message": "Failed to retrieve task: Task not found", "data": {"n": None}}
MISSING = {"code": -32021, "message": "Missing required client capability", "data": {}}
ASKS = {"a": {"method": "elicitation/create", "params": {"message": "?", "vendor": None}}}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("start", "declared", "die")]


class TaskServer:
    """The server, whichever way requests come."""

    def __init__(self, extensions: dict[str, Any] | None = None) -> None:
        self.extensions = EXTENSIONS if extensions is None else extensions
        self.tasks: dict[str, dict[str, Any]] = {}
        self.asks: dict[str, Any] = {}

    def answer(self, line: bytes, name: str | None = None) -> bytes | None:
        """The answer to a message, None to a notification; `name` is the header."""
        request = json.loads(line)
        if "id" not in request:
            return None
        method, params = request["method"], request.get("params", {})
        if method.startswith("tasks/"):
            said = self.about(method, params, name)
        elif method == "tools/call":
            said = self.call(params)
        else:
            said = self.about_itself(method)
        kind = "error" if "code" in said else "result"
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], kind: said}).encode()

    def about_itself(self, method: str) -> dict[str, Any]:
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            capabilities = {"tools": {}, "extensions": self.extensions}
            return complete | {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        if method == "tools/list":
            return complete | {"tools": TOOLS}
        return {"code": -32601, "message": "no such method"}

    def call(self, params: dict[str, Any]) -> dict[str, Any]:
        given, declared = params.get("arguments", {}), params["_meta"][CAPABILITIES_KEY]
        match params["name"]:
            case "die":
                os._exit(1)
            case "start" if TASKS in declared.get("extensions", {}) or given.get("rude"):
                task_id = given.get("task_id", f"task-{len(self.tasks)}")
                self.tasks[task_id] = task = {
                    "taskId": task_id,
                    "status": "working",
                    "createdAt": "2026-07-28T10:30:00Z",
                    "lastUpdatedAt": "2026-07-28T10:30:00Z",
                    "ttlMs": given.get("ttl_ms", 60_000),
                    "vendor": {"n": None, "x": 1e2},
                }
                self.asks[task_id] = given.get("asks", ASKS)
                return {"resultType": "task", **task, "inputRequests": self.asks[task_id]}
            case "start":
                return MISSING
        text = json.dumps(declared)
        return {"resultType": "complete", "content": [{"type": "text", "text": f"declared: {text}"}]}

    def about(self, method: str, params: dict[str, Any], name: str | None) -> dict[str, Any]:
        task = self.tasks.get(params["taskId"])
        if task is None:
            return NOT_FOUND
        about = {"resultType": "complete", "asked": params, "name": name}
        if method == "tasks/cancel":
            task["status"] = "cancelled"
        elif method == "tasks/update":
            task |= {"status": "completed", "result": {"content": [], "answers": params["inputResponses"]}}
        else:
            if task["status"] == "working":
                task |= {"status": "input_required", "inputRequests": self.asks[task["taskId"]]}
            return about | task
        return about


def serve_stdio(server: TaskServer) -> None:
    for line in sys.stdin.buffer:
        if (answered := server.answer(line)) is not None:
            sys.stdout.buffer.write(answered + b"\n")
            sys.stdout.buffer.flush()


def serve_http(server: TaskServer) -> AbstractContextManager[str]:
    """Serve over HTTP meanwhile; gives the URL."""
    from tests.mcpx.http_server import answering  # noqa: PLC0415 - slow to import, and not of a server over stdio

    return answering(lambda message, headers: server.answer(message, headers.get("mcp-name")))


if __name__ == "__main__":
    serve_stdio(TaskServer(json.loads(sys.argv[1]) if len(sys.argv) > 1 else None))
