"""The wicked stdio server: one mode for each fault that MCPX must survive.

Run as `python -S -E wicked_server.py MODE FOLDER [TIMES]`. It is wicked for its first TIMES incarnations (1)
and then behaves, so that recovery can be seen; a file `cured` in FOLDER makes it behave at once. It keeps in
FOLDER: `starts`, a byte for each incarnation; `counted`, a line for each call of `count`; and tells `ears`,
if somebody made that FIFO, what happens, as `scripted_server.py` does.

A mode does its worst at one of three moments, which are the methods `start_`, `request_` (the first
request) and `call_` (a call of the tool `act`) with its name. `good` has none: it is for faults that come
from outside.

Standard library only, and little of it, so that it starts in 30 ms. Imports nothing of MCPX.
"""

from __future__ import annotations

import _signal as signal  # signal imports enum
import json
import os
import sys
import time
from os.path import exists  # pathlib and typing take as long to import as the rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LAST_WORDS = b"these are my last words\n"
LONG = 100_000_000  # bytes of a line
DEEP = 1000  # nested lists
STORM = 1000  # notifications in about a second
PROGRESS_S = 0.1
FLOOD = 50_000_000  # bytes of short lines on standard error
NOISE = (
    b"Listening on stdio, ready when you are!\n",
    b"\xff\xfe\x00 not even text\n",
    b"[]\n",
    b"\n",
    b'{"jsonrpc": "2.0"}\n',
    b'{"jsonrpc": "2.0", "id": 1.5, "result": {}}\n',
    b"[" * 5000 + b"]" * 5000 + b"\n",
)
HINTS: dict[str, dict[str, bool]] = {
    "hang_read_only": {"readOnlyHint": True},
    "hang_idempotent": {"idempotentHint": True},
}
TOOLS = ["act", "echo", "count", "hang", "busy", *HINTS]


class WickedServer:
    """One session over the standard streams."""

    def __init__(self, mode: str, folder: str, times: int) -> None:
        self.mode = mode
        self.folder = folder
        with open(f"{folder}/starts", "ab") as starts:
            starts.write(b".")
            self.incarnation = starts.tell()
        self.wicked = self.incarnation <= times and not exists(f"{folder}/cured")
        self.tools = [*TOOLS, f"tool_{self.incarnation}"] if mode == "new_tools" else TOOLS
        self.hoarded: list[bytes] = []  # memory that it never gives back
        self.pending: Any = None  # a call that is answered after the next listing
        ears = f"{folder}/ears"
        self.ears = os.open(ears, os.O_RDWR | os.O_APPEND) if exists(ears) else None

    def worst(self, moment: str, *arguments: Any) -> bool:
        """Do what the mode does at this moment; whether it does anything."""
        method = getattr(self, f"{moment}_{self.mode}", None) if self.wicked else None
        if method is not None:
            method(*arguments)
        return method is not None

    # --- its life

    def run(self) -> None:
        os.write(2, LAST_WORDS)
        self.worst("start")
        self.note("started", pid=os.getpid(), incarnation=self.incarnation)
        rest = b""
        while chunk := os.read(0, 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.take(json.loads(line))
        while self.mode == "stubborn":
            signal.pause()

    def take(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == "notifications/cancelled":
            self.note("cancelled")
        if "id" not in message or method is None:
            return
        self.worst("request", message["id"])
        handler = getattr(self, "on_" + method.replace("/", "_"), None)
        if handler is None:
            self.send(id=message["id"], error={"code": -32601, "message": f"Method not found: {method}"})
        else:
            handler(message["id"], message.get("params") or {})

    # --- talking

    def note(self, event: str, **fields: Any) -> None:
        if self.ears is not None:
            os.write(self.ears, json.dumps({"event": event, **fields}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]

    def send(self, **message: Any) -> None:
        if self.mode == "rubbish" and self.wicked:
            self.write(b"".join(NOISE))
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def say(self, request_id: Any, text: str) -> None:
        self.send(id=request_id, result={"content": [{"type": "text", "text": text}]})

    def answer(self, request_id: Any, text: bytes) -> bytes:
        """An answer line with any bytes as its text."""
        head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request_id
        return head + text + b'"}]}}\n'

    # --- the methods

    def on_initialize(self, request_id: Any, params: dict[str, Any]) -> None:
        self.send(
            id=request_id,
            result={
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "wicked", "version": "1"},
            },
        )

    def on_ping(self, request_id: Any, _params: dict[str, Any]) -> None:
        self.send(id=request_id, result={})

    def on_tools_list(self, request_id: Any, _params: dict[str, Any]) -> None:
        self.note("listed")
        if self.pending is not None:
            self.send(id=request_id, error={"code": -32603, "message": "no list today"})
            self.say(self.pending, "act, after the listing was refused")
            self.pending = None
            return
        tools = [
            {"name": name, "inputSchema": {"type": "object"}, "annotations": HINTS.get(name, {})}
            for name in self.tools
        ]
        self.send(id=request_id, result={"tools": tools})

    def on_tools_call(self, request_id: Any, params: dict[str, Any]) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        if name == "count":
            with open(f"{self.folder}/counted", "ab", buffering=0) as counted:
                counted.write(f"{arguments['key']}\n".encode())
        self.note("call", tool=name, incarnation=self.incarnation)
        if name.startswith("hang") and not (name in HINTS and self.incarnation > 1):
            return
        if name == "count":
            time.sleep(arguments.get("seconds", 0))
            if hoard := arguments.get("hoard"):
                self.hoarded.append(b"x" * hoard)
        if name == "busy":
            self.be_busy(arguments, (params.get("_meta") or {}).get("progressToken"))
        if name != "act" or not self.worst("call", request_id):
            self.say(request_id, f"{name} by incarnation {self.incarnation}")

    def be_busy(self, arguments: dict[str, Any], token: Any) -> None:
        """A server of one thread can do nothing else meanwhile; it may tell of its progress."""
        until = time.monotonic() + arguments["seconds"]
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, PROGRESS_S) if arguments.get("progress") else left)
            if arguments.get("progress"):
                self.send(method="notifications/progress", params={"progressToken": token, "progress": -left})

    # --- the worst at the start

    def start_exit_at_start(self) -> None:
        sys.exit(3)

    def start_breakable(self) -> None:
        if exists(f"{self.folder}/broken"):
            sys.exit(5)

    def start_stubborn(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def start_grandchild(self) -> None:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()

    def start_browser(self) -> None:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.setsid()
            while True:
                signal.pause()

    def start_forks_at_once(self) -> None:
        if os.fork() != 0:
            os._exit(0)

    # --- the worst at the first request

    def request_exit_in_handshake(self, _request_id: Any) -> None:
        sys.exit(4)

    def request_silent_handshake(self, _request_id: Any) -> None:
        while True:
            signal.pause()

    # --- the worst in a call

    def call_exit_mid_call(self, _request_id: Any) -> None:
        os._exit(7)

    def call_half_line(self, request_id: Any) -> None:
        self.write(self.answer(request_id, b"half")[:-9])
        while True:
            signal.pause()

    def call_wedge(self, request_id: Any) -> None:
        self.say(request_id, "act, and then nothing any more")
        while True:
            signal.pause()

    def call_long_line(self, request_id: Any) -> None:
        self.write(self.answer(request_id, b"x" * LONG))

    def call_invalid_utf8(self, request_id: Any) -> None:
        self.write(self.answer(request_id, b"caf\xe9 \xff\xfe"))

    def call_deep_json(self, request_id: Any) -> None:
        deep = b"[" * DEEP + b"]" * DEEP
        plain = self.answer(request_id, b"act, with something deep")
        self.write(plain.replace(b"]}}\n", b'],"_meta":{"deep":%s}}}\n' % deep))

    def call_broken_json(self, request_id: Any) -> None:
        self.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[oops]}}\n' % request_id)

    def call_unknown_id(self, request_id: Any) -> None:
        for unknown in (987654, "nobody", -1):
            self.say(unknown, "nobody asked")
        self.say(request_id, "act, after answers that nobody asked for")

    def call_answers_twice(self, request_id: Any) -> None:
        self.say(request_id, "act, for the first time")
        self.say(request_id, "act, for the second time")

    def call_floods_stderr(self, request_id: Any) -> None:
        lines = b"y\n" * 32768
        for _ in range(FLOOD // len(lines)):
            os.write(2, lines)
        self.say(request_id, "act, after a flood")

    def call_bad_relisting(self, request_id: Any) -> None:
        self.pending = request_id
        self.send(method="notifications/tools/list_changed")

    def call_storm(self, request_id: Any) -> None:
        self.tools = [*self.tools, "came_with_the_storm"]
        for _ in range(STORM):
            self.send(method="notifications/tools/list_changed")
            time.sleep(0.001)
        self.say(request_id, "act, after a storm")


if __name__ == "__main__":
    WickedServer(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1).run()
