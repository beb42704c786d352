"""A server with odd members in everything that it says, in both eras, over stdio or HTTP; for tests.

Run as `python -S -E quick.py odd_server.py [EARS]`; EARS is a file to which each message and start is
appended. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Say = Callable[[str], None]

ODD = '"vendor":{"b":1e400,"a":-0.0,"n":null,"deep":[[[]]]},"_meta":{"null":null,"com.acme/x":1}'
STAMP = '"_meta":{"null":null,"io.modelcontextprotocol/serverInfo":{"name":"odd","version":"1","odd":true}}'
SESSION = '"serverInfo":{"name":"odd","version":"1","odd":1},"instructions":"Be odd.",' + ODD
CAPABILITIES = (
    '"capabilities":{"tools":{"listChanged":true,"odd":1},"resources":{"subscribe":true},"logging":{},"prompts":{},'
    '"completions":{},"experimental":{"x":{}},"extensions":{"com.acme/e":{}}}'
)
TOOLS = (
    '[{"name":"odd","inputSchema":{"type":"object","odd":1e400},"execution":{"taskSupport":"optional"},"vendor":1},'
    '{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"odd":[1.0]}}]'
)
CONTENT = (
    '"content":[{"type":"hologram","x":1e400},{"text":"no type"},{"type":"text","text":5},'
    '{"type":"text","text":"a","annotations":{"odd":null},"vendor":[1.0,1e2,9007199254740993]}],'
    '"structuredContent":[1,{"z":1,"a":2,"a":3}],"isError":null'
)
RESULTS = {
    "tools/list": '{"tools":' + TOOLS + ',"nextCursor":"p 2",' + ODD + "}",
    "resources/list": '{"resources":[{"uri":"odd://x","name":"x","vendor":null}],' + ODD + "}",
    "resources/read": '{"contents":[{"uri":"odd://x","text":"t","vendor":1},{"odd":1}],' + ODD + "}",
    "prompts/get": '{"messages":[{"role":"odd","content":{"type":"x"},"v":1}],' + ODD + "}",
    "completion/complete": '{"completion":{"values":[1,"a"],"odd":1},' + ODD + "}",
    "resources/subscribe": "{" + ODD + "}",
    "resources/unsubscribe": "{}",
    "logging/setLevel": "{" + ODD + "}",
    "ping": '{"pong":true}',
    "tasks/list": '{"tasks":[{"taskId":"t"}]}',
}


class OddServer:
    """What it says to one client, or over HTTP to all."""

    def __init__(self, ears: str | None = None) -> None:
        self.ears = ears
        self.waiting: dict[str, tuple[str, Say]] = {}  # the call that waits for the answer to each question

    def note(self, text: str) -> None:
        if self.ears:
            with open(self.ears, "a") as file:
                file.write(text + "\n")

    def take(self, line: str, say: Say) -> bool:
        """Take a message; returns whether the answer to it comes later."""
        message = json.loads(line)
        self.note(line)
        method, request_id = message.get("method"), json.dumps(message.get("id"))
        if method is None:
            call, say = self.waiting.pop(message["id"])
            kind = "result" if "result" in message else "error"
            said = line[line.index(f'"{kind}"') : line.rindex("}")].replace("\n", "")
            say(f'{{"jsonrpc":"2.0","id":{call},"result":{{"answered":{{{said}}}}}}}')
            return False
        if "id" not in message:
            return False
        if method == "tools/call":
            return self.call(request_id, message["params"], say)
        if method == "subscriptions/listen":
            return self.listen(request_id, message["params"], say)
        say(f'{{"jsonrpc":"2.0","id":{request_id},{self.answer(method, message.get("params") or {})}}}')
        return False

    def answer(self, method: str, params: dict[str, Any]) -> str:
        if method == "initialize":
            version = json.dumps(params["protocolVersion"])
            return '"result":{"protocolVersion":' + version + "," + CAPABILITIES + "," + SESSION + "}"
        if method == "server/discover":
            versions = '"supportedVersions":["2026-07-28","2099-01-01"]'
            said = f'{versions},"resultType":"complete","ttlMs":1.0,{CAPABILITIES},{STAMP},"vendor":1'
            return f'"result":{{{said}}}'
        if method == "tools/list" and params.get("cursor") == "p 2":
            return '"result":{"tools":[],"last":1e400}'
        if "deep" in params:
            return '"result":' + '{"x":' * params["deep"] + "1" + "}" * params["deep"]
        if method.startswith("vendor/"):
            return '"result":{"method":' + json.dumps(method) + ',"params":' + json.dumps(params) + "}"
        if method not in RESULTS:
            return '"error":{"code":-32601,"message":"odd: no such method","data":{"x":1e400},"vendor":1}'
        return f'"result":{RESULTS[method]}'

    def call(self, request_id: str, params: dict[str, Any], say: Say) -> bool:
        name = params["name"]
        token = json.dumps((params.get("_meta") or {}).get("progressToken"))
        if name == "die":
            os._exit(3)
        if name == "error":
            error = '{"code":-1,"message":"odd \\u00fc","data":{"b":1e400,"a":null},"vendor":[1.0]}'
            say(f'{{"jsonrpc":"2.0","id":{request_id},"error":{error}}}')
            return False
        if name == "tell":
            head = '{"jsonrpc":"2.0","method":"notifications/'
            say(head + 'message","params":{"level":"odd","logger":"own","data":[1.0,null],' + ODD + "}}")
            say(
                head
                + 'progress","params":{"progress":1,"total":1e400,"progressToken":'
                + token
                + ","
                + ODD
                + "}}"
            )
            say(head + 'vendor/x","params":{' + ODD + "}}")
            say(head + 'tools/list_changed"}')
            say(head + 'resources/updated","params":{"uri":"odd://x",' + ODD + "}}")
        if name == "ask":
            self.waiting["q 1"] = (request_id, say)
            asked = params["arguments"]["method"]
            params_of = (
                '{"message":"?","n":1e400,'
                + ODD.replace('"_meta":{', '"_meta":{"progressToken":"mine",')
                + "}"
            )
            say('{"jsonrpc":"2.0","id":"q 1","method":' + json.dumps(asked) + ',"params":' + params_of + "}")
            return True
        say(f'{{"jsonrpc":"2.0","id":{request_id},"result":{{{CONTENT},{ODD}}}}}')
        return False

    def listen(self, request_id: str, params: dict[str, Any], say: Say) -> bool:
        meta = '"_meta":{"io.modelcontextprotocol/subscriptionId":' + request_id + ',"odd":null}'
        wanted = json.dumps(params["notifications"])
        head = '{"jsonrpc":"2.0","method":"notifications/'
        say(f'{head}subscriptions/acknowledged","params":{{"notifications":{wanted},{meta}}}}}')
        say(f'{head}tools/list_changed","params":{{{meta},"vendor":1e400}}}}')
        return True


def main() -> None:
    server = OddServer(*sys.argv[1:])
    server.note(f"started {os.getpid()}")

    def say(line: str) -> None:
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]

    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            server.take(line.decode(), say)


if __name__ == "__main__":
    main()
