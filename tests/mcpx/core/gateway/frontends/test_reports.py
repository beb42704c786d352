"""Lines before a response on the daemon's socket: whole, and dropped where the caller does not read."""

from __future__ import annotations

import json
import socket

from mcpx.core.gateway.frontends.streams import _Reports

LINE = b'{"progress":1,"message":"' + b"x" * 1000 + b'"}\n'


def test_lines_that_nobody_reads_are_dropped_and_none_is_broken():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        reports = _Reports(ours)
        for _ in range(2000):
            reports.send(LINE)
        received = bytearray()
        while True:
            try:
                received += theirs.recv(1 << 16)
            except BlockingIOError:
                break
        lines = (bytes(received) + reports.unsent + b'{"shaped":{}}\n').splitlines()
        assert 1 < len(lines) < 2000
        assert [json.loads(line)["progress"] for line in lines[:-1]] == [1] * (len(lines) - 1)


def test_a_caller_that_has_gone_costs_nothing():
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        reports = _Reports(ours)
        reports.send(LINE)
        reports.send(LINE)
