"""The second table: what is hostile or odd, played against a whole MCPX with a healthy neighbour beside it.

A row is a coroutine in a module `rows_hostile_PART`, registered there under the words for its fault:

    faults = HostileFaults()

    @faults.row("a schema that refers to itself", memory_mb=16)
    async def own_reference(on: Hostile) -> None:
        await on.add(s=on.stdio(tools=[{"name": "t", "inputSchema": {"type": "object", "$ref": "#"}}]))
        async with on.client() as client:
            for _ in range(4):
                on.answered(await client.exec("s", "t", {"a": 1}), contains="t by")

When it begins, an MCPX daemon runs (`on.mcpx`), and a process of its own calls the server `neighbour` all the
while. The row gives MCPX its wicked servers (`on.add`, with entries from `on.stdio`, `await on.http(...)`, or
any others; each must carry `on.mark` in its environment), attacks with raw clients (`on.client()` on the
socket, `on.http_client()`, `on.serving()` for an MCPX over standard streams), and says what the caller got:
`answered`, `failed`, `refused`, or `saw` and `check`. What a server may do stands in `hostile_server.py`
(results by method, or lines of Python) and `hostile_http.py`; what a client may do, in `hostile_client.py`.

When it ends, the table judges by itself what holds for every row: the neighbour's slowest call, that MCPX is
the same process, answers `status` and a fresh client, that its memory rose by no more than `memory_mb` in
the row, that no server of the row and no zombie is left, that the log grew by no more than `log_lines`. A row
that fails does not disturb the next one. The daemon is shared among rows with the same `settings` (of the
whole configuration); a row can have one of its own with `on.own_mcpx(...)`, which is judged alike.

`scripts/faults --hostile --only WORDS` plays rows by name, with the promised times judged as well. The suite
plays them with generous ones, in brief where only a duration or a size costs (`on.brief`), and leaves out
those with `in_suite=False`: the long ones, and those whose kind another row of the suite shows.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from tests.faults import traces
from tests.faults.hostile_client import ANSWER_S, Answer, Client, HttpClient
from tests.faults.hostile_judge import CALLS, FRESH_S, judge_memory, judged
from tests.faults.hostile_mcpx import HERE, House, Mcpx, Memory
from tests.faults.hostile_seen import LINES, HostileFaults, HostileSeen, Row
from tests.forking.processes import open_python

__all__ = [
    "MANY_CALLS",
    "Hostile",
    "HostileFaults",
    "HostileSeen",
    "Row",
    "perform_hostile",
    "show_hostile",
]
MANY_CALLS = 200  # of the neighbour, for a p99 that means something
SETTLED_S = 8.0  # for the servers of a row to be ready or to have failed
LOOK_S = 0.02
QUICK: dict[str, Any] = {
    "restart": {"initial": 0.05, "cap": 0.2},
    "connect_timeout": 5.0,
    "call_timeout": 5.0,
    "queue_timeout": 5.0,
}


class Hostile:
    """One row being played."""

    def __init__(self, seen: HostileSeen, mcpx: Mcpx, *, brief: bool = False) -> None:
        self.seen = seen
        self.check = seen.check
        self.brief = brief
        """Whether less of it is enough: of what only takes time."""
        self.mcpx = mcpx
        self.mark = mcpx.mark
        self._https: list[anyio.abc.Process] = []

    # --- servers

    def stdio(
        self,
        name: str = "s",
        *,
        tools: list[Any] | None = None,
        answers: dict[str, Any] | None = None,
        code: str = "",
        entry: dict[str, Any] | None = None,
        **script: Any,
    ) -> dict[str, Any]:
        """The entry of a scripted server; `script` as in `hostile_server.py`, `entry` of the configuration.

        Each server of a row has a `name` of its own, for its notes.
        """
        told = {"code": textwrap.dedent(code), "answers": answers or {}, **script}
        if tools is not None:
            told["tools"] = tools
        return self.mcpx.stdio(name, told, mark=self.mark, **{**QUICK, **(entry or {})})

    async def http(
        self, code: str = "", *, era: str = "legacy", entry: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Start a scripted HTTP server, which ends with the row; its entry."""
        folder = self.mcpx.server_folder(f"http-{len(self._https)}")
        folder.mkdir()
        script = folder / "script.json"
        script.write_text(json.dumps({"era": era, "code": textwrap.dedent(code)}))
        command = [sys.executable, "-S", "-E", str(HERE / "hostile_http.py"), str(script)]
        process = await anyio.open_process(command, stderr=None, env={**os.environ, traces.MARK: self.mark})
        self._https.append(process)
        assert process.stdout is not None
        with anyio.fail_after(ANSWER_S):
            port = json.loads(await process.stdout.receive())["port"]
        where = {"type": "sse", "url": f"http://127.0.0.1:{port}/sse"}
        if era != "sse":
            where = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}
        return {**where, **QUICK, **(entry or {})}

    async def add(self, *, settled: bool = True, **servers: dict[str, Any]) -> dict[str, Any]:
        """Let MCPX serve these beside the neighbour, in place of those of an earlier `add`.

        Waits until they are ready or have failed, unless told not to; what the reload said.
        """
        told = await anyio.to_thread.run_sync(self.mcpx.add, servers)
        with anyio.move_on_after(SETTLED_S if settled else 0):
            for server in servers:
                while await self.state(server) in {"stopped", "starting"}:  # noqa: ASYNC110 - nobody tells
                    await anyio.sleep(LOOK_S)
        return told

    async def control(self, what: str, **more: Any) -> dict[str, Any]:
        """Ask the daemon something, as its command line does."""
        return await anyio.to_thread.run_sync(lambda: self.mcpx.control(what, **more))

    async def state(self, server: str = "s") -> str:
        """What `status` says of a server's state."""
        return str((await anyio.to_thread.run_sync(self.mcpx.status, server))["state"])

    async def becomes(self, state: str, server: str = "s", *, within_s: float = ANSWER_S) -> None:
        """Wait until a server is in that state."""
        with anyio.fail_after(within_s):
            while await self.state(server) != state:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(LOOK_S)

    def notes(self, name: str = "s") -> list[str]:
        """What a scripted server has noted."""
        file = self.mcpx.server_folder(name) / "notes"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    async def noted(self, text: str, name: str = "s", *, within_s: float = ANSWER_S) -> bool:
        """Wait until a scripted server has noted this; whether it did in time."""
        with anyio.move_on_after(within_s):
            while text not in self.notes(name):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(LOOK_S)
        return text in self.notes(name)

    async def quiet(self, name: str = "s", *, within_s: float = ANSWER_S) -> int:
        """Wait until a scripted server has noted nothing more for a while; how many lines it has noted."""
        before = -1
        with anyio.move_on_after(within_s):
            while before != (before := len(self.notes(name))):  # noqa: ASYNC110 - as above
                await anyio.sleep(0.4 if self.brief else 1.0)
        return before

    def starts(self, name: str = "s") -> int:
        """How often a scripted server was started."""
        return (self.mcpx.server_folder(name) / "starts").stat().st_size

    # --- clients

    @asynccontextmanager
    async def client(self, *, greeted: bool = True, **hello: Any) -> AsyncIterator[Client]:
        """A raw client on the socket; `hello` goes into the params of `initialize`."""
        async with await anyio.connect_unix(str(self.mcpx.place.socket)) as stream:
            client = Client(stream)
            if greeted:
                await client.hello(**hello)
            yield client

    async def http_client(self, *, greeted: bool = True, path: str = "/mcp", **hello: Any) -> HttpClient:
        """A raw client at the HTTP endpoint, or at that of one server."""
        client = HttpClient(*self.mcpx.http(), path)
        if greeted:
            await client.hello(**hello)
        return client

    @asynccontextmanager
    async def serving(
        self,
        *,
        memory_mb: float | None = None,
        settings: dict[str, Any] | None = None,
        may_leave: bool = False,
        **servers: Any,
    ) -> AsyncIterator[tuple[Client, int]]:
        """An MCPX over standard streams with these servers: its client, and its process id.

        Its memory is judged as the daemon's is. It is killed at the end. One that `may_leave` may have ended
        in order: its client is taken to have left.
        """
        folder = self.mcpx.server_folder("serving")
        folder.mkdir()
        config = folder / "config.json"
        config.write_text(json.dumps({"shutdown_grace": 0.2, **(settings or {}), "mcpServers": servers}))
        environment = {**os.environ, "MCPX_STATE_DIR": str(folder / "state"), traces.MARK: self.mark}
        command = [sys.executable, "-P", "-m", "mcpx", "serve", str(config)]
        with (folder / "log").open("ab") as log:
            process = await open_python(command, stderr=log, env=environment)
        try:
            client = Client(process.streams)
            await client.hello()
            memory = Memory(process.pid)
            yield client, process.pid
            right = {None, 0} if may_leave else {None}
            self.check(process.returncode in right, "MCPX over standard streams has ended")
            if process.returncode is None:
                judge_memory(self.seen, memory.risen_mb(), memory_mb)
        finally:
            with anyio.CancelScope(shield=True):  # bounded: SIGKILL
                await process.streams.aclose()
                with anyio.move_on_after(FRESH_S):
                    await process.wait()
                with suppress(ProcessLookupError):
                    process.kill()
                await process.aclose()

    @asynccontextmanager
    async def own_mcpx(
        self, *, prepare: Callable[[Path], None] | None = None, **settings: Any
    ) -> AsyncIterator[Hostile]:
        """Another daemon, for this row alone, and a stage with it. It is judged alike, and ended.

        `prepare` is given its state folder before it starts.
        """
        mcpx = await anyio.to_thread.run_sync(
            lambda: Mcpx(prepare=prepare, pace_s=self.mcpx.pace_s, **settings)
        )
        try:
            inner = Hostile(self.seen, mcpx, brief=self.brief)
            async with judged(inner, LINES):
                yield inner
        finally:
            await anyio.to_thread.run_sync(mcpx.close)

    # --- what the caller got

    def saw(self, words: str) -> None:
        """Say what the caller got, for the table."""
        if words not in self.seen.caller_saw.split("; "):
            self.seen.caller_saw = "; ".join(filter(None, [self.seen.caller_saw, words]))

    def answered(self, answer: Answer, *contains: str) -> None:
        """A call was answered, with a text that says these things."""
        self.saw(answer.in_words)
        self.check(
            answer.in_words == "the answer", f"not answered, but {answer.in_words}: {answer.text[:300]}"
        )
        for text in contains:
            self.check(text in answer.text, f"the answer does not say {text!r}: {answer.text[:300]}")

    def failed(self, answer: Answer, code: str, outcome: str, *contains: str) -> None:
        """A call failed with this code and outcome of MCPX."""
        self.saw(answer.in_words)
        right = (answer.code, answer.outcome) == (code, outcome)
        self.check(right, f"not {code}, {outcome}, but {answer.in_words}: {answer.text[:300]}")
        for text in contains:
            self.check(text in answer.text, f"the error does not say {text!r}: {answer.text[:300]}")

    def refused(self, answer: Answer, code: int) -> None:
        """A request got this JSON-RPC error."""
        self.saw(answer.in_words)
        self.check(
            answer.error == code, f"not JSON-RPC error {code}, but {answer.in_words}: {answer.text[:300]}"
        )

    # --- the end

    async def close(self) -> None:
        """End the HTTP servers of the row."""
        for process in self._https:
            with suppress(ProcessLookupError):
                process.kill()
            await process.aclose()


async def perform_hostile(
    fault: str, row: Row, house: House, *, calls: int = CALLS, brief: bool = False
) -> HostileSeen:
    """Play one row. Whatever goes wrong is a problem of it, and the next row gets another MCPX."""
    seen = HostileSeen(fault, memory_bound_mb=row.memory_mb)
    try:
        mcpx = await anyio.to_thread.run_sync(house.open, row.settings)
        on = Hostile(seen, mcpx, brief=brief)
        async with judged(on, row.log_lines, calls=calls):
            with anyio.fail_after(row.within_s):
                await row.play(on)
    except Exception as error:  # noqa: BLE001 - the boundary: a mistake of a row is a problem of that row
        seen.problems += [f"{type(leaf).__name__}: {leaf}" for leaf in _leaves(error)]
    if seen.problems:
        await anyio.to_thread.run_sync(house.close)
    return seen


def _leaves(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]


def show_hostile(seen: HostileSeen) -> str:
    """For the message of a test that fails."""
    return json.dumps(dataclasses.asdict(seen), indent=2)
