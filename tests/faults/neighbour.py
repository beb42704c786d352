"""The neighbour's caller: a client of its own that calls the healthy server all the while, and times it.

Run as `python -S -E neighbour.py SOCKET PACE`, with PACE seconds between an answer and the next call. A
process apart, so that it times MCPX and not the table's own work. It takes orders on standard input, one a
line, and answers each with a line of JSON: `mark` (begin anew) and `report` (what was seen since: the number
of `calls`, `p99_s`, `slowest_s`, `problems`). A call that is not answered yet counts with its age. Standard
library only.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Any

SERVER = "neighbour"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "neighbour", "version": "1"},
}


class Caller:
    """One connection, with at most one call in flight."""

    def __init__(self, path: str, pace_s: float) -> None:
        self.pace_s = pace_s
        self.joined = socket.socket(socket.AF_UNIX)
        self.joined.connect(path)
        self.rest = b""
        self.last_id = 0
        self.called_at: float | None = None
        self.next_at = 0.0
        self.answered_by: str | None = None
        self.times: list[float] = []
        self.problems: list[str] = []
        self.gone = False

    def run(self) -> None:
        self.send("initialize", HELLO)
        while True:
            waiting = self.called_at is not None or self.gone
            patience = None if waiting else max(self.next_at - time.monotonic(), 0)
            sources: list[Any] = [sys.stdin] if self.gone else [sys.stdin, self.joined]
            readable, _, _ = select.select(sources, [], [], patience)
            if self.joined in readable:
                self.hear()
            if sys.stdin in readable and not self.obey():
                return
            if not readable and not waiting:
                self.call()

    def send(self, method: str, params: dict[str, Any]) -> None:
        self.last_id += 1
        self.called_at = time.monotonic()
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.joined.sendall(json.dumps(message).encode() + b"\n")

    def call(self) -> None:
        asked = {"server_name": SERVER, "tool_name": "echo", "arguments": {"n": self.last_id}}
        try:
            self.send("tools/call", {"name": "exec", "arguments": asked})
        except OSError:
            self.lose()

    def lose(self) -> None:
        self.gone, self.called_at = True, None
        self.problems.append("the neighbour's client lost its connection")

    def hear(self) -> None:
        try:
            chunk = self.joined.recv(65536)
        except OSError:
            chunk = b""
        if not chunk:
            self.lose()
            return
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "method" not in message and message.get("id") == self.last_id:
                self.judge(message)

    def judge(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        took, self.called_at, self.next_at = now - (self.called_at or now), None, now + self.pace_s
        result = message.get("result", {})
        if "serverInfo" in result:
            self.joined.sendall(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            return
        self.times.append(took)
        text = result["content"][0]["text"] if "content" in result else json.dumps(message)
        if result.get("isError", True) and not text.startswith("echo by "):
            self.problems.append(f"the neighbour noticed: {text[:300]}")
        elif text != (self.answered_by or text):
            self.problems.append("the neighbour was restarted")
        self.answered_by = text

    def obey(self) -> bool:
        order = sys.stdin.readline().strip()
        if order == "mark":
            self.times, self.problems = [], [each for each in self.problems if self.gone]
        if order:
            print(json.dumps(self.report()), flush=True)
        return bool(order)

    def report(self) -> dict[str, Any]:
        in_flight = [] if self.called_at is None else [time.monotonic() - self.called_at]
        times = sorted(self.times + in_flight)
        return {
            "calls": len(self.times),
            "p99_s": times[int(0.99 * len(times))] if times else 0.0,
            "slowest_s": times[-1] if times else 0.0,
            "problems": self.problems[:5],
        }


if __name__ == "__main__":
    Caller(sys.argv[1], float(sys.argv[2])).run()
