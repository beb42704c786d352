"""A daemon serves the person, whoever started it: PATH and variables of the login shell, as they change."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import SERVER, entry
from tests.mcpx.serving import run_cli, serving

SHORT = "/usr/bin:/bin"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")


class Person:
    """A home folder with a login shell's profile, and a house whose commands are started as by a desktop."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.home = house.folder / "home"
        self.home.mkdir()

    def profile(self, *lines: str) -> None:
        (self.home / ".profile").write_text("\n".join(["echo welcome", *lines]) + "\n")

    def program(self, folder: str, name: str) -> None:
        """A server that runs under that name, in a folder of the home."""
        file = self.home / folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E {SERVER} '{{}}'\n")
        file.chmod(0o755)

    def run(self, *command: str, **more: str) -> str:
        environ = {"HOME": str(self.home), "SHELL": "/bin/sh", "PATH": SHORT, **more}
        done = run_cli(self.house.folder, *command, "--config", self.house.config, **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def server(self, name: str) -> dict[str, object]:
        return next(each for each in self.status()["servers"] if each["name"] == name)

    def status(self) -> dict[str, object]:
        return dict(json.loads(self.run("status", "--json")))

    def environ(self, name: str) -> dict[str, str]:
        """The environment of a server's process."""
        self.run("exec", name, "echo", "text=x")  # it is up
        data = Path(f"/proc/{self.server(name)['pid']}/environ").read_bytes()
        return dict(each.split("=", 1) for each in os.fsdecode(data).split("\0") if each)


@pytest.fixture
def person(house):
    return Person(house)


def test_a_daemon_that_a_desktop_starts_runs_what_is_on_the_login_path(person):
    person.program("bin", "mynpx")
    person.profile('export PATH="$HOME/bin:$PATH" MY_TOKEN=token-of-login')
    person.house.write({"s": {"command": "mynpx", "env": {"KEY": "${MY_TOKEN}"}}})
    person.run("daemon", "start")
    environ = person.environ("s")
    assert environ["KEY"] == "token-of-login"
    assert environ["PATH"].startswith(f"{person.home}/bin:")
    assert "MY_TOKEN" not in environ
    known = person.status()["daemon"]["environment"]
    assert (known["source"], known["shell"], known["path"]) == (
        "the login shell /bin/sh",
        "/bin/sh",
        environ["PATH"],
    )
    told = person.run("daemon", "status")
    assert told.endswith(f"\nenvironment of the login shell /bin/sh\nPATH {environ['PATH']}\n")
    # a client with another PATH changes nothing
    person.run("exec", "s", "echo", "text=x", PATH="/other:/usr/bin:/bin", MY_TOKEN="other")
    assert person.environ("s") == environ


def test_an_unfound_command_names_the_path_and_a_restart_or_a_reload_takes_new_values_in(person):
    person.profile("export MY_TOKEN=first-token")
    servers = {
        "missing": {"command": "mynpx"},
        "also": {"command": "mynpx"},
        "keyed": {**entry(), "env": {"KEY": "${MY_TOKEN}"}},
        "unset": {**entry(), "env": {"KEY": "${SET_LATER}"}},
        "same": entry(),
    }
    person.house.write(servers)
    person.run("daemon", "start")
    assert person.environ("keyed")["KEY"] == "first-token"
    error = person.server("missing")["last_error"]
    assert error.startswith("command not found: mynpx. Searched: /")
    assert "/usr/bin:" in error
    assert "(PATH of the login shell /bin/sh)" in error
    assert error.endswith(f"then run: mcpx restart missing --config {person.house.config}")
    same = person.environ("same")

    person.program("bin", "mynpx")
    person.profile('export MY_TOKEN=second-token SET_LATER=1 PATH="$HOME/bin:$PATH"')
    assert person.run("restart", "missing") == "restarted missing: ready\n"
    assert person.run("restart", "unset") == "restarted unset: ready\n"
    assert person.environ("unset")["KEY"] == "1"
    assert person.environ("keyed")["KEY"] == "first-token"

    told = person.run("reload").splitlines()
    assert "changed: keyed" in told
    assert person.environ("keyed")["KEY"] == "second-token"
    assert person.environ("same") == same
    assert person.run("restart", "also") == "restarted also: ready\n"


def test_a_program_that_lacks_another_one_names_the_path_too(person):
    person.profile('export PATH="$HOME/bin:$PATH"')
    program = person.home / "bin" / "mynpx"
    program.parent.mkdir()
    program.write_text("#!/usr/bin/env mynode\n")
    program.chmod(0o755)
    person.house.write({"s": {"command": "mynpx", "restart": {"park_after": 1}}})
    done = run_cli(
        person.house.folder,
        "exec",
        "s",
        "echo",
        "--config",
        person.house.config,
        HOME=str(person.home),
        SHELL="/bin/sh",
    )
    assert (
        f"exited with code 127 during the handshake: a command was not found on {program.parent}:"
        in done.stderr
    )
    assert "mynode" in done.stderr


def test_a_reload_starts_what_is_found_elsewhere_now(person):
    person.profile()
    person.house.write({"missing": {"command": "mynpx"}, "same": entry()})
    person.run("daemon", "start")
    person.program("bin", "mynpx")
    person.profile('export PATH="$HOME/bin:$PATH"')
    told = person.run("reload").splitlines()
    assert ("changed: missing" in told, "untouched: same" in told) == (True, True)
    person.environ("missing")


def test_a_shell_that_says_nothing_is_named_and_the_starters_environment_counts(person):
    person.profile("exit 1")
    person.house.write({"s": {**entry(), "env": {"KEY": "${MINE}"}}})
    person.run("daemon", "start", MINE="1")
    assert person.environ("s")["KEY"] == "1"
    known = person.status()["daemon"]["environment"]
    assert known["problem"] == "/bin/sh ended without printing its variables"
    assert any(line["event"] == "environment.login_shell_failed" for line in person.house.log())


def test_commands_that_start_servers_themselves_have_it_too(person):
    person.program("bin", "mynpx")
    person.profile('export PATH="$HOME/bin:$PATH" MINE=1')
    person.house.write({"s": {"command": "mynpx", "env": {"KEY": "${MINE}"}}})
    assert person.run("exec", "s", "echo", "text=said") == "said\n"
    assert "s (stdio): ok" in person.run("check")


@pytest.mark.anyio
async def test_serve_has_it_too(person):
    person.program("bin", "mynpx")
    person.profile('export PATH="$HOME/bin:$PATH"')
    person.house.write({"s": {"command": "mynpx"}})
    more = {"HOME": str(person.home), "SHELL": "/bin/sh", "PATH": SHORT}
    async with serving(person.house.folder, "serve", person.house.config, **more) as served:
        await served.initialize()
        found = await served.call("exec", server_name="s", tool_name="echo", arguments={"text": "said"})
        assert found["content"][0]["text"] == "said"
