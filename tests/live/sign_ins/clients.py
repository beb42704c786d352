"""The clients that are compared: how each is started, and how a person signs in with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc

from tests.forking.processes import open_python
from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer
from tests.ports import free_port

HERE: Final = Path(__file__).parent
ANSWER_S: Final = 40.0  # a sign-in and a loaded machine included
LEAVE_S: Final = 10.0
HELLO: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "week", "version": "1"},
}


class Running:
    """A running client: JSON-RPC, a message a line."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        self._answers: dict[int, dict[str, Any]] = {}
        self._waiting: dict[int, anyio.Event] = {}

    async def hear(self) -> None:
        """Take its answers, until it ends."""
        assert self.process.stdout is not None
        rest = b""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                *lines, rest = (rest + await self.process.stdout.receive()).split(b"\n")
                for message in map(json.loads, filter(None, lines)):
                    if (waiting := self._waiting.pop(message.get("id", 0), None)) is not None:
                        self._answers[message["id"]] = message
                        waiting.set()
        for waiting in self._waiting.values():
            waiting.set()

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask something; an `error` of its own where the client has ended, or does not answer."""
        assert self.process.stdin is not None
        number = len(self._answers) + len(self._waiting) + 1
        waiting = self._waiting[number] = anyio.Event()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            await self.process.stdin.send(json.dumps(message).encode() + b"\n")
            with anyio.fail_after(ANSWER_S):
                await waiting.wait()
        except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._waiting.pop(number, None)
            self._answers[number] = {"error": "no answer"}
        return self._answers.setdefault(number, {"error": "the client has ended"})


class Compared:
    """One client in its own home folder, with a server that has no other."""

    name = ""

    def __init__(self, issuer: ScriptedIssuer, home: Path) -> None:
        self.issuer = issuer
        self.home = home
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("MCPX_", "XDG_"))},
            "HOME": str(home),
            "BROWSER": issuer.browser_command(),
        }

    def command(self) -> list[str]:
        """What an AI client starts."""
        raise NotImplementedError

    def call_params(self, key: str) -> dict[str, Any]:
        """The parameters of a call of the server's `count`."""
        return {"name": "count", "arguments": {"key": key}}

    async def call(self, running: Running, key: str) -> str | None:
        """Call the server; None for an answer, else why there is none."""
        answer = await running.request("tools/call", self.call_params(key))
        if "error" in answer:
            return json.dumps(answer["error"])
        return json.dumps(answer["result"]) if answer["result"].get("isError") else None

    async def sign_in(self) -> None:
        """What a person does who is told to sign in; most clients open a browser without being told."""

    async def end(self) -> None:
        """End what the clients have left running."""

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Running]:
        """The client, as one AI client has it; the end of the context is the end of that."""
        with (self.home / "stderr").open("ab") as stderr:
            process = await open_python(self.command(), env=self.environment, stderr=stderr)
        running = Running(process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.hear)
            try:
                await running.request("initialize", HELLO)
                with suppress(anyio.BrokenResourceError):
                    assert process.stdin is not None
                    await process.stdin.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
                yield running
            finally:
                await _leave(process)
                tasks.cancel_scope.cancel()


async def _leave(process: anyio.abc.Process) -> None:
    with anyio.CancelScope(shield=True):
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.move_on_after(LEAVE_S):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()


class Remote(Compared):
    """mcp-remote, one process for each AI client."""

    name = "mcp-remote"

    def command(self) -> list[str]:
        proxy = HERE / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
        return [shutil.which("node") or "node", str(proxy), self.issuer.mcp_url, "--allow-http"]


class FastMCP(Compared):
    """FastMCP's client, which keeps its tokens in files."""

    name = "FastMCP, tokens in files"
    in_files = True

    def command(self) -> list[str]:
        python, program = HERE / ".venv" / "bin" / "python", HERE / "fastmcp_client.py"
        folder = [str(self.home / "tokens")] if self.in_files else []
        return [str(python), str(program), self.issuer.mcp_url, str(free_port()), *folder]


class FastMCPInMemory(FastMCP):
    """FastMCP's client as it is without settings."""

    name = "FastMCP, tokens in memory"
    in_files = False


class MCPX(Compared):
    """MCPX: one daemon for all AI clients."""

    name = "MCPX"

    def __init__(self, issuer: ScriptedIssuer, home: Path) -> None:
        super().__init__(issuer, home)
        self.config = home / "mcpx.json"
        settings = {"login_port": free_port(), "login_shell": False}
        servers = {"remote": {"url": issuer.mcp_url}}
        self.config.write_text(json.dumps({**settings, "mcpServers": servers}))
        self.environment |= {"MCPX_STATE_DIR": str(home / "state")}

    def command(self) -> list[str]:
        return self._mcpx("attach")

    def _mcpx(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mcpx", *arguments, "--config", str(self.config)]

    def call_params(self, key: str) -> dict[str, Any]:
        asked = {"server_name": "remote", "tool_name": "count", "arguments": {"key": key}}
        return {"name": "exec", "arguments": asked}

    async def sign_in(self) -> None:
        await self._run("login", "remote")

    async def end(self) -> None:
        """Stop the daemon, as a restart of the machine does."""
        await self._run("daemon", "stop")

    async def _run(self, *arguments: str) -> None:
        process = await open_python(
            self._mcpx(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with anyio.move_on_after(ANSWER_S):
            await process.wait()
        await process.aclose()


ALL: Final[tuple[type[Compared], ...]] = (MCPX, Remote, FastMCP, FastMCPInMemory)
