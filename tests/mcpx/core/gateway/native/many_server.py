"""A server with very many resources, over stdio, in the handshake era; standard library only. For tests.

Run as `python -S -E many_server.py COUNT PAGE EARS [endless]`: COUNT text resources without a description,
listed in pages of PAGE. Every listing and every read is a JSON line in the file or FIFO EARS; a read takes
READ_S, and says how many are under way. `endless`: the list of resources never ends.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any

READ_S = 0.002
COUNT, PAGE = int(sys.argv[1]), int(sys.argv[2])
EARS = os.open(sys.argv[3], os.O_RDWR | os.O_APPEND | os.O_CREAT)
ENDLESS = sys.argv[4:] == ["endless"]


def note(event: str, **fields: Any) -> None:
    os.write(EARS, json.dumps({"event": event, **fields}).encode() + b"\n")


def result(request: dict[str, Any]) -> dict[str, Any]:
    params = request.get("params") or {}
    match request["method"]:
        case "initialize":
            can = {"resources": {"listChanged": True}, "tools": {}}
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": can,
                "serverInfo": {"name": "many", "version": "1"},
            }
        case "resources/list":
            start = int(params.get("cursor", 0))
            note("listed", start=start)
            end = start + PAGE
            listed = [
                {"uri": f"doc:///{n}", "name": str(n), "mimeType": "text/plain", "size": n}
                for n in range(start, min(end, COUNT))
            ]
            return {"resources": listed} | ({"nextCursor": str(end)} if ENDLESS or end < COUNT else {})
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("again", "hi")]}
        case "tools/call":
            if params["name"] == "again":
                send({"method": "notifications/resources/list_changed"})
            return {"content": [{"type": "text", "text": "hi"}]}
        case _:
            return {}


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def answer_reads(reads: list[dict[str, Any]]) -> None:
    """The oldest of the reads that are under way."""
    time.sleep(READ_S)
    request = reads.pop(0)
    uri = request["params"]["uri"]
    content = {"uri": uri, "mimeType": "text/plain", "text": f"text of {uri}"}
    send({"id": request["id"], "result": {"contents": [content]}})


def main() -> None:
    rest, reads = b"", []
    while True:
        ready, _, _ = select.select([0], [], [], 0 if reads else None)
        if not ready:
            answer_reads(reads)
            continue
        if not (chunk := os.read(0, 65536)):
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for request in map(json.loads, lines):
            if request.get("method") == "resources/read":
                reads.append(request)
                note("read", uri=request["params"]["uri"], under_way=len(reads))
            elif request.get("method") == "server/discover":
                send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
            elif "id" in request:
                send({"id": request["id"], "result": result(request)})


if __name__ == "__main__":
    main()
