"""Clients of both eras at two replicas behind HAProxy, while replicas are stopped, killed and replaced.

`play` starts it all, with HAProxy's configuration as docs/deployment.md prints it, and returns a `Tally`:
what every call was told, beside what its server counted. Run as a program it is the long form,
`scripts/balance`: `python -m tests.mcpx.cluster.replicas.balance [ROUNDS]`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tests.docs import pages
from tests.mcpx.cluster.replicas.site import (
    ACCEPT,
    INITIALIZE,
    KEY,
    MODERN_ENVELOPE,
    Replica,
    last_message,
    replica,
)
from tests.mcpx.serving import MODERN, PATIENCE_S
from tests.ports import free_port

HOST = "mcpx.example.com"
DRAIN_S = 2.0
NAMES = ("old", "new", "held")
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
MODERN_CLIENTS, OLDER_CLIENTS = 4, 3
YES = {"action": "accept", "content": {"ok": True}}


def printed() -> str:
    """The configuration of HAProxy that the documentation prints."""
    (block,) = pages.blocks("text haproxy")
    return str(block.text)


class Tally:
    """What became of each call, as its client was told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.sessions_lost = 0
        self.by: Counter[tuple[str, str]] = Counter()
        self.odd: list[str] = []

    def tell(self, name: str, told: str, more: str = "") -> None:
        """`told` is `done` or an outcome."""
        assert name not in self.told, name
        self.told[name] = told
        self.by[name.split("-", maxsplit=1)[0], told] += 1
        if told not in {"done", "unknown", "not_sent", "failed"}:
            self.odd.append(f"{name}: {told} {more}")

    def faults(self, counted: list[str]) -> list[str]:
        """Where what was told does not fit what was counted; none is as it must be."""
        runs = Counter(counted)
        found = [f"{name} ran {times} times" for name, times in runs.items() if times > 1]
        for name, told in self.told.items():
            if told == "done" and runs[name] != 1:
                found.append(f"{name} was answered and ran {runs[name]} times")
            if told in {"not_sent", "failed"} and runs[name]:
                found.append(f"{name} was said not to have run, and ran")
        return found + self.odd


def outcome_of(response: httpx2.Response) -> tuple[str, Any]:
    """What a client is told by a response: `done`, the result; or the outcome, the whole message."""
    try:
        message = last_message(response)
    except ValueError:
        return f"status {response.status_code}", response.text[:200]
    if (error := message.get("error")) is not None:
        return str((error.get("data") or {}).get("outcome", f"error {error.get('code')}")), message
    result = message["result"]
    if result.get("isError"):
        return str((result.get("structuredContent") or {}).get("outcome", "isError")), message
    return "done", result


class Load:
    """The clients. They go on until `over`."""

    def __init__(self, url: str, tally: Tally) -> None:
        self.url = url
        self.tally = tally
        self.over = anyio.Event()
        self._count = 0

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=PATIENCE_S, headers=ACCEPT | KEY | {"Host": HOST})

    async def _post(self, client: httpx2.AsyncClient, body: Any, headers: Any) -> httpx2.Response | None:
        try:
            return await client.post(self.url, json=body, headers=headers)
        except httpx2.HTTPError:
            return None

    async def _newer(self, client: httpx2.AsyncClient, server: str, tool: str, name: str, **more: Any) -> Any:
        """One request of 2026-07-28; the outcome, and the result or the message."""
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "exec"}
        given = {"server_name": server, "tool_name": tool, "arguments": {"id": name, "seconds": 0.03}}
        params = {"name": "exec", "arguments": given, "_meta": MODERN_ENVELOPE} | more
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await self._post(client, body, headers)
        return ("unknown", "no answer") if response is None else outcome_of(response)

    async def newer(self, number: int) -> None:
        """A client of 2026-07-28; every other call is one that asks, of either kind of server."""
        async with self._client() as client:
            while not self.over.is_set():
                name = self._name("plain")
                self.tally.tell(name, *await self._newer(client, "new", "work", name))
                server = "new" if number else "held"  # one client: what it is asked in is its call
                name = self._name(f"asked_{server}")
                told, asked = await self._newer(client, server, "ask", name)
                # a handshake server that has calls of several clients cannot ask, and is told so: it goes on
                if told == "done" and "inputRequests" in asked:
                    responses = dict.fromkeys(asked["inputRequests"], YES)
                    more = {"inputResponses": responses, "requestState": asked["requestState"]}
                    told, asked = await self._newer(client, server, "ask", name, **more)
                self.tally.tell(name, told, str(asked)[:300])

    async def older(self) -> None:
        """A client of the handshake era: one session, and a new one where that is not known any more."""
        async with self._client() as client:
            session: dict[str, str] | None = None
            while not self.over.is_set():
                if session is None:
                    session = await self._open(client)
                    continue
                name = self._name("older")
                given = {
                    "server_name": "old",
                    "tool_name": "work",
                    "arguments": {"id": name, "seconds": 0.03},
                }
                params = {"name": "exec", "arguments": given}
                body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
                response = await self._post(client, body, session)
                if response is None:
                    self.tally.tell(name, "unknown")
                elif response.status_code == 404:
                    self.tally.sessions_lost += 1
                    self.tally.tell(name, "not_sent")
                    session = None
                else:
                    self.tally.tell(name, *outcome_of(response))

    async def _open(self, client: httpx2.AsyncClient) -> dict[str, str] | None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        response = await self._post(client, body, {})
        if response is None or "mcp-session-id" not in response.headers:
            await anyio.sleep(0.05)
            return None
        session = {"Mcp-Session-Id": response.headers["mcp-session-id"]}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        return session if await self._post(client, note, session) is not None else None


@asynccontextmanager
async def balancer(folder: Path, replicas: list[int]) -> AsyncIterator[str]:
    """HAProxy in front of these ports, as the documentation has it; where clients connect."""
    assert HAPROXY is not None
    port, text = free_port(), printed()
    for address, own in zip(("10.0.0.3", "10.0.0.4"), replicas, strict=True):
        assert f"{address}:8765" in text
        text = text.replace(f"{address}:8765", f"127.0.0.1:{own}")
    assert "bind :8080\n" in text
    file = folder / "haproxy.cfg"
    file.write_text(text.replace("bind :8080\n", f"bind 127.0.0.1:{port}\n"))
    command = [HAPROXY, "-db", "-q", "-f", str(file)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:  # noqa: ASYNC220 - at once
        try:
            await _answers(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def _answers(origin: str) -> None:
    async with httpx2.AsyncClient(headers={"Host": HOST}) as client:
        with anyio.fail_after(PATIENCE_S):
            while True:
                try:
                    if (await client.get(f"{origin}/readyz")).status_code == 200:
                        return
                except httpx2.HTTPError:
                    pass
                await anyio.sleep(0.02)


class Played:
    """What a play has shown."""

    def __init__(self, tally: Tally, counted: list[str], stopped: Counter[tuple[str, str]]) -> None:
        self.tally = tally
        self.counted = counted
        self.before_kills = stopped
        """What had been told when replicas had only been stopped in order."""


class Slot:
    """An address, and the replica that is there now: another one, once that has ended."""

    def __init__(self, folder: Path, counted: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._counted = counted
        self._replica: Replica | None = None
        self._up = anyio.Event()
        self._next = anyio.Event()

    async def run(self) -> None:
        """Have one there, until cancelled."""
        http = {"drain": DRAIN_S}
        while True:
            async with replica(
                self._folder, self._counted, port=self.port, hosts=(HOST,), names=NAMES, http=http
            ) as made:
                self._replica = made
                self._up.set()
                await self._next.wait()
                self._next = anyio.Event()

    async def started(self) -> None:
        """Wait for one."""
        await self._up.wait()

    async def replace(self, number: signal.Signals) -> None:
        """End the one that is there by a signal, and start another."""
        assert self._replica is not None
        self._replica.served.process.send_signal(number)
        await self._replica.ended()
        assert self._replica.served.process.returncode == (0 if number == signal.SIGTERM else -number)
        self._up = anyio.Event()
        self._next.set()
        await self.started()
        await anyio.sleep(0.7)  # until the balancer has seen it, and sends it something


async def play(folder: Path, rounds: int = 1) -> Played:
    """Load, while each replica in turn is stopped and started again, killed and started again."""
    counted, tally = folder / "counted", Tally()
    counted.touch()
    before: Counter[tuple[str, str]] = Counter()
    slots = [Slot(folder / "a", counted), Slot(folder / "b", counted)]
    async with anyio.create_task_group() as processes:
        for slot in slots:
            processes.start_soon(slot.run)
        for slot in slots:
            await slot.started()
        async with balancer(folder, [slot.port for slot in slots]) as url:
            load = Load(url, tally)
            async with anyio.create_task_group() as tasks:
                for number in range(MODERN_CLIENTS):
                    tasks.start_soon(load.newer, number)
                for _ in range(OLDER_CLIENTS):
                    tasks.start_soon(load.older)
                for each in range(rounds):
                    await slots[each % 2].replace(signal.SIGTERM)
                    if each == 0:
                        before = tally.by.copy()
                    await slots[(each + 1) % 2].replace(signal.SIGKILL)
                load.over.set()
        processes.cancel_scope.cancel()
    return Played(tally, counted.read_text().split(), before)


async def _main(rounds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="mcpx-balance-") as folder:
        played = await play(Path(folder), rounds)
    for (kind, told), times in sorted(played.tally.by.items()):
        print(f"{kind:12} {told:10} {times:7}")
    print(f"{len(played.tally.told)} calls, {played.tally.sessions_lost} sessions begun anew")
    faults = played.tally.faults(played.counted)
    print("\n".join(faults) if faults else "no call was lost, none ran twice")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(anyio.run(_main, int(sys.argv[1]) if len(sys.argv) > 1 else 10))
