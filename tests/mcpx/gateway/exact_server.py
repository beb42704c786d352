"""A server over stdio that gives the results which files hold, byte for byte; for tests.

Run as `python -S -E exact_server.py ERA FOLDER`: ERA is `handshake` or `modern`, FOLDER holds a file for each
method (`tools-call`, `resources-read`, `prompts-get`, `completion-complete`) with the JSON of its result, and
for lists (`resources-list`, `prompts-list`), where they are not to be the usual ones. What is in the file
`error` is an error that every request fails with. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ERA, FOLDER = sys.argv[1], Path(sys.argv[2])
INFO = {"name": "exact", "version": "1"}
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
GREETINGS = {
    "handshake": {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
    },
    "modern": {
        "server/discover": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": CAPABILITIES,
            "serverInfo": INFO,
            "ttlMs": 0,
            "cacheScope": "private",
        }
    },
}
USUAL = {
    "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "a:b", "name": "b"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a:{x}", "name": "x"}]},
    "prompts/list": {"prompts": [{"name": "p"}]},
}
OF_LISTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if ERA == "modern" else {}


def result_of(method: str) -> str | None:
    file = FOLDER / method.replace("/", "-")
    if file.exists():
        return file.read_bytes().decode()
    greeting = GREETINGS[ERA].get(method)
    result = greeting if greeting is not None else USUAL.get(method)
    return None if result is None else json.dumps(result if greeting else result | OF_LISTS)


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = result_of(request["method"])
        error = '"error":{"code":-32601,"message":"no such method"}'
        answer = error if result is None else f'"result":{result}'
        if (file := FOLDER / "error").exists():
            answer = f'"error":{file.read_text()}'
        sys.stdout.buffer.write(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},{answer}}}\n'.encode())
        sys.stdout.buffer.flush()
