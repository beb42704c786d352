"""The faults of `test_faults`: functions that break something in a home, some for a while."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.config import ServerConfig, load
from mcpx.core.daemon.service import install
from mcpx.core.policy.pin_files import PinFiles
from mcpx.core.policy.pin_record import PinRecord, empty_record, pin_identity
from mcpx.core.policy.pins import ServerPins
from mcpx.core.store.folders import ensure_folder
from mcpx.setup.changes import Edit, State, carry_out
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.scripted import entry
from tests.mcpx.setup.doctor.homes import Home

HANG = "import sys; [None for _ in sys.stdin]"


def config(text: str) -> Callable[[Home], None]:
    return lambda home: home.write_text(text)


def bad_entry(**given: Any) -> Callable[[Home], None]:
    return lambda home: home.write({"s": entry(), "bad": given})


def script(**script: Any) -> Callable[[Home], None]:
    settings = {"connect_timeout": 1.0}
    return lambda home: home.write({"s": entry(), "bad": entry(settings=settings, **script)})


@contextmanager
def wants_sign_in(home: Home) -> Iterator[None]:
    """A server that answers 401, and says where to sign in."""
    with scripted_issuer() as issuer:
        home.write({"s": entry(), "bad": {"url": issuer.mcp_url}})
        yield


@contextmanager
def refuses_credentials(home: Home, **said: Any) -> Iterator[None]:
    """A server that answers 401 to what its entry says."""
    with scripted_issuer() as issuer:
        home.write({"s": entry(), "bad": {"url": issuer.mcp_url, **said}})
        yield


def changed_tool(home: Home) -> None:
    """A tool that is not as it was, of which MCPX knows, and which cannot run."""
    home.write({"s": entry()}, pin="block")
    (config,) = load(home.config).servers.values()
    pins = ServerPins(config)
    tool = ToolInfo(server_name="s", name="echo", input_schema={}, description="Says the text.")
    for description in ("Says the text.", "Mails the text."):
        tool = replace(tool, description=description)
        pins.note(Catalogue(generation=1, tools={"echo": tool}))
    _keep(config, pins.record)


def lost_record(home: Home) -> None:
    """A file of pins that is gone."""
    home.write({"s": entry()})
    (config,) = load(home.config).servers.values()
    _keep(config, replace(empty_record(config), state="pinned"))
    for path in PinFiles().folder.glob("*.json"):
        if path.stem != "index":
            path.unlink()


def _keep(config: ServerConfig, record: PinRecord) -> None:
    PinFiles().update(pin_identity(config), lambda _before: record, empty_record(config))


def client(text: str) -> Callable[[Home], None]:
    return lambda home: home.cursor.write_text(text)


def gone_command(home: Home) -> None:
    home.write_client(home.cursor, {"mcpx": home.own_entry(command=f"{home.folder}/old/bin/mcpx")})


def gone_configuration(home: Home) -> None:
    args = ["attach", "--config", f"{home.folder}/gone.json"]
    home.write_client(home.cursor, {"mcpx": home.own_entry(args=args)})


def client_with_secret(home: Home) -> None:
    beside = {"command": "ls", "env": {"GITHUB_TOKEN": "ghp_0123456789"}, "disabled": True}
    home.write_client(home.cursor, {"mcpx": home.own_entry(), "github": beside})
    home.cursor.chmod(0o644)


def config_with_secret(home: Home) -> None:
    home.write({"s": {**entry(), "env": {"API_KEY": "sk-0123456789abcdef"}}})
    home.config.chmod(0o644)


def readable_env_file(home: Home) -> None:
    home.write({"s": {**entry(), "env_file": "tokens.env"}})
    file = home.config.with_name("tokens.env")
    file.write_text("API_KEY=sk-0123456789abcdef\n")
    file.chmod(0o644)


@contextmanager
def mute_login_shell(home: Home) -> Iterator[None]:
    shell = home.folder / "shell"
    shell.write_text("#!/bin/sh\nexit 3\n")
    shell.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHELL", str(shell))
        yield


@contextmanager
def interrupted_change(home: Home) -> Iterator[None]:
    """A change that was killed before its end: its state in the journal is as it was begun."""
    change = carry_out("install cursor", [Edit(home.folder / "a.json", None, b"{}")])
    (change.folder / State.DONE).rename(change.folder / State.BEGUN)
    yield


def long_description(home: Home) -> None:
    home.write_command(length=5000)
    home.write_client(home.folder / ".claude.json", {"mcpx": home.own_entry()})


def runtime_folder_open(home: Home) -> None:
    ensure_folder(home.paths.socket.parent).chmod(0o755)


def state_folder_open(home: Home) -> None:
    ensure_folder(home.folder / "state").chmod(0o777)


def state_is_a_file(home: Home) -> None:
    (home.folder / "state").write_text("")


@contextmanager
def no_answer(home: Home) -> Iterator[None]:
    with home.locked(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.paths.socket))
        listener.listen()
        yield


def file_for_socket(home: Home) -> None:
    ensure_folder(home.paths.socket.parent)
    home.paths.socket.write_text("")


@contextmanager
def port_taken(home: Home) -> Iterator[None]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        home.write({"s": entry()}, http={"port": taken.getsockname()[1]})
        yield


def readable_token(home: Home) -> None:
    home.write({"s": entry()}, http={"port": 0})
    token = ensure_folder(home.folder / "state") / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o644)


def named_tokens(home: Home, text: str, mode: int = 0o600) -> None:
    home.write({"s": entry()}, http={"port": 0})
    file = ensure_folder(home.folder / "state") / "tokens.json"
    file.write_text(text)
    file.chmod(mode)


def installed_unit(home: Home) -> Path:
    if sys.platform != "linux":
        pytest.skip("the service of this system is another one")
    environ = {"HOME": str(home.folder), "PATH": "/nowhere"}
    install(home.config, platform="linux", environ=environ)
    unit = home.folder / ".config/systemd/user/mcpx.service"
    wants = ensure_folder(unit.parent / "default.target.wants")
    (wants / unit.name).symlink_to(unit)
    return unit


def stale_unit(home: Home) -> None:
    unit = installed_unit(home)
    unit.write_text(unit.read_text().replace(sys.executable, "/old/python"))


def disabled_unit(home: Home) -> None:
    (installed_unit(home).parent / "default.target.wants" / "mcpx.service").unlink()


@contextmanager
def full_disk(home: Home) -> Iterator[None]:
    found = os.statvfs(home.folder)
    full = os.statvfs_result([*found[:4], 0, *found[5:]])  # f_bavail
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: full)
        yield


@contextmanager
def proxy(home: Home) -> Iterator[None]:
    home.write({"s": entry(), "local": {"url": "http://127.0.0.1:9/mcp"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", "http://proxy.example:3128")
        yield


@contextmanager
def no_home(home: Home) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPX_CONFIG", str(home.config))
        patch.setenv("HOME", str(home.folder / "nobody"))
        yield


@contextmanager
def no_configuration(home: Home) -> Iterator[None]:
    home.config.unlink()
    home.cursor.unlink()
    yield


@contextmanager
def second_daemon(home: Home) -> Iterator[None]:
    """A process with the command line of one, which has another state folder."""
    if not Path("/proc").is_dir():
        pytest.skip("command lines of others cannot be read here")
    command = [sys.executable, "-S", "-c", HANG, "daemon", "run", "--config", str(home.config)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield
        assert process.stdin is not None
        process.stdin.close()
