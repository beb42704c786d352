"""The server behind every gateway of a run: trivial, of the standard library only, not the bottleneck.

child.py [--tools FILE] [--payload NAME=FILE]... It offers `echo(text)` and `payload(name)`, the text
of a file; with --tools it lists instead what FILE holds: the JSON of a `tools/list` result. Requests that
come together are answered together, in one write. A payload is encoded at each call, as a real server would.
Ends at EOF.
"""

import json
import os
import sys
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path

TOOLS = {
    "tools": [
        {
            "name": name,
            "description": told,
            "inputSchema": {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]},
        }
        for name, told, key in (
            ("echo", "Gives the text back", "text"),
            ("payload", "Gives a prepared text", "name"),
        )
    ]
}
UNKNOWN = '"error":{"code":-32601,"message":"Method not found"}'


def main() -> None:
    """Serve standard input until it ends."""
    listing, payloads = _options(sys.argv[1:])
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        answers = [_answer(json.loads(line), listing, payloads) for line in lines if line]
        _write("".join(answers).encode())


def _options(arguments: list[str]) -> tuple[str, dict[str, str]]:
    listing, payloads = json.dumps(TOOLS), {}
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        if option == "--tools":
            listing = Path(value).read_text()
        else:
            name, _, path = value.partition("=")
            payloads[name] = Path(path).read_text()
    return listing, payloads


def _answer(message: dict, listing: str, payloads: dict[str, str]) -> str:
    """The line that answers a message; empty for a notification."""
    if "id" not in message:
        return ""
    method, params = message["method"], message.get("params", {})
    if method == "tools/call":
        given = params["arguments"]
        text = given["text"] if params["name"] == "echo" else payloads.get(given.get("name"), "")
        body = f'"result":{{"content":[{{"type":"text","text":{quoted(text)}}}]}}'
    elif method == "tools/list":
        body = f'"result":{listing}'
    elif method == "initialize":
        version = params["protocolVersion"]
        offer = {"capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
        body = f'"result":{json.dumps({"protocolVersion": version, **offer})}'
    elif method == "ping":
        body = '"result":{}'
    else:
        body = UNKNOWN
    return f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{body}}}\n'


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


main()
