"""A small MCP server that imports msgspec alone: it offers `echo(text)` and `wait(seconds)`.

It does one thing after the other, and ends with its input.
"""

import os
import time

import msgspec

TOOLS = [
    {
        "name": "echo",
        "description": "Gives the text back",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    {
        "name": "wait",
        "description": "Waits",
        "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}},
    },
]


def main() -> None:
    """Serve standard input until it ends."""
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        answers = b"".join(_answer(msgspec.json.decode(line)) for line in lines if line)
        while answers:
            answers = answers[os.write(1, answers) :]


def _answer(message: dict) -> bytes:
    """The line that answers a message; empty for a notification."""
    if "id" not in message:
        return b""
    result = _result(message["method"], message.get("params") or {})
    error = {"error": {"code": -32601, "message": "Method not found"}}
    body = error if result is None else {"result": result}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **body}) + b"\n"


def _result(method: str, params: dict) -> dict | None:
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"], **about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "wait":
        time.sleep(params["arguments"]["seconds"])
        return {"content": [{"type": "text", "text": "done"}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return {} if method == "ping" else None


main()
