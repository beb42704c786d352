"""Measure how large answers of servers, and large requests of clients, hold up everybody else.

    PYTHONPATH=. .venv/bin/python tests/faults/large_results_stall.py [--mb 60] [CASE ...]

Each case plays against a daemon of its own. A process apart calls a neighbour all the while and times it;
what the daemon and its workers use is read from /proc. A case is the number of servers that answer at once
(below 1: that are sent large arguments), what each answers, and more for the call.
"""

from __future__ import annotations

import argparse
import json
import socket
import threading
import time
from typing import Any

from tests.faults import traces
from tests.faults.hostile_client import exec_line
from tests.faults.hostile_mcpx import Mcpx

CODE = """
made = {}
def body(kind, size):
    if kind not in made:
        made[kind] = make(kind, size)
    return made[kind]
TEXTS, CLOSE = b'{"content":[{"type":"text","text":"x"}],', b"]}}"
def fill(head, unit, tail, size):
    joint = b"" if tail[:1] == b'"' else unit.rstrip(b",")
    return head + unit * ((size - len(head) - len(tail)) // len(unit)) + joint + tail
TEXT = b'{"type":"text","text":"x"},'
HEAD, TAIL = b'{"content":[{"type":"text","text":"', b'"}]}'
def make(kind, size):
    if kind == "blocks":
        return fill(b'{"content":[', TEXT, b"]}", size)
    if kind == "nested":
        return fill(TEXTS + b'"structuredContent":{"a":[', b"[[[[1]]]],", CLOSE, size)
    if kind == "rows":
        return fill(TEXTS + b'"structuredContent":{"a":[', b'{"a":1,"b":2},', CLOSE, size)
    if kind == "rows_text":
        return fill(HEAD + b"[", b'{\\\\"a\\\\":1,\\\\"b\\\\":2},', b"]" + TAIL, size)
    if kind == "text":
        return fill(HEAD, b"some words of a log, ", TAIL, size)
    if kind == "unicode":
        return fill(HEAD, "größere Wörter, ".encode(), TAIL, size)
    if kind == "surrogates":
        return fill(HEAD, b"\\\\ud83d\\\\ude00 ", TAIL, size)
    if kind == "lone":
        return fill(HEAD, b"\\\\ud83d ", TAIL, size)
    if kind == "image":
        head = b'{"content":[{"type":"image","mimeType":"image/png","data":"'
        return fill(head, b"iVBORw0KGgoA", TAIL, size)
    if kind == "members":
        return fill(b'{"content":[],', b'"aaaa":1,', b'"z":1}', size)
    if kind == "meta":
        return fill(TEXTS + b'"_meta":{"a":[', b"[[[[1]]]],", CLOSE, size)
    if kind == "broken":
        return fill(b'{"content":[', TEXT, b"}}", size)
    raise ValueError(kind)
SIZE = @SIZE@
def on_tools_call(request_id, params):
    kind = (params.get("arguments") or {}).get("kind")
    if kind is None:
        return say(request_id, "got it")
    name, _, form = kind.partition(":")
    result = body(name, SIZE)
    if form == "last":
        write(b'{"result":')
        write(result)
        return write(b',"id":%d,"jsonrpc":"2.0"}\\n' % request_id)
    if form == "spaced":
        write(b'{ "jsonrpc": "2.0", "result":')
        write(result)
        return write(b', "id": %d }\\n' % request_id)
    if form == "error":
        write(b'{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"no","data":' % request_id)
        write(result)
        return write(b"}}\\n")
    write(b'{"jsonrpc":"2.0","id":%d,"result":' % request_id)
    write(result)
    write(b"}\\n")
"""
CASES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "1,900,000 text blocks": (1, "blocks", {}),
    "structured [[[[1]]]]": (1, "nested", {}),
    "structured rows": (1, "rows", {}),
    "rows as text": (1, "rows_text", {}),
    "one plain text": (1, "text", {}),
    "text with umlauts": (1, "unicode", {}),
    "escaped surrogates": (1, "surrogates", {}),
    "lone surrogates": (1, "lone", {}),
    "an image": (1, "image", {}),
    "unknown members": (1, "members", {}),
    "a deep _meta": (1, "meta", {}),
    "broken JSON": (1, "broken", {}),
    "blocks, the id last": (1, "blocks:last", {}),
    "text, unusual spelling": (1, "text:spaced", {}),
    "an error with data": (1, "nested:error", {}),
    "select from rows": (1, "rows", {"select": "a[?b>`1`] | length(@)"}),
    "without a limit, text": (1, "text", {"max_tokens": 0}),
    "without a limit, nested": (1, "nested", {"max_tokens": 0}),
    "8 x text blocks": (8, "blocks", {}),
    "8 x nested": (8, "nested", {}),
    "8 x plain text": (8, "text", {}),
    "arguments of 60 MB": (0, "arguments", {}),
    "arguments of 60 MB, nested": (0, "nested arguments", {}),
    "8 x arguments of 60 MB": (-8, "arguments", {}),
}


class Watcher(threading.Thread):
    """Samples the memory of the daemon and of its own children, servers left out."""

    def __init__(self, mcpx: Mcpx) -> None:
        super().__init__(daemon=True)
        self.mcpx = mcpx
        self.ended = threading.Event()
        self.workers: dict[int, int] = {}
        self.most = 0

    def run(self) -> None:
        servers = set(traces.marked(self.mcpx.mark)) | set(traces.marked(self.mcpx._own_mark))
        while not self.ended.wait(0.02):
            together = 0
            for pid in traces.children(self.mcpx.pid):
                if pid in servers:
                    continue
                try:
                    held = traces.memory(pid)
                except (OSError, LookupError):
                    continue
                together += held
            self.most = max(self.most, together)


def connect(mcpx: Mcpx) -> tuple[socket.socket, Any]:
    """A client that has shaken hands."""
    joined = socket.socket(socket.AF_UNIX)
    joined.connect(str(mcpx.place.socket))
    joined.settimeout(240)
    hello = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"large","version":"1"}}'
    joined.sendall(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":%s}\n' % hello)
    lines = heads(joined)
    next(lines)
    joined.sendall(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    return joined, lines


def heads(joined: socket.socket) -> Any:
    """The first bytes and the length of each line that comes."""
    head, length = b"", 0
    while chunk := joined.recv(1 << 20):
        while chunk:
            part, end, chunk = chunk.partition(b"\n")
            length += len(part)
            if len(head) < 400:
                head += part[:400]
            if end:
                yield head[:400], length
                head, length = b"", 0


def arguments_of(kind: str, size: int) -> bytes:
    """Large arguments of a call."""
    if kind == "arguments":
        return b'{"text":"' + b"x" * size + b'"}'
    unit = b"[[[[1]]]],"
    return b'{"a":[' + unit * (size // len(unit)) + b"1]}"


def play(case: str, size: int) -> None:
    """Play one case, and print its line."""
    servers, kind, more = CASES[case]
    mcpx = Mcpx(pace_s=0.005)
    try:
        code = CODE.replace("@SIZE@", str(size))
        names = [f"s{n}" for n in range(max(1, abs(servers)))]
        entry = {"call_timeout": 200.0, "queue_timeout": 200.0}
        mcpx.add({name: mcpx.stdio(name, {"code": code}, mark=mcpx.mark, **entry) for name in names})
        deadline = time.monotonic() + 30
        while any(mcpx.status(name)["state"] != "ready" for name in names) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        joined, lines = connect(mcpx)
        calls = []
        for number, name in enumerate(names):
            if servers > 0:
                calls.append(exec_line(number + 1, name, "echo", b'{"kind":"%s"}' % kind.encode()))
                for key, value in more.items():
                    extra = b'"%s":%s,"server_name"' % (key.encode(), json.dumps(value).encode())
                    calls[-1] = calls[-1].replace(b'"server_name"', extra, 1)
            else:
                calls.append(exec_line(number + 1, name, "echo", arguments_of(kind, size)))
        before = traces.memory(mcpx.pid)
        traces.forget_peak(mcpx.pid)
        cpu = traces.cpu_s(mcpx.pid)
        watcher = Watcher(mcpx)
        watcher.start()
        mcpx.neighbour.order("mark")
        began = time.monotonic()
        sender = threading.Thread(target=lambda: [joined.sendall(each) for each in calls], daemon=True)
        sender.start()
        answers = []
        try:
            for _ in calls:
                answers.append(next(lines))  # noqa: PERF401 - those that came are shown where one does not
        except (OSError, StopIteration) as error:
            answers.append((repr(error).encode(), 0))
        took = time.monotonic() - began
        time.sleep(0.3)
        report = mcpx.neighbour.order("report")
        watcher.ended.set()
        watcher.join()
        peak = traces.memory(mcpx.pid, "VmHWM")
        seen = {head[:160].decode("utf-8", "replace") + f"... {length}" for head, length in answers}
        print(
            f"| {case} | {report['calls']} |"
            f" {report['p99_s'] * 1000:.0f} | {report['slowest_s'] * 1000:.0f} |"
            f" {traces.cpu_s(mcpx.pid) - cpu:.1f} | {took:.1f} | {before >> 20} | {peak >> 20} |"
            f" {watcher.most >> 20} | {len(answers)}: {min(seen)} |",
            flush=True,
        )
        for problem in report["problems"]:
            print("  neighbour:", problem)
        joined.close()
    finally:
        mcpx.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=60)
    parser.add_argument("cases", nargs="*", default=[])
    given = parser.parse_args()
    print("| case | calls | p99 ms | worst ms | CPU s | took s | RSS before | peak | workers | answer |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for case in given.cases or CASES:
        play(case, given.mb * 1_000_000)


if __name__ == "__main__":
    main()
