"""SIGKILL at each step of a sign-in and of a refresh: whoever is killed, nobody is locked out after it.

The person is asked at most once more, what is stored is whole, and no secret is in a file that others may
read, nor in any but the record. The scripted issuer holds a step, before its work or after it, while the
process that waits for it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forking.client import Python
from tests.mcpx.daemon.daemons import House
from tests.mcpx.oauth.scripted_issuer import Fault, ScriptedIssuer, scripted_issuer
from tests.mcpx.oauth.signing_in import free_port
from tests.mcpx.serving import PATIENCE_S, environment

STEPS = [
    ("resource_metadata", False),
    ("metadata", False),
    ("register", False),
    ("register", True),
    ("token:authorization_code", False),
    ("token:authorization_code", True),
]
REFRESH = "token:refresh_token"


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
        while time.monotonic() < until and alive(pid):
            time.sleep(0.01)

    def check(self, *, asked: int) -> None:
        """The server can be used, with the person asked at most so often, and nothing has leaked."""
        code, said = self.call("after")
        if code != 0:
            assert "mcpx login r" in said, said
            self.login()
            code, said = self.call("after")
        assert code == 0, said
        assert self.issuer.calls.count("after") == 1
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
    with (
        scripted_issuer(**options) as issuer,
        tempfile.TemporaryDirectory(prefix="mcpx-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("MCPX_STATE_DIR", f"{folder}/state")
        house = SignInHouse(Path(folder), issuer)
        try:
            yield house
        finally:
            issuer.release()
            house.close()


def alive(pid: int) -> bool:
    """Whether a process still has its files open."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def id_of(value: str | tuple[str, bool]) -> str:
    return value if isinstance(value, str) else f"{'after' if value[1] else 'before'} {value[0]}"


@pytest.mark.parametrize(
    ("killed", "step"),
    [
        *(("daemon", step) for step in STEPS),
        *(("login alone", step) for step in STEPS),
        *(("login", step) for step in STEPS if step[0] == "token:authorization_code"),
    ],
    ids=id_of,
)
def test_a_sign_in_is_killed(killed, step):
    at, works = step
    with houses() as house:
        if killed != "login alone":
            assert house.done("daemon", "start")[0] == 0
            house.call("before")  # the daemon has found that it needs a sign-in
        house.issuer.faults[at] = Fault(hold=True, works=works)
        count = len(house.issuer.seen(at))
        login = house.begin("login", "r")
        house.issuer.wait_for(at, count + 1)
        if killed == "daemon":
            house.kill_daemon()
            out, err = login.communicate(timeout=PATIENCE_S)
            assert login.returncode == 1
            assert b"Traceback" not in out + err
        else:
            login.kill()
            login.communicate(timeout=PATIENCE_S)
        house.issuer.release()
        house.check_files()
        house.check(asked=2 if at.startswith("token") else 1)


@pytest.mark.parametrize("rotates", [True, False], ids=["rotating", "lasting"])
@pytest.mark.parametrize("works", [False, True], ids=["before", "after"])
def test_a_refresh_is_killed(works, rotates):
    with houses(rotates=rotates) as house:
        house.login()
        assert house.done("daemon", "start")[0] == 0
        assert house.call("first")[0] == 0
        house.issuer.expire()
        house.issuer.faults[REFRESH] = Fault(hold=True, works=works)
        call = house.begin("exec", "r", "count", json.dumps({"key": "during"}))
        house.issuer.wait_for(REFRESH)
        house.kill_daemon()
        _, err = call.communicate(timeout=PATIENCE_S)
        assert b"Traceback" not in err
        house.issuer.release()
        house.check_files()
        house.check(asked=2 if works and rotates else 1)
        assert "during" not in house.issuer.calls


def test_a_daemon_that_is_killed_in_a_refresh_keeps_nobody_from_it():
    """Another daemon of the same person waits for the refresh of the first, which is killed in it."""
    with houses() as house:
        house.login()
        assert house.done("daemon", "start")[0] == 0
        assert house.call("first")[0] == 0
        house.check_shown()
        house.issuer.expire()
        house.issuer.faults[REFRESH] = Fault(hold=True, times=1)
        calls = [house.begin("exec", "r", "count", json.dumps({"key": "during"}))]
        house.issuer.wait_for(REFRESH)
        pid = house.pid
        assert pid is not None
        (house.folder / "second.json").write_text((house.folder / house.name).read_text())
        house.name = "second.json"
        assert house.done("daemon", "start")[0] == 0
        calls.append(house.begin("exec", "r", "count", json.dumps({"key": "second"})))
        house.issuer.wait_for("mcp:tools/call", 2)
        os.kill(pid, signal.SIGKILL)
        out, err = calls[1].communicate(timeout=PATIENCE_S)
        assert (calls[1].returncode, out) == (0, b"second\n"), err
        calls[0].communicate(timeout=PATIENCE_S)
        assert (house.issuer.asked, house.issuer.reuses) == (1, 0)
