"""One server of the 527-tool corpus: run as `python -S -E corpus_server.py NAME FILE`. Standard library only.

Its tools are the list in FILE. Each answers with the names of the server and of itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NAME, TOOLS = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())


def result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            about = {"name": NAME, "version": "1"}
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            text = json.dumps([NAME, params["name"]])
            return {"content": [{"type": "text", "text": f"ran {text}"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = result(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
