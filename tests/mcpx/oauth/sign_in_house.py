"""A folder with a daemon whose server wants a sign-in, and a person at a browser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.forking.client import Python
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer, scripted_issuer
from tests.mcpx.serving import PATIENCE_S, environment
from tests.ports import free_port


class SignInHouse(House):
    """A daemon of one server that wants a sign-in, and a person at a browser."""

    def __init__(self, folder: Path, issuer: ScriptedIssuer) -> None:
        super().__init__(folder)
        self.issuer = issuer
        self.name = "config.json"
        self.write({"r": {"url": issuer.mcp_url}}, login_port=free_port(), audit="full", login_shell=False)

    @property
    def config(self) -> str:
        return str(self.folder / self.name)

    def begin(self, *command: str) -> Python:
        """Begin a command, as a process that goes on."""
        return Python(
            [sys.executable, "-m", "mcpx", *command, "--config", self.config],
            env=environment(self.folder, BROWSER=self.issuer.browser_command()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def done(self, *command: str) -> tuple[int, str]:
        """A command to its end: its code, and what it said."""
        process = self.begin(*command)
        out, err = process.communicate(timeout=50)
        return process.returncode, (out + err).decode()

    def login(self) -> None:
        """The person signs in."""
        code, said = self.done("login", "r")
        assert code == 0, said

    def call(self, key: str) -> tuple[int, str]:
        """Call the server; the code and what was said."""
        return self.done("exec", "r", "count", json.dumps({"key": key}))

    def kill_daemon(self) -> None:
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        # its first thread may be gone before the others, which hold lock and socket
        while time.monotonic() < until and (alive(pid) or self.pid == pid):
            time.sleep(0.01)

    def check(self, *, asked: int, key: str = "after") -> None:
        """The server can be used, with the person asked at most so often, and nothing has leaked."""
        code, said = self.call(key)
        if code != 0:
            assert "mcpx login r" in said, said
            self.login()
            code, said = self.call(key)
        assert code == 0, said
        assert self.issuer.calls.count(key) == 1
        assert self.issuer.asked <= asked
        assert not self.issuer.leaked_to("elsewhere")
        self.check_files()

    def check_shown(self) -> None:
        """No secret is in what is printed of the server, nor in the arguments of a process."""
        shown = [self.done(*command)[1] for command in (["status", "--json"], ["doctor"], ["inspect", "r"])]
        shown += [file.read_text("utf-8", "replace") for file in Path("/proc").glob("[0-9]*/cmdline")]
        assert not [secret for secret in self.issuer.secrets for text in shown if secret in text]

    def check_files(self) -> None:
        """Secrets are in the record alone, which is its owner's alone."""
        records = self.issuer.holding(self.folder)
        assert {file.parent.name for file in records} <= {"oauth"}, records
        assert not self.issuer.leaked_in(self.folder)
        for file in (self.folder / "state").rglob("oauth/*"):
            assert file.stat().st_mode & 0o077 == 0, file


@contextmanager
def houses(**options: object) -> Iterator[SignInHouse]:
    """A house, with an issuer of these options."""
    with scripted_issuer(**options) as issuer, SignInHouse.opened(issuer) as house:
        try:
            yield house
        finally:
            issuer.release()


def alive(pid: int) -> bool:
    """Whether a process still has its files open."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
