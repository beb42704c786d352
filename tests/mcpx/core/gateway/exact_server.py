"""A server that gives the results which files hold, byte for byte; for tests.

Over stdio it is run as `python -S -E exact_server.py ERA FOLDER`: ERA is `handshake` or `modern`, FOLDER has
a file for each method (`tools-call`, `resources-read`, `prompts-get`, `completion-complete`) with the JSON of
its result, and for lists (`resources-list`, `prompts-list`), where they are not to be the usual ones. What is
in the file `error` is an error that every request fails with. `serve_http` serves the same over HTTP, from a
thread. Standard library only.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path

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
OF_LISTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def result_of(era: str, folder: Path, method: str) -> str | None:
    """The JSON of the result of a method; None where there is no such method."""
    file = folder / method.replace("/", "-")
    if file.exists():
        return file.read_bytes().decode()
    if (greeting := GREETINGS[era].get(method)) is not None:
        return json.dumps(greeting)
    usual = USUAL.get(method)
    return None if usual is None else json.dumps(usual | (OF_LISTS if era == "modern" else {}))


def answer(era: str, folder: Path, message: bytes) -> bytes | None:
    """The answer to a message; None to a notification."""
    request = json.loads(message)
    if "id" not in request:
        return None
    result = result_of(era, folder, request["method"])
    if (file := folder / "error").exists():
        body = f'"error":{file.read_text()}'
    elif result is None:
        body = '"error":{"code":-32601,"message":"no such method"}'
    else:
        body = f'"result":{result}'
    return f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},{body}}}'.encode()


def serve_stdio(era: str, folder: Path) -> None:
    for line in sys.stdin.buffer:
        if (answered := answer(era, folder, line)) is not None:
            sys.stdout.buffer.write(answered + b"\n")
            sys.stdout.buffer.flush()


def serve_http(era: str, folder: Path) -> AbstractContextManager[str]:
    """Serve over HTTP meanwhile; gives the URL."""
    from tests.mcpx.http_server import answering  # noqa: PLC0415 - slow to import, and not of a server over stdio

    return answering(lambda message, _headers: answer(era, folder, message))


if __name__ == "__main__":
    serve_stdio(sys.argv[1], Path(sys.argv[2]))
