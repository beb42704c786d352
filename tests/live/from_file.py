"""A server whose tools are what a file says when it starts, and which can be kept from starting.

Run as `python from_file.py LIST`. LIST is a JSON list of names; each is a tool that only reads, and that
answers `{"tool": name, "pid": ...}` as JSON text. Where there is no such file, it says so and exits with 3.
Speaks the handshake era in plain JSON lines, with nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

METHOD_NOT_FOUND = -32601


def main() -> int:
    try:
        names = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    except FileNotFoundError:
        print("the list is not there", file=sys.stderr)
        return 3
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            body = answer(message["method"], message.get("params") or {}, names)
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
    return 0


def answer(method: str, params: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The member of a response that says what became of the request."""
    match method:
        case "initialize":
            about = {"name": "from-file", "version": "1"}
            offered = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
            return {"result": offered}
        case "tools/list":
            return {"result": {"tools": [tool(name) for name in names]}}
        case "tools/call":
            text = json.dumps({"tool": params["name"], "pid": os.getpid()})
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}}


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


if __name__ == "__main__":
    sys.exit(main())
