"""The page of the daemon: what an open one costs the daemon, and a call, before seventy servers.

A daemon with the 527 tools of the corpus serves one client, with the page closed and open in turns. Open
means that somebody follows the overview, the last hour and the calls, and reads what comes. Three things are
measured of each: the processor time of the daemon while nothing is called, the same at 1,000 calls a second
over all servers, and the time of a call with 32 in flight. Processor time is of the daemon alone: what the
servers and the browser do is not counted, and a busy machine hardly changes it.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from client import SHAKE
from measure_start import START_S, daemon
from process import Process, Unmeasured
from targets import mcpx

from mcpx.core.system.endpoint import SETTLED_KEY

RATE = 1000  # calls a second
BEAT_S = 0.01
WINDOW = 32
TOPICS = ("overview", "history", "calls")
LATE_S = 30.0
CLOSED, OPEN = "closed", "open"
SETTLE_S = 2.0  # after opening or closing: the first look at all processes is no part of what it costs


def measure_page(servers: dict[str, list[str]], work: Path, *, rounds: int, seconds: float) -> dict:
    """For `closed` and `open` a value a round: `idle` and `busy`, shares of a core; `cpu_us` of a call."""
    figures: dict = {state: {"idle": [], "busy": [], "cpu_us": []} for state in (CLOSED, OPEN)}
    target = mcpx(work / "page", servers)
    config, within_s = work / "page" / "config.json", START_S + rounds * (LATE_S + 8 * seconds)
    with daemon(target, config, within_s=within_s) as (process, _, stream):
        stream.request("initialize", SHAKE)
        stream.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        stream.request("tools/list", {"_meta": {SETTLED_KEY: True}})
        caller = _Caller(stream.connection, process, _callable(servers))
        caller.steadily(seconds)
        for number in range(rounds):
            for state in (CLOSED, OPEN) if number % 2 else (OPEN, CLOSED):
                with _page(work / "page", is_open=state == OPEN):
                    for name, value in _round(caller, seconds).items():
                        figures[state][name].append(value)
    return figures


def _round(caller: _Caller, seconds: float) -> dict[str, float]:
    time.sleep(SETTLE_S)
    idle = caller.share_of(lambda: time.sleep(seconds))
    busy = caller.share_of(lambda: caller.steadily(seconds))
    return {"idle": idle, "busy": busy, "cpu_us": caller.in_flight(seconds)}


class _Caller:
    """A client that calls all servers in turn, with any number of calls in flight."""

    def __init__(self, connection: socket.socket, process: Process, tools: list[tuple[str, str]]) -> None:
        self._connection = connection
        self._process = process
        self._calls = [
            b',"method":"tools/call","params":%b}\n'
            % msgspec.json.encode(
                {
                    "name": "exec",
                    "arguments": {"server_name": server, "tool_name": tool, "arguments": {}},
                }
            )
            for server, tool in tools
        ]
        self._number = 1_000_000
        self._waiting = 0

    def share_of(self, what: object) -> float:
        """The share of a core that the daemon uses meanwhile."""
        began, before = time.monotonic(), self._process.cpu_s()
        what()
        return (self._process.cpu_s() - before) / (time.monotonic() - began)

    def steadily(self, seconds: float) -> None:
        """`RATE` calls a second, whether they are answered or not, for so long; then all answers."""
        began = beat = time.monotonic()
        while beat - began < seconds:
            self._send(round(RATE * BEAT_S))
            beat += BEAT_S
            while (left := beat - time.monotonic()) > 0:
                self._read(left)
        self._drain()

    def in_flight(self, seconds: float) -> float:
        """The daemon's microseconds for a call, with `WINDOW` of them in flight."""
        began, before, done = time.monotonic(), self._process.cpu_s(), 0
        while time.monotonic() - began < seconds:
            self._send(WINDOW - self._waiting)
            done += self._read(LATE_S)
        done += self._drain()
        return (self._process.cpu_s() - before) / done * 1e6

    def _send(self, count: int) -> None:
        lines = []
        for _ in range(count):
            self._number += 1
            call = self._calls[self._number % len(self._calls)]
            lines.append(b'{"jsonrpc":"2.0","id":%d%b' % (self._number, call))
        self._waiting += count
        self._connection.sendall(b"".join(lines))

    def _read(self, timeout: float) -> int:
        """Read what comes within that time; how many answers there were."""
        if not select.select([self._connection], [], [], timeout)[0]:
            return 0
        data = self._connection.recv(1 << 18)
        if not data or b'"isError":true' in data:
            raise Unmeasured(f"a call failed: {data[:300]!r}")
        answered = data.count(b"\n")
        self._waiting -= answered
        return answered

    def _drain(self) -> int:
        done, late = 0, time.monotonic() + LATE_S
        while self._waiting > 0:
            done += self._read(1.0)
            if time.monotonic() > late:
                raise Unmeasured(f"{self._waiting} calls have no answer")
        return done


def _callable(servers: dict[str, list[str]]) -> list[tuple[str, str]]:
    """A tool of each server that can be called without arguments."""
    found = []
    for server, command in servers.items():
        tools = json.loads(Path(command[-1]).read_text())["tools"]
        free = (tool["name"] for tool in tools if not tool["inputSchema"].get("required"))
        found += [(server, name) for name in list(free)[:1]]
    if not found:
        raise Unmeasured("no tool can be called without arguments")
    return found


@contextmanager
def _page(state: Path, *, is_open: bool) -> Iterator[None]:
    """Somebody who looks at the page, in a thread that reads what comes; or nobody."""
    if not is_open:
        yield
        return
    url = urlsplit(_link(state))
    connection = http.client.HTTPConnection(url.netloc, timeout=LATE_S)
    connection.request("GET", f"{url.path}?{url.query}")
    opened = connection.getresponse()
    opened.read()
    cookie = (opened.headers["set-cookie"] or "").partition(";")[0]
    topics = "&".join(f"topic={topic}" for topic in TOPICS)
    connection.request("GET", f"/ui/api/events?{topics}", headers={"cookie": cookie})
    stream = connection.getresponse()
    if stream.status != http.client.OK:
        raise Unmeasured(f"the page is refused: {stream.status} {stream.read()[:300]!r}")
    reader = threading.Thread(target=_read_on, args=(stream,), daemon=True)
    reader.start()
    try:
        yield
        if not reader.is_alive():
            raise Unmeasured("the page's stream has ended")
    finally:
        connection.sock.shutdown(socket.SHUT_RDWR)
        reader.join()
        connection.close()


def _read_on(stream: http.client.HTTPResponse) -> None:
    with suppress(http.client.IncompleteRead):  # which is how it ends
        while stream.read1(1 << 16):
            pass


def _link(state: Path) -> str:
    (path,) = (state / "run").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(path))
        control.sendall(b'{"mcpx":"ui"}\n')
        answer = json.loads(control.makefile("rb").readline())
    if "url" not in answer:
        raise Unmeasured(f"there is no page: {answer}")
    return answer["url"]
