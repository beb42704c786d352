"""Faults, planted one at a time in a sound home: each is named, with what to do, and nothing else is."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpx.changes import Edit, State, carry_out
from mcpx.daemon.service import install
from mcpx.paths import ensure_folder
from tests.mcpx.doctor.homes import Home, server
from tests.mcpx.scripted import entry

pytestmark = pytest.mark.timeout(60)
HANG = "import sys; [None for _ in sys.stdin]"


class Fault(NamedTuple):
    """`plant` breaks the home; or returns a context, in which it is broken. One finding holds the `words`."""

    plant: Callable[[Home], Any]
    words: tuple[str, ...]
    advice: str
    starts: bool = False
    """Whether servers and clients' commands have to be started for it."""


def _config(text: str) -> Callable[[Home], None]:
    return lambda home: home.write_text(text)


def _entry(**given: Any) -> Callable[[Home], None]:
    return lambda home: home.write({"s": entry(), "bad": given})


def _script(**script: Any) -> Callable[[Home], None]:
    settings = {"connect_timeout": 1.0}
    return lambda home: home.write({"s": entry(), "bad": entry(settings=settings, **script)})


def _client(text: str) -> Callable[[Home], None]:
    return lambda home: home.cursor.write_text(text)


def _gone_command(home: Home) -> None:
    home.write_client(home.cursor, {"mcpx": home.own_entry(command=f"{home.folder}/old/bin/mcpx")})


def _gone_configuration(home: Home) -> None:
    args = ["attach", "--config", f"{home.folder}/gone.json"]
    home.write_client(home.cursor, {"mcpx": home.own_entry(args=args)})


def _client_with_secret(home: Home) -> None:
    beside = {"command": "ls", "env": {"GITHUB_TOKEN": "ghp_0123456789"}, "disabled": True}
    home.write_client(home.cursor, {"mcpx": home.own_entry(), "github": beside})
    home.cursor.chmod(0o644)


def _config_with_secret(home: Home) -> None:
    home.write({"s": {**entry(), "env": {"API_KEY": "sk-0123456789abcdef"}}})
    home.config.chmod(0o644)


def _readable_env_file(home: Home) -> None:
    home.write({"s": {**entry(), "env_file": "tokens.env"}})
    file = home.config.with_name("tokens.env")
    file.write_text("API_KEY=sk-0123456789abcdef\n")
    file.chmod(0o644)


@contextmanager
def _mute_login_shell(home: Home) -> Iterator[None]:
    shell = home.folder / "shell"
    shell.write_text("#!/bin/sh\nexit 3\n")
    shell.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHELL", str(shell))
        yield


@contextmanager
def _interrupted_change(home: Home) -> Iterator[None]:
    """A change that was killed before its end: its state in the journal is as it was begun."""
    change = carry_out("install cursor", [Edit(home.folder / "a.json", None, b"{}")])
    (change.folder / State.DONE).rename(change.folder / State.BEGUN)
    yield


def _long_description(home: Home) -> None:
    home.write_command(length=5000)
    home.write_client(home.folder / ".claude.json", {"mcpx": home.own_entry()})


def _runtime_folder_open(home: Home) -> None:
    ensure_folder(home.paths.socket.parent).chmod(0o755)


def _state_folder_open(home: Home) -> None:
    ensure_folder(home.folder / "state").chmod(0o777)


def _state_is_a_file(home: Home) -> None:
    (home.folder / "state").write_text("")


@contextmanager
def _no_answer(home: Home) -> Iterator[None]:
    with home.locked(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.paths.socket))
        listener.listen()
        yield


def _file_for_socket(home: Home) -> None:
    ensure_folder(home.paths.socket.parent)
    home.paths.socket.write_text("")


@contextmanager
def _port_taken(home: Home) -> Iterator[None]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        home.write({"s": entry()}, http={"port": taken.getsockname()[1]})
        yield


def _unit(home: Home) -> Path:
    environ = {"HOME": str(home.folder), "PATH": "/nowhere"}
    install(home.config, platform="linux", environ=environ)
    unit = home.folder / ".config/systemd/user/mcpx.service"
    wants = ensure_folder(unit.parent / "default.target.wants")
    (wants / unit.name).symlink_to(unit)
    return unit


def _stale_unit(home: Home) -> None:
    unit = _unit(home)
    unit.write_text(unit.read_text().replace(sys.executable, "/old/python"))


def _disabled_unit(home: Home) -> None:
    (_unit(home).parent / "default.target.wants" / "mcpx.service").unlink()


@contextmanager
def _full_disk(home: Home) -> Iterator[None]:
    found = os.statvfs(home.folder)
    full = os.statvfs_result([*found[:4], 0, *found[5:]])  # f_bavail
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: full)
        yield


@contextmanager
def _proxy(home: Home) -> Iterator[None]:
    home.write({"s": entry(), "local": {"url": "http://127.0.0.1:9/mcp"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", "http://proxy.example:3128")
        yield


@contextmanager
def _no_home(home: Home) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPX_CONFIG", str(home.config))
        patch.setenv("HOME", str(home.folder / "nobody"))
        yield


@contextmanager
def _no_configuration(home: Home) -> Iterator[None]:
    home.config.unlink()
    home.cursor.unlink()
    yield


@contextmanager
def _second_daemon(home: Home) -> Iterator[None]:
    """A process with the command line of one, which has another state folder."""
    import subprocess  # noqa: PLC0415

    command = [sys.executable, "-S", "-c", HANG, "daemon", "run", "--config", str(home.config)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield
        assert process.stdin is not None
        process.stdin.close()


FAULTS = {
    "no configuration": Fault(_no_configuration, ("no configuration",), "mcpx import"),
    "a missing comma": Fault(
        _config('{"mcpServers": {"a": {"command": "ls"}\n"b": {}}}'), (":1:39", "comma"), "check"
    ),
    "an entry without command": Fault(_entry(comand="npx"), ("bad", "command", "comand"), "check"),
    "a key that is misspelt": Fault(_entry(command="ls", argz=[]), ("argz", '"args"'), "check"),
    "a variable that is not set": Fault(
        _entry(command="ls", env={"X": "${NO_SUCH_TOKEN}"}), ("bad", "NO_SUCH_TOKEN"), "mcpx reload"
    ),
    "a login shell that says nothing": Fault(
        _mute_login_shell, ("login shell", "/shell"), '"login_shell": false'
    ),
    "a command that is not there": Fault(
        _entry(command="no-such-command"),
        ("bad", "command not found: no-such-command", "searched: /"),
        "path",
    ),
    "a whole command line": Fault(
        _entry(command="ls -l /tmp"), ("bad", "whole command line", '"ls"'), "correct it"
    ),
    "a working folder that is gone": Fault(
        _entry(command="ls", cwd="gone"), ("bad", "no such folder"), "mkdir"
    ),
    "a server that ends at once": Fault(
        _script(exit=3, stderr="no licence\n"),
        ("bad", "exited with code 3", "no licence"),
        "terminal",
        starts=True,
    ),
    "a server that hangs": Fault(_script(silent=True), ("bad", "no answer"), "terminal", starts=True),
    "a server that is not reached": Fault(
        _entry(url="http://127.0.0.1:9/mcp"), ("bad", "cannot be reached"), "address", starts=True
    ),
    "a readable configuration with a secret": Fault(
        _config_with_secret, ("config.json", "(s)", "others may read"), "chmod 600"
    ),
    "a readable file of variables": Fault(_readable_env_file, ("tokens.env", "can read"), ""),
    "a file of variables that is gone": Fault(
        lambda home: home.write({"bad": {**entry(), "env_file": "gone.env"}}),
        ("bad", "gone.env"),
        "mcpx reload",
    ),
    "a client's file that is broken": Fault(
        _client('{"mcpServers": {,}}'), ("cursor", "column"), "correct it"
    ),
    "a client's readable file with a secret": Fault(
        _client_with_secret, ("cursor", "github", "others may read"), "chmod 600"
    ),
    "a client that starts what is gone": Fault(
        _gone_command, ("cursor", "/old/bin/mcpx"), "mcpx install cursor"
    ),
    "a client with a configuration that is gone": Fault(
        _gone_configuration, ("cursor", "gone.json"), "mcpx install cursor"
    ),
    "an attach that does not answer": Fault(
        lambda home: home.write_command(code="raise SystemExit('it is broken')"),
        ("cursor", "does not answer", "it is broken"),
        "mcpx install cursor",
        starts=True,
    ),
    "a description that the client cuts": Fault(
        _long_description, ("claude-code", "2,048", "inspect (5,000)"), "three", starts=True
    ),
    "a change that was cut short": Fault(
        _interrupted_change, ("install cursor", "cut short", "a.json"), "mcpx undo"
    ),
    "a daemon that does not answer": Fault(_no_answer, ("daemon", "does not answer"), "daemon restart"),
    "a daemon of another version": Fault(
        lambda home: home.daemon(version="0.0.9"), ("0.0.9",), "daemon restart"
    ),
    "a daemon that cannot use the file": Fault(
        lambda home: home.daemon(config_error="x:1:1: not JSON"), ("cannot be used", "x:1:1"), "check"
    ),
    "a daemon without HTTP": Fault(
        lambda home: home.daemon(http={"error": "cannot listen on 127.0.0.1:1"}),
        ("HTTP", "127.0.0.1:1"),
        "status",
    ),
    "a server that is parked": Fault(
        lambda home: home.daemon(servers=(server("s", "parked", last_error="it died"),)),
        ("s is parked", "it died"),
        "mcpx restart s",
    ),
    "a second daemon": Fault(_second_daemon, ("two daemons",), "kill"),
    "a file where the socket is to be": Fault(_file_for_socket, ("socket", "in the way"), "rm"),
    "a runtime folder that is open": Fault(_runtime_folder_open, ("run", "open to others"), "chmod 700"),
    "a state folder that is open": Fault(_state_folder_open, ("state", "others may change"), "chmod go-w"),
    "a file where the state folder is to be": Fault(_state_is_a_file, ("state",), "MCPX_STATE_DIR"),
    "a port that is taken": Fault(_port_taken, ("HTTP", "127.0.0.1", "in use"), "port"),
    "a unit that runs what is gone": Fault(_stale_unit, ("mcpx.service", "/old/python"), "daemon install"),
    "a unit that is not enabled": Fault(_disabled_unit, ("mcpx.service", "not enabled"), "daemon install"),
    "a full disk": Fault(_full_disk, ("disk", "full"), "free some space"),
    "a proxy before a local server": Fault(_proxy, ("proxy", "HTTP_PROXY", "local"), "NO_PROXY"),
    "a home that is not there": Fault(_no_home, ("home", "nobody"), "HOME"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_named(home, fault):
    broken = fault.plant(home)
    with ExitStack() as stack:
        if hasattr(broken, "__enter__"):
            stack.enter_context(broken)
        if fault.starts:
            stack.enter_context(home.daemon())
        page = home.examine(starts=fault.starts, timeout_s=10.0)
    assert len(page.of("wrong")) == 1, page
    (finding,) = page.naming("wrong", *fault.words) or [None]
    assert finding is not None, page
    assert fault.advice in (finding.advice or ""), page
