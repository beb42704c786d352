"""A client that starts MCPX, calls a tool that never answers, and waits to be killed.

Run as `python vanishing_client.py CONFIG`. Prints the process id of its MCPX once the call is at the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def call(request_id: int, tool: str) -> dict[str, Any]:
    arguments = {"server_name": "s", "tool_name": tool}
    params = {"name": "exec", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def main() -> None:
    command = [sys.executable, "-m", "mcpx", "serve", sys.argv[1]]
    mcpx = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert mcpx.stdin is not None
    assert mcpx.stdout is not None
    for message in (
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call(1, "hang"),
        call(2, "echo"),
    ):
        mcpx.stdin.write(json.dumps(message).encode() + b"\n")
    mcpx.stdin.flush()
    while json.loads(mcpx.stdout.readline()).get("id") != 2:  # its server takes calls in turn
        pass
    print(mcpx.pid, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
