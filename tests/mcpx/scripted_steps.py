"""What the `answers` of a scripted server do: steps given as data, filled with what was asked.

`answers` has, by what is asked, what is done. A key is a method, or a method, a space, and the name or URI
that it is about; a `*` at its end stands for the rest, and `*` alone for what the server knows nothing of.
The exact key is taken, else the first that fits. The value is a result (an object), a text (of a tool's
result), or a list of steps:

* `say` (a text), `result`, `error`: the answer. `raw`: a file whose last line is the result; those before it
  are written first, as they are.
* `notify` (a method) with `params`; `progress` (params) for a request with a token. Both: so many `times`.
* `append` (a file) with `line`. `stderr` (a line). `offer` (a kind) with `entry`, which is listed from now.
* `sleep` (seconds), `until` (there is a file): meanwhile others are served.
* `hold` (a key): the rest is done at `release` of that key, unless the request is cancelled before.
* `ask` (a request): the rest is done once the client has answered.
* `if` (a value, or two that are to be the same) with `then` and `else`.
* `exit` (a code). `deaf`: read nothing any more. `hoard` (bytes of memory): never given back.

In every text `@{given.x}` is the argument x; there are also `method`, `params`, `id`, `token`, `pid`, `i`
(which time), `answer` (the client's) and `cancelled` (the keys that were). `@{a.b|7}` has a default
(`@{a.b|}`: no text), `@{a:json}` is JSON, and a text that is nothing else is the value itself.
`{"@times": [TEXT, COUNT]}` is a long text, `{"@lines": [TEXT, COUNT]}` so many lines. (It is not `${...}`,
which a configuration of MCPX replaces.)
"""

from __future__ import annotations

import _thread
import json
import os
import re
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests.mcpx.scripted_server import ScriptedServer

FILLED = re.compile(r"@\{([\w.]+)(?:\|([^}]*))?(:json)?\}")
WAITS = {"sleep", "until"}
POLL_S = 0.005


def found(path: str, known: dict[str, Any]) -> Any:
    """The value at that path; None where there is nothing."""
    value: Any = known
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def filled(said: Any, known: dict[str, Any]) -> Any:
    """What is said, with what is known in place of `@{...}`."""
    if isinstance(said, str):
        if "@{" not in said:
            return said
        whole = FILLED.fullmatch(said)
        return one(whole, known) if whole else FILLED.sub(lambda each: str(one(each, known)), said)
    if isinstance(said, list):
        return [filled(each, known) for each in said]
    if not isinstance(said, dict):
        return said
    if "@times" in said:
        text, count = filled(said["@times"], known)
        return text * count
    if "@lines" in said:
        text, count = said["@lines"]
        return "\n".join(filled(text, known | {"i": i}) for i in range(filled(count, known)))
    return {key: filled(value, known) for key, value in said.items()}


def one(match: re.Match[str], known: dict[str, Any]) -> Any:
    path, default, as_json = match.groups()
    value = found(path, known)
    if value is None and default is not None:
        value = json.loads(default) if default else ""
    return json.dumps(value) if as_json else value


class Answers:
    """The answers of one session."""

    def __init__(self, server: ScriptedServer, told: dict[str, Any]) -> None:
        self.server = server
        self.told = told
        self.held: dict[Any, tuple[list[Any], dict[str, Any]]] = {}
        self.asked: dict[str, tuple[list[Any], dict[str, Any]]] = {}
        self.cancelled: list[Any] = []

    def give(self, request_id: Any, method: str, params: dict[str, Any]) -> bool:
        """Do what is told for this request; returns whether anything is."""
        about = params.get("ref", params)
        told = self.of(f"{method} {about.get('name', about.get('uri'))}", method)
        if told is not None:
            self.start(told, request_id, method, params)
        return told is not None

    def give_any(self, request_id: Any, method: str, params: dict[str, Any]) -> bool:
        """The same, for a request that the server does not know."""
        if "*" in self.told:
            self.start(self.told["*"], request_id, method, params)
        return "*" in self.told

    def start(self, told: Any, request_id: Any, method: str, params: dict[str, Any]) -> None:
        if isinstance(told, str):
            told = [{"say": told}]
        elif isinstance(told, dict):
            told = [{"result": told}]
        known = {
            "method": method,
            "params": params,
            "given": params.get("arguments") or {},
            "id": request_id,
            "token": (params.get("_meta") or {}).get("progressToken"),
            "pid": os.getpid(),
            "cwd": os.getcwd(),
            "env": dict(os.environ),
            "cancelled": self.cancelled,
        }
        self.begin(told, known)

    def of(self, *asked: str) -> Any:
        for each in asked:
            if each in self.told:
                return self.told[each]
        for key, told in self.told.items():
            if key.endswith("*") and key != "*" and asked[0].startswith(key[:-1]):
                return told
        return None

    def begin(self, steps: list[Any], known: dict[str, Any]) -> None:
        """Do the steps, in a thread where one of them waits."""
        if any(WAITS & step.keys() for step in steps):
            _thread.start_new_thread(self.run, (steps, known))
        else:
            self.run(steps, known)

    def run(self, steps: list[Any], known: dict[str, Any]) -> None:
        for number, step in enumerate(steps):
            verb = next(iter(step))
            if verb in {"hold", "ask"}:
                getattr(self, "do_" + verb)(step, known, steps[number + 1 :])
                return
            if verb == "if":
                value = filled(step["if"], known)
                holds = value[0] == value[1] if isinstance(value, list) else value
                self.run(step.get("then" if holds else "else", []) + steps[number + 1 :], known)
                return
            getattr(self, "do_" + verb)(step, known)

    # --- what comes later

    def do_hold(self, step: dict[str, Any], known: dict[str, Any], rest: list[Any]) -> None:
        self.held[filled(step["hold"], known)] = rest, known

    def do_release(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        self.run(*self.held.pop(filled(step["release"], known)))

    def cancel(self, request_id: Any) -> None:
        keys = [key for key, (_, known) in self.held.items() if known["id"] == request_id]
        for key in keys:
            del self.held[key]
        self.cancelled += keys or ["nobody"]

    def do_ask(self, step: dict[str, Any], known: dict[str, Any], rest: list[Any]) -> None:
        name = f"q{known['id']}"
        self.asked[name] = rest, known
        self.server.send(id=name, **filled(step["ask"], known))

    def answered(self, message: dict[str, Any]) -> None:
        if (asked := self.asked.pop(message.get("id"), None)) is not None:
            rest, known = asked
            self.begin(rest, known | {"answer": message.get("result")})

    # --- what is said

    def do_say(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        self.server.say(known["id"], filled(step["say"], known))

    def do_result(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        self.server.result(known["id"], **filled(step["result"], known))

    def do_error(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        self.server.send(id=known["id"], error=filled(step["error"], known))

    def do_raw(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        with open(filled(step["raw"], known), "rb") as file:
            *notices, result = file.read().splitlines()
        for notice in notices:
            self.server.write(notice)
        self.server.write(
            b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(known["id"]).encode(), result)
        )

    def do_notify(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        for i in range(filled(step.get("times", 1), known)):
            params = {"params": filled(step["params"], known | {"i": i})} if "params" in step else {}
            self.server.send(method=filled(step["notify"], known), **params)

    def do_progress(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        if known["token"] is not None:
            params = {"progressToken": "@{token}", **step["progress"]}
            self.do_notify({**step, "notify": "notifications/progress", "params": params}, known)

    # --- what is done

    def do_append(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        to = os.open(filled(step["append"], known), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(to, f"{filled(step['line'], known)}\n".encode())
        os.close(to)

    def do_stderr(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        os.write(2, f"{filled(step['stderr'], known)}\n".encode())

    def do_offer(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        self.server.script["offers"][filled(step["offer"], known)].append(filled(step["entry"], known))

    def do_sleep(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        time.sleep(filled(step["sleep"], known))

    def do_until(self, step: dict[str, Any], known: dict[str, Any]) -> None:
        while not os.path.exists(filled(step["until"], known)):  # pathlib takes long to import
            time.sleep(POLL_S)

    def do_exit(self, step: dict[str, Any], _known: dict[str, Any]) -> None:
        sys.stderr.flush()
        os._exit(step["exit"])

    def do_hoard(self, step: dict[str, Any], _known: dict[str, Any]) -> None:
        self.hoarded = [*getattr(self, "hoarded", ()), b"x" * step["hoard"]]

    def do_deaf(self, _step: dict[str, Any], _known: dict[str, Any]) -> None:
        while True:
            signal.pause()
