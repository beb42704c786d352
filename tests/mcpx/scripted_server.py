"""A small MCP server over stdio that does what a script tells it, good or wicked; for tests.

Run as `python -S -E quick.py scripted_server.py SCRIPT`, where SCRIPT is a JSON object, or a file with one,
that has any of these keys:

* `offers`: by kind (`tools`, `prompts`, `resources`, `resourceTemplates`), what it lists; a name stands for a
  tool or prompt of that name. `greeting`: members of its answer to `initialize` in other words.
* `answers`: what it does at requests and calls, see `scripted_steps.py`. For what is not there it is as here.
* `modern`: it knows 2026-07-28 and nothing else.

* `ears`: a file or FIFO; every event is written there as one JSON line (`started`, `request`, `call`, `read`,
  `cancelled`, `grandchild`, ...), before anything is answered.
* `wants`, `without`: a file, and what happens at start where it is missing: `exit` (the default) or `silent`.
* `gate`: a FIFO from which a byte is read at start, before anything else is done. `turns`: one from which
  the tool `turn` reads a byte before it answers, and meanwhile nothing is done: it takes one call at a time.
* `stderr`: text said at start. `exit`: leave at once with this code. `exit_at`: leave when this method comes.
* `silent`: read everything and answer nothing. `unread`: the same, for resources/read only.
* `noise`: print lines that are no messages before every answer.
* `stubborn`: ignore SIGTERM and the end of standard input. `grandchild`: leave a stubborn child behind;
  `session`: in a session of its own, as a browser is, `hidden`: and with an empty environment.
* `tools`: a file with the list of tools (read at every listing), in place of the built-in ones.
* `about`: a file with what it says of itself: a JSON object with `name`, `title`, `instructions`.
* `endless`: `same` or `new`, the kind of cursor that every page of tools ends with. `pages`: so many pages.
* `resources`: a list of resources with their `text` or `blob`, which is left out of the listing.
* `folder`: where `die_once` remembers that it has died. `tolerant`: go on after a message that is no JSON.

Standard library only, and little of it, so that it starts in 12 ms. Imports nothing of MCPX.
"""

from __future__ import annotations

import _signal as signal  # signal imports enum
import json
import os
import select
import sys
from _thread import allocate_lock
from os.path import exists  # pathlib and typing take as long to import as the rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

CROWD_PATIENCE_S = 0.1
SAYS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOISE = (
    b"Listening on stdio, ready when you are!\n",
    b"\xff\xfe\x00 not even text\n",
    b"[]\n",
    b"\n",
    b'{"jsonrpc": "2.0"}\n',
    b'{"jsonrpc": "2.0", "id": 987654, "result": {"nobody": "asked"}}\n',
    b"[" * 5000 + b"]" * 5000 + b"\n",
)
TOOLS = [
    {"name": "echo", "inputSchema": SAYS, "description": "Says the text."},
    {"name": "fail", "inputSchema": SAYS, "description": "Answers with a JSON-RPC error."},
    {"name": "count", "inputSchema": {"type": "object"}, "description": "Counted in the ears."},
    {"name": "hang", "inputSchema": {"type": "object"}, "description": "Answered at `release`."},
    {"name": "nudge", "inputSchema": {"type": "object"}, "description": "Progress for what hangs."},
    {"name": "release", "inputSchema": {"type": "object"}, "description": "Answers what hangs."},
    {
        "name": "crowd",
        "inputSchema": {"type": "object"},
        "description": "Answered when `size` of them are here.",
    },
    {"name": "die", "inputSchema": {"type": "object"}},
    {"name": "die_read_only", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "die_once_read_only", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {
        "name": "die_once_idempotent",
        "inputSchema": {"type": "object"},
        "annotations": {"idempotentHint": True},
    },
    {
        "name": "add",
        "inputSchema": {"type": "object"},
        "description": "Adds a tool and says so `times` times.",
    },
    {
        "name": "huge",
        "inputSchema": {"type": "object"},
        "description": "A line of `bytes`; `note` or answer.",
    },
]


COMPLETE = {"resultType": "complete"}
LISTED = {"ttlMs": 0, "cacheScope": "private"}
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def listed(kind: str, item: Any) -> Any:
    """An entry of a list, which may be given by its name alone."""
    if not isinstance(item, str):
        return item
    return {"name": item} | ({"inputSchema": {"type": "object"}} if kind == "tools" else {})


class ScriptedServer:
    """One session over the standard streams."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.added: list[str] = []
        self.hanging: dict[Any, Any] = {}  # request id -> progress token
        self.crowd: list[Any] = []
        self.largest_crowd = 0
        self.pages = 0
        self.writing = allocate_lock()
        self.answers: Any = None
        if "answers" in script:
            from scripted_steps import Answers  # noqa: PLC0415 - which others need not wait for

            self.answers = Answers(self, script["answers"])
        ears = script.get("ears")
        self.ears = os.open(ears, os.O_RDWR | os.O_APPEND | os.O_CREAT) if ears else None

    # --- its life

    def run(self) -> None:
        self.begin()
        rest = b""
        while chunk := self.read():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.hear(line)
        while self.script.get("stubborn"):
            signal.pause()

    def hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            if not self.script.get("tolerant"):
                raise
            return
        self.take(message)

    def begin(self) -> None:
        if self.script.get("stubborn"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if kind := self.script.get("grandchild"):
            self.leave_grandchild(kind)
        self.note("started", pid=os.getpid())
        if gate := self.script.get("gate"):
            os.read(os.open(gate, os.O_RDONLY), 1)
        if text := self.script.get("stderr"):
            os.write(2, text.encode())
        if (code := self.script.get("exit")) is not None:
            sys.exit(code)
        wanted = self.script.get("wants")
        if wanted and not exists(wanted):
            if self.script.get("without") != "silent":
                os.write(2, b"the file that I want is missing\n")
                sys.exit(3)
            self.script["silent"] = True

    def leave_grandchild(self, kind: object) -> None:
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if kind in {"session", "hidden"}:
                os.setsid()
            if kind == "hidden":
                os.execve("/bin/sleep", ["sleep", "600"], {})
            while True:
                signal.pause()
        self.note("grandchild", pid=pid)

    def read(self) -> bytes:
        """The next bytes; a crowd that stays as it is for a moment is answered first."""
        while self.crowd:
            ready, _, _ = select.select([0], [], [], CROWD_PATIENCE_S)
            if ready:
                break
            self.answer_crowd()
        return os.read(0, 65536)

    # --- talking

    def note(self, event: str, **fields: Any) -> None:
        if self.ears is not None:
            os.write(self.ears, json.dumps({"event": event, **fields}).encode() + b"\n")

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def write(self, line: bytes) -> None:
        with self.writing:
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[os.write(1, rest) :]

    def result(self, request_id: Any, **result: Any) -> None:
        if self.script.get("modern"):
            result = COMPLETE | result
        if self.script.get("noise"):
            os.write(1, b"".join(NOISE))
        self.send(id=request_id, result=result)

    def say(self, request_id: Any, text: str) -> None:
        self.result(request_id, content=[{"type": "text", "text": text}])

    def take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is not None and method == self.script.get("exit_at"):
            sys.exit(4)
        if method == "notifications/cancelled":
            self.hanging.pop(params["requestId"], None)
            if self.answers:
                self.answers.cancel(params["requestId"])
            self.note("cancelled", id=params["requestId"])
        if method is None and self.answers:
            self.answers.answered(message)
        if "id" not in message or method is None or self.script.get("silent"):
            return
        self.note("request", method=method)
        handler = self.handler(method)
        if self.answers and self.answers.give(message["id"], method, params):
            return
        if handler is None and self.answers and self.answers.give_any(message["id"], method, params):
            return
        if handler is None:
            self.send(id=message["id"], error={"code": -32601, "message": f"Method not found: {method}"})
        else:
            handler(message["id"], params)

    def handler(self, method: str) -> Any:
        if method == ("initialize" if self.script.get("modern") else "server/discover"):
            return None
        if LISTS.get(method) in self.script.get("offers", {}):
            return lambda request_id, _params: self.list_offers(request_id, LISTS[method])
        return getattr(self, "on_" + method.replace("/", "_"), None)

    def list_offers(self, request_id: Any, kind: str) -> None:
        offers = {kind: [listed(kind, item) for item in self.script["offers"][kind]]}
        self.result(request_id, **offers, **(LISTED if self.script.get("modern") else {}))

    # --- the methods

    def capabilities(self) -> dict[str, Any]:
        if "offers" in self.script:
            kinds = self.script["offers"]
            return {kind: {} for kind in ("tools", "prompts", "resources") if kind in kinds}
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        if "resources" in self.script:
            capabilities["resources"] = {}
        return capabilities

    def on_server_discover(self, request_id: Any, _params: dict[str, Any]) -> None:
        about = {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities()}
        self.result(request_id, **(about | LISTED | self.script.get("greeting", {})))

    def on_initialize(self, request_id: Any, params: dict[str, Any]) -> None:
        about = {"name": "scripted", "instructions": "Does what its script says."}
        if path := self.script.get("about"):
            about |= read_json(path)
        said = about.pop("instructions")
        greeting = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": self.capabilities(),
            "serverInfo": {"version": "1", **about},
            **({} if "offers" in self.script else {"instructions": said}),
        }
        self.result(request_id, **(greeting | self.script.get("greeting", {})))

    def on_ping(self, request_id: Any, _params: dict[str, Any]) -> None:
        self.result(request_id)

    def on_tools_list(self, request_id: Any, params: dict[str, Any]) -> None:
        if path := self.script.get("tools"):
            tools = read_json(path)
        else:
            tools = [*TOOLS, *({"name": name, "inputSchema": SAYS} for name in self.added)]
        kind, pages = self.script.get("endless"), self.script.get("pages")
        if kind:
            self.pages += 1
            self.result(request_id, tools=[], nextCursor="again" if kind == "same" else str(self.pages))
        elif pages:
            page = int(params.get("cursor", 0))
            more = {"nextCursor": str(page + 1)} if page + 1 < pages else {}
            self.result(request_id, tools=tools[page::pages], **more)
        else:
            self.result(request_id, tools=tools)

    def on_resources_list(self, request_id: Any, _params: dict[str, Any]) -> None:
        listed = [
            {key: value for key, value in item.items() if key not in {"text", "blob"}}
            for item in self.script["resources"]
        ]
        self.result(request_id, resources=listed)

    def on_resources_read(self, request_id: Any, params: dict[str, Any]) -> None:
        uri = params["uri"]
        self.note("read", uri=uri)
        if self.script.get("unread"):
            return
        item = next(item for item in self.script["resources"] if item["uri"] == uri)
        content = {key: item[key] for key in ("uri", "mimeType", "text", "blob") if key in item}
        self.result(request_id, contents=[content])

    def on_tools_call(self, request_id: Any, params: dict[str, Any]) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        self.note("call", tool=name, arguments=arguments, id=request_id, pid=os.getpid())
        if name.startswith("die"):
            self.die(request_id, name, arguments)
        elif (held := arguments.get("hold")) and not (isinstance(held, str) and exists(held)):
            pass  # it has run, and is never answered; or not before there is that file
        elif name == "hang":
            self.hanging[request_id] = (params.get("_meta") or {}).get("progressToken")
        elif name == "crowd":
            self.crowd.append(request_id)
            self.largest_crowd = max(self.largest_crowd, len(self.crowd))
            self.crowd_size = arguments["size"]
        else:
            getattr(self, "tool_" + name, self.tool_echo)(request_id, arguments)

    # --- the tools

    def tool_echo(self, request_id: Any, arguments: dict[str, Any]) -> None:
        self.say(request_id, arguments.get("text", "nothing"))

    def tool_turn(self, request_id: Any, arguments: dict[str, Any]) -> None:
        turns = os.open(self.script["turns"], os.O_RDONLY)
        os.read(turns, 1)
        os.close(turns)
        self.say(request_id, arguments["text"])

    def tool_fail(self, request_id: Any, arguments: dict[str, Any]) -> None:
        error = {"code": -31234, "message": arguments["text"], "data": {"kept": [1, None]}}
        self.send(id=request_id, error=error)

    def tool_nudge(self, request_id: Any, _arguments: dict[str, Any]) -> None:
        self.pages += 1
        for token in self.hanging.values():
            params = {"progressToken": token, "progress": self.pages, "message": "still at it"}
            self.send(method="notifications/progress", params=params)
        self.say(request_id, "nudged")

    def tool_release(self, request_id: Any, _arguments: dict[str, Any]) -> None:
        for hanging in self.hanging:
            self.say(hanging, "released")
        self.hanging.clear()
        self.say(request_id, "done")

    def answer_crowd(self) -> None:
        if len(self.crowd) >= self.crowd_size:
            crowd, self.crowd = self.crowd, []
            for waiting in crowd:
                self.say(waiting, f"at most {self.largest_crowd}")

    def tool_add(self, request_id: Any, arguments: dict[str, Any]) -> None:
        times = arguments.get("times", 1)
        for number in range(times):
            if number == times - 1:
                self.added.append(arguments["name"])
            self.send(method="notifications/tools/list_changed")
        self.say(request_id, "added")

    def tool_huge(self, request_id: Any, arguments: dict[str, Any]) -> None:
        text = "x" * arguments["bytes"]
        if arguments.get("note"):
            self.send(method="notifications/message", params={"level": "info", "data": text})
            text = "after the note"
        self.say(request_id, text)

    def die(self, request_id: Any, name: str, arguments: dict[str, Any]) -> None:
        if name.startswith("die_once"):
            died = f"{self.script['folder']}/{name}"
            if exists(died):
                self.say(request_id, "alive again")
                return
            os.close(os.open(died, os.O_CREAT))
        os.write(2, b"these are my last words\n")
        if (code := arguments.get("code")) is not None:
            self.leave(code)
        os.kill(os.getpid(), signal.SIGKILL)

    def leave(self, code: int) -> NoReturn:
        os._exit(code)


if __name__ == "__main__":
    SCRIPT = sys.argv[1]
    ScriptedServer(json.loads(SCRIPT) if SCRIPT.startswith("{") else read_json(SCRIPT)).run()
