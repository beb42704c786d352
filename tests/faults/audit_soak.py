"""The audit log under load: many clients of one daemon, whose servers are killed, and the daemon itself.

Every call has a key of its own, which the server notes before it answers, and which stands in the audit log
as the name of an argument. So what reached a server can be held against what was written: each call once,
and with the outcome that its client was told, or `unknown`, where the daemon was killed in it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from mcpx.core.events.audit.verifying import verify
from mcpx.core.store.paths import daemon_paths, lock_owner_pid
from mcpx.paths import AUDIT_FOLDER
from tests.faults import traces
from tests.faults.load import RESTART, WORK_S, effects_in
from tests.faults.served import Answer, Served, entry, leave
from tests.forking.processes import open_python

SERVERS = 3
STOP_S = 20.0


class AuditSoak(msgspec.Struct, frozen=True, kw_only=True):
    """What one run showed."""

    seconds: float
    calls: int
    server_kills: int
    daemon_kills: int
    outcomes: dict[str, int]
    """Of the lines: outcome and code."""
    problems: list[str]


async def audit_soak(calls: int = 10_000, *, clients: int = 8, kills: int = 40) -> AuditSoak:
    """So many calls, with a kill of a random server `kills` times, each fifth time of the daemon."""
    mark, begun = uuid.uuid4().hex, time.monotonic()
    with TemporaryDirectory(prefix="mcpx-audit-") as name:
        run = _Run(Path(name), mark, calls, kills)
        await run.play(clients)
        return run.judged(time.monotonic() - begun)


class _Run:
    def __init__(self, folder: Path, mark: str, calls: int, kills: int) -> None:
        self.state = folder / "state"
        self.folders = [folder / f"server{number}" for number in range(SERVERS)]
        self.calls = calls
        self.wanted_kills = kills
        self.server_kills = self.daemon_kills = 0
        self.told: dict[str, Answer] = {}
        self.begun = 0
        servers = {each.name: entry("good", each, mark, restart=RESTART) for each in self.folders}
        self.config = folder / "config.json"
        settings = {"watch_config": False, "login_shell": False}
        self.config.write_text(json.dumps({"mcpServers": servers, **settings}))
        self.environment = os.environ | {"MCPX_STATE_DIR": str(self.state)}
        self.log = folder / "mcpx.log"

    async def play(self, clients: int) -> None:
        async with AsyncExitStack() as stack:
            attached = [await self._attach(stack) for _ in range(clients)]
            for client in attached:
                await client.greet()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._kill)
                for client in attached:
                    tasks.start_soon(self._call, client)
            for client in attached:
                await leave(client)
        await self._stop()

    async def _attach(self, stack: AsyncExitStack) -> Served:
        """A client of the daemon, through the shim, which starts the daemon where none runs."""
        command = [sys.executable, "-m", "mcpx", "attach", "--config", str(self.config)]
        with self.log.open("ab") as stderr:
            process = await open_python(command, stderr=stderr, env=self.environment)
        served = Served(process, self.log)
        await stack.enter_async_context(process)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(served.hear)
        return served

    async def _call(self, client: Served) -> None:
        """One client, who never waits between two calls."""
        while self.begun < self.calls:
            self.begun += 1
            key = f"k{uuid.uuid4().hex}"
            server = random.choice(self.folders).name
            named = {"key": key, "seconds": random.uniform(0, WORK_S), key: True}
            self.told[key] = await client.call(server, "count", **named)

    async def _kill(self) -> None:
        """Kill as many as wanted, spread over the calls."""
        for number in range(1, self.wanted_kills + 1):
            while len(self.told) < self.calls * number / (self.wanted_kills + 1):  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.002)
            if (daemon := self._daemon()) is None:
                continue
            of_daemon = number % 5 == 0
            victims = [daemon] if of_daemon else traces.children(daemon)
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(victims), signal.SIGKILL)
                self.daemon_kills += of_daemon
                self.server_kills += not of_daemon

    def _daemon(self) -> int | None:
        before = os.environ.get("MCPX_STATE_DIR")
        os.environ["MCPX_STATE_DIR"] = str(self.state)
        try:
            return lock_owner_pid(daemon_paths(self.config))
        finally:
            if before is None:
                del os.environ["MCPX_STATE_DIR"]
            else:
                os.environ["MCPX_STATE_DIR"] = before

    async def _stop(self) -> None:
        """End the daemon in order."""
        if (daemon := self._daemon()) is not None:
            os.kill(daemon, signal.SIGTERM)
        with anyio.fail_after(STOP_S):
            while self._daemon() is not None:  # noqa: ASYNC110 - it is not our child
                await anyio.sleep(0.02)

    # --- afterwards

    def judged(self, seconds: float) -> AuditSoak:
        folder = self.state / AUDIT_FOLDER
        files = sorted(folder.glob("*.jsonl"))
        lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
        return AuditSoak(
            seconds=seconds,
            calls=len(self.told),
            server_kills=self.server_kills,
            daemon_kills=self.daemon_kills,
            outcomes=dict(Counter(f"{line['outcome']}, {line['code']}" for line in lines)),
            problems=[
                *judge_lines(lines, effects_in(self.folders), self.told),
                *(f"verify: {each.file}: {each.problem}" for each in verify(folder).problems),
                *_unfound(folder, files),
            ],
        )


def judge_lines(lines: list[dict], effects: Counter[str], told: dict[str, Answer]) -> list[str]:
    """What is not written as it was: `effects` by key, and what the clients were told."""
    of_keys: dict[str, list[dict]] = {}
    for line in lines:
        for name in line["arguments"] or ():
            if name in told:
                of_keys.setdefault(name, []).append(line)
    found = {
        "calls reached a server and are not in the log": len(effects.keys() - of_keys.keys()),
        "calls are in the log more than once": sum(len(its) > 1 for its in of_keys.values()),
        "calls reached a server and are said not to be sent": sum(
            its[0]["outcome"] == "not_sent" for key, its in of_keys.items() if key in effects
        ),
        "calls are in the log with another outcome than their clients were told": sum(
            not _agree(told[key], its[0]) for key, its in of_keys.items()
        ),
        "calls were answered and are not in the log": sum(
            answer.code is None and key not in of_keys for key, answer in told.items()
        ),
        "lines do not say who asked": sum(line["client"] != "faults/1" for line in lines),
    }
    return [f"{number} {what}" for what, number in found.items() if number]


def _agree(answer: Answer, line: dict) -> bool:
    """Whether a line says what a client was told. What a dead daemon had to say, the client did not hear."""
    if answer.code is None:
        return bool(line["outcome"] == "ok" or line["code"] == "daemon_died")
    if answer.outcome == "unknown" and line["outcome"] in {"unknown", "ok"}:
        return True
    return (answer.code, answer.outcome) == (line["code"], line["outcome"])


def _unfound(folder: Path, files: list[Path]) -> list[str]:
    """What is wrong if one byte of the log is flipped, and nothing is found."""
    file = random.choice(files)
    text = file.read_bytes()
    place = random.randrange(len(text))
    file.write_bytes(text[:place] + bytes([text[place] ^ 1 << random.randrange(8)]) + text[place + 1 :])
    found = verify(folder).problems
    file.write_bytes(text)
    return [] if found else [f"byte {place} of {file.name} was flipped, and verify found nothing"]
