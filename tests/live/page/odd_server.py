"""A server over stdio that offers and answers what a file says, however odd; for tests.

Run as `python -S -E odd_server.py FILE`, where FILE holds a JSON object: `tools` is what it lists, and
`results` has the result of each by its name. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

GIVEN = json.loads(Path(sys.argv[1]).read_text("utf-8"))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            }
        case "tools/list":
            return {"tools": GIVEN["tools"]}
        case "tools/call":
            said = {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
            return dict(GIVEN["results"].get(params["name"], said))
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
