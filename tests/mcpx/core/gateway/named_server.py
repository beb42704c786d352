"""A small MCP server over stdio of which everything has the server's name in it; for tests.

Run as `python -S -E named_server.py NAME TOOL ...`. It has these tools, the resource `note:///NAME`, a
template, the prompt `ask-NAME`, and completes with its name. Two tools do something, if it is given them:

* `shout`: says a log message, once the call is answered. `touch`: says that its resource has changed.
* `grow(kind)`: has one more tool, resource or prompt, called `more-NAME`, and says so.
"""

from __future__ import annotations

import json
import sys
from typing import Any


class NamedServer:
    """One session over the standard streams."""

    def __init__(self, name: str, tools: list[str]) -> None:
        self.name = name
        self.uri = f"note:///{name}"
        given = {"text": {"type": "string", "description": f"what {name} is to say"}}
        schema = {"type": "object", "properties": given}
        self.tools = [{"name": t, "description": f"The {t} of {name}", "inputSchema": schema} for t in tools]
        self.resources = [{"uri": self.uri, "name": name, "description": f"A note of {name}"}]
        self.prompts = [{"name": f"ask-{name}", "arguments": [{"name": "about"}]}]

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message and "method" in message:
                self.serve(message["id"], message["method"], message.get("params") or {})

    def serve(self, request_id: Any, method: str, params: dict[str, Any]) -> None:
        result = self.result(method, params)
        if result is None:
            self.send(id=request_id, error={"code": -32601, "message": f"{self.name} has no {method}"})
            return
        self.send(id=request_id, result=result)
        if method == "tools/call":
            self.follow(params["name"], params.get("arguments") or {})

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        kinds = {"listChanged": True}
        match method:
            case "initialize":
                return {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {
                        "tools": kinds,
                        "resources": kinds | {"subscribe": True},
                        "prompts": kinds,
                        "completions": {},
                        "logging": {},
                    },
                    "serverInfo": {"name": self.name, "title": f"Title of {self.name}", "version": "1"},
                    "instructions": f"How to use {self.name}.",
                }
            case "tools/list" | "resources/list" | "prompts/list":
                kind = method.partition("/")[0]
                return {kind: getattr(self, kind)}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": f"{self.uri}/{{page}}", "name": self.name}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": f"a text of {self.name}"}]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": self.name}}]}
            case "completion/complete":
                return {"completion": {"values": [self.name]}}
            case "tools/call":
                return {"content": [{"type": "text", "text": f"{params['name']} of {self.name}"}]}
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
        return None

    def follow(self, tool: str, arguments: dict[str, Any]) -> None:
        """What a tool does after it has answered."""
        if tool == "shout":
            self.send(method="notifications/message", params={"level": "info", "data": f"{self.name}!"})
        elif tool == "touch":
            self.send(method="notifications/resources/updated", params={"uri": self.uri})
        elif tool == "grow":
            more, kind = f"more-{self.name}", arguments["text"]
            entry = {"name": more, "inputSchema": {"type": "object"}, "uri": f"note:///{more}"}
            getattr(self, kind).append(entry)
            self.send(method=f"notifications/{kind}/list_changed")

    def send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    NamedServer(sys.argv[1], sys.argv[2:]).run()
