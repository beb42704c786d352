"""A stdio MCP server that answers each call with what stands in a file: lines as they are, then the result.

Run as `python -S -E fuzzed_server.py FILE`. The file is read at each `tools/call`; its last line is the
result, and those before it are sent first. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def write(line: bytes) -> None:
    rest = memoryview(line + b"\n")
    while rest:
        rest = rest[os.write(1, rest) :]


def reply(request_id: object, result: bytes) -> None:
    write(b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(request_id).encode(), result))


def main() -> None:
    said = Path(sys.argv[1])
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):  # arguments that Python does not read: no answer, and a timeout
            continue
        match message.get("method"):
            case "initialize":
                about = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                }
                reply(
                    message["id"], json.dumps({**about, "serverInfo": {"name": "f", "version": "1"}}).encode()
                )
            case "tools/list":
                reply(message["id"], b'{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}')
            case "tools/call":
                *notices, result = said.read_bytes().splitlines()
                for notice in notices:
                    write(notice)
                reply(message["id"], result)
            case _ if "id" in message:
                error = {"code": -32601, "message": "Method not found"}
                write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())


if __name__ == "__main__":
    main()
