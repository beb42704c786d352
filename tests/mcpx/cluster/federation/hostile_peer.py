"""A peer that says of its servers what it should not. Run as `python hostile_peer.py KIND HEARD`, over stdio.

At the endpoint for a server (`--peer=NAME`) it serves none. Each question for its directory is a line in
HEARD.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

ID = "0123456789abcdef0123456789abcdef"
LONG = "é" * 1_000_000


def server(name: Any = "s", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": "ready", "via": [ID], **more}


ODD_NAMES = [
    "",
    " ",
    ".",
    "..",
    "../x",
    "__proto__",
    "a\nb",
    "\x1b[31m",
    "x" * 300,
    "own",
    "mcpx",
    "ok",
    "ok",
]
ODD_STATES = [
    server("a", state="\x1b[31mevil"),
    server("b", state="waiting", next_attempt_in_s=1e300),
    server("c", state="disabled"),
    server("d", state="stopped", last_error="\x1b]0;x\x07"),
]


def directory(kind: str, turn: int) -> Any:
    """The result of `mcpx/servers`."""
    if kind == "deep":
        return "DEEP"
    servers = {
        "many": lambda: [server(f"s{number}") for number in range(9_000)],
        "too many": lambda: [server(f"s{number}") for number in range(100_000)],
        "long": lambda: [server(described=LONG, state="waiting", last_error=f"\x1b[31m{LONG}")],
        "too long": lambda: [server(f"s{number}", described=LONG) for number in range(4)],
        "odd names": lambda: [server(name) for name in ODD_NAMES],
        "flapping": lambda: [server(f"t{turn}-{number}") for number in range(20)],
        "states": lambda: ODD_STATES,
        "types": lambda: [server(pid=-5, restarts=-1, via="x")],
    }.get(kind, lambda: [server()])()
    about = {"id": "\x1b[31m\nid", "version": 7} if kind == "id" else {"id": ID, "version": "1"}
    return {"mcpx": about, "version": turn, "servers": servers}


def main() -> None:
    kind, heard = sys.argv[1:3]
    turns = itertools.count()
    is_directory = not any(each.startswith("--peer") for each in sys.argv)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        method, result = message["method"], {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        elif method == "tools/list":
            result |= {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        elif method == "mcpx/servers" and is_directory:
            with open(heard, "a") as file:
                file.write("asked\n")
            if kind == "silent" and message["params"].get("wait_s"):
                continue
            found = directory(kind, next(turns))
            text = "[" * 200_000 + "]" * 200_000 if found == "DEEP" else json.dumps(result | found)
            print(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{text}}}', flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
