"""An MCPX with servers that want a sign-in, its commands, and the browser that they open.

`Household.logging_in` runs `mcpx login` with a BROWSER that hands the address to the test: a `Login`, whose
`address` somebody follows. `sign_in` does all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx2

from tests.forking.processes import PythonProcess, open_python
from tests.live.oauth.people import Person, hand_over
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.serving import Served, environment
from tests.ports import free_port

PATIENCE_S: Final = 50.0


class Login:
    """A running `mcpx login`."""

    def __init__(self, process: PythonProcess, addresses: int) -> None:
        self._process = process
        self._addresses = addresses
        self._said = {"stdout": b"", "stderr": b""}
        self._news = anyio.Event()
        self._over = anyio.Event()

    async def authorization(self) -> str:
        """The authorization request to which the address leads that it opens in the browser, once."""
        async with httpx2.AsyncClient() as browser:
            return str((await browser.get(await self.address())).headers["location"])

    async def address(self) -> str:
        """The address that it opens in the browser."""
        with anyio.move_on_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_at_end, tasks.cancel_scope)
                await anyio.wait_readable(self._addresses)
                tasks.cancel_scope.cancel()
        try:
            return os.read(self._addresses, 65536).decode().strip()
        except BlockingIOError:
            raise AssertionError(f"no address was opened: {self.said}") from None

    async def _cancel_at_end(self, scope: anyio.CancelScope) -> None:
        await self._over.wait()
        scope.cancel()

    async def printed(self, part: str) -> str:
        """What it has said once it says that, on either stream."""
        with anyio.fail_after(PATIENCE_S):
            while part not in self.said:
                await self._news.wait()
        return self.said

    async def paste(self, text: str) -> None:
        """Give it a line of input."""
        assert self._process.stdin is not None
        await self._process.stdin.send(f"{text}\n".encode())

    async def ended(self) -> int:
        """Its exit code, once it ends."""
        with anyio.fail_after(PATIENCE_S):
            code = await self._process.wait()
            await self._over.wait()
        return code

    @property
    def said(self) -> str:
        return b"".join(self._said.values()).decode()

    def interrupt(self, number: int) -> None:
        self._process.send_signal(number)

    async def follow(self) -> None:
        """Take in what it says, until it ends."""
        async with anyio.create_task_group() as tasks:
            for stream in self._said:
                tasks.start_soon(self._take, stream)
        self._over.set()

    async def _take(self, stream: str) -> None:
        pipe = getattr(self._process, stream)
        with suppress(anyio.EndOfStream):
            while True:
                self._said[stream] += await pipe.receive()
                news, self._news = self._news, anyio.Event()
                news.set()


class Household(House):
    """A folder with a configuration, whose sign-ins come back to a port of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.login_port = free_port()
        os.mkfifo(folder / "addresses")
        self._browser = hand_over(folder)

    def write(self, servers: dict[str, Any], **settings: Any) -> None:
        super().write(servers, **{"login_port": self.login_port, **settings})

    async def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`mcpx COMMAND --config ...` to its end."""
        return await anyio.to_thread.run_sync(lambda: self.run(*words))

    async def server(self, name: str) -> dict[str, Any]:
        """What `status` has of a server."""
        done = await self.command("status", "--json")
        servers = json.loads(done.stdout)["servers"]
        return next(dict(each) for each in servers if each["name"] == name)

    @asynccontextmanager
    async def logging_in(self, *words: str) -> AsyncIterator[Login]:
        """`mcpx login WORDS`, killed at the end if it still runs."""
        addresses = os.open(self.folder / "addresses", os.O_RDWR | os.O_NONBLOCK)
        try:
            process = await open_python(
                [sys.executable, "-m", "mcpx", "login", *words, "--config", self.config],
                env=environment(self.folder, BROWSER=str(self._browser), DISPLAY=":0"),
            )
            login = Login(process, addresses)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(login.follow)
                try:
                    yield login
                finally:
                    if process.returncode is None:
                        process.kill()
            await process.aclose()
        finally:
            os.close(addresses)

    async def sign_in(self, person: Person, *words: str, answer: str = "agree") -> Login:
        """`mcpx login WORDS`, with somebody who answers; it has ended."""
        async with self.logging_in(*words) as login:
            await person.follow(await login.address(), answer=answer)
            await login.ended()
        return login

    def kept(self) -> list[Path]:
        """The files of sign-ins."""
        return sorted((self.folder / "state").glob("**/oauth/*.json"))

    def spilled(self) -> list[Path]:
        """The files that hold a token of a sign-in, and are not for the user alone to read."""
        tokens = [token.encode() for path in self.kept() for token in _tokens(json.loads(path.read_bytes()))]
        assert tokens
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        holding = [path for path in files if any(token in path.read_bytes() for token in tokens)]
        assert set(self.kept()) <= set(holding)
        return [path for path in holding if path not in self.kept() or path.stat().st_mode & 0o077]


def _tokens(value: Any) -> Iterator[str]:
    """The tokens in a record."""
    if isinstance(value, dict):
        yield from (value[key] for key in ("access_token", "refresh_token") if value.get(key))
        yield from (token for each in value.values() for token in _tokens(each))


async def run_tool(client: Served, server: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """What exec answers."""
    return await client.call("exec", server_name=server, tool_name=tool, arguments=arguments)


def text(answer: dict[str, Any]) -> str:
    """What an answer says."""
    return str(answer["content"][0]["text"])
