"""A stdio server that answers with the bytes that it is told to; standard library only. For tests.

Run as `python -S -E quick.py raw_server.py SCRIPT`, where SCRIPT is a JSON object in a file:

* `answers`: by method, the line to answer with, in which `@ID@` is the request's id and `@N@` a number of
  its own; or `exit`, or `silent`.
* `first`: the only method that may come first; the server exits with code 1 at any other.
* `spoilt_by`: a method after which it exits at the next request. `silenced_by`: it is answered no more.
* `slow_at`: a method that is answered after `slow_s` seconds, while others are read at once.
* `ears`: a file; each start and each request is a line in it. `lines`: another, with whole messages.
* `before`: by method, lines that are written before its answer.
* `storm`: how many list_changed a second are sent once a tool was called; `storms`: another method.

What is not in `answers` is answered as a server of the older revisions with the tool `echo` does.
"""

from __future__ import annotations

import json
import os
import sys
import time

SCRIPT = json.load(open(sys.argv[1]))  # noqa: SIM115 - starts fast, lives short
ANSWERS = SCRIPT.get("answers", {})
CAPABILITIES = {"tools": {"listChanged": True}}
DEFAULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "raw", "version": "1"},
    },
    "ping": {},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "pong"}]},
}


def note(text: str) -> None:
    if path := SCRIPT.get("ears"):
        with open(path, "a") as ears:
            ears.write(text + "\n")


def write(line: str) -> None:
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def write_when_due(line: str, method: str) -> None:
    if method != SCRIPT.get("slow_at"):
        write(line)
        return
    import threading  # noqa: PLC0415 - which others need not wait for

    timer = threading.Timer(SCRIPT["slow_s"], write, [line])
    timer.daemon = True
    timer.start()


def storm(a_second: int) -> None:
    method = SCRIPT.get("storms", "notifications/tools/list_changed")
    lines = f'{{"jsonrpc":"2.0","method":"{method}","params":{{"uri":"a:b"}}}}\n' * (a_second // 100)
    while True:
        write(lines[:-1])
        time.sleep(0.01)


def answer(method: str, request_id: str) -> str | None:
    told = ANSWERS.get(method)
    if told == "exit":
        sys.exit(1)
    if told == "silent":
        return None
    if told is not None:
        return told.replace("@ID@", request_id).replace("@N@", request_id.strip('"'))
    if method in DEFAULTS:
        return f'{{"jsonrpc":"2.0","id":{request_id},"result":{json.dumps(DEFAULTS[method])}}}'
    return f'{{"jsonrpc":"2.0","id":{request_id},"error":{{"code":-32601,"message":"Method not found"}}}}'


def main() -> None:
    note("started")
    first = SCRIPT.get("first")
    spoilt = silenced = False
    for line in sys.stdin:
        if path := SCRIPT.get("lines"):
            with open(path, "a") as lines:
                lines.write(line)
        message = json.loads(line)
        method = message.get("method", "")
        if first is not None and method != first:
            sys.stderr.write(f"expect initialized request, but received {method}\n")
            sys.exit(1)
        first = None
        if "id" not in message:
            continue
        note(method)
        if spoilt:
            sys.exit(1)
        if silenced or method == SCRIPT.get("silenced_by"):
            silenced = True
            continue
        spoilt = method == SCRIPT.get("spoilt_by")
        if method == "tools/call" and (a_second := SCRIPT.get("storm")):
            import threading  # noqa: PLC0415 - as above

            threading.Thread(target=storm, args=(a_second,), daemon=True).start()
        for each in SCRIPT.get("before", {}).get(method, []):
            write(each.replace("@ID@", json.dumps(message["id"])))
        said = answer(method, json.dumps(message["id"]))
        if said is not None:
            write_when_due(said, method)


if __name__ == "__main__":
    main()
