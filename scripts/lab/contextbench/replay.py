"""One recorded server: it lists its tools, and answers every call with what stands in a file at that moment.

replay.py LISTING ANSWER: LISTING is the JSON of a `tools/list` result, ANSWER that of a `tools/call` result,
which the benchmark writes before each call. Of the standard library only, since 70 of them run at a time.
Ends at EOF.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    """Serve standard input until it ends."""
    listing, answer = Path(sys.argv[1]).read_text("utf-8"), Path(sys.argv[2])
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            body = _body(message, listing, answer)
            text = f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{body}}}\n'
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()


def _body(message: dict, listing: str, answer: Path) -> str:
    match message["method"]:
        case "tools/call":
            return f'"result":{answer.read_text("utf-8")}'
        case "tools/list":
            return f'"result":{listing}'
        case "initialize":
            version = message["params"]["protocolVersion"]
            offer = {"capabilities": {"tools": {}}, "serverInfo": {"name": "replay", "version": "1"}}
            return f'"result":{json.dumps({"protocolVersion": version, **offer})}'
        case "ping":
            return '"result":{}'
        case _:
            return '"error":{"code":-32601,"message":"Method not found"}'


main()
