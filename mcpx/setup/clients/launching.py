"""The command line by which clients start MCPX, and the clients' own commands that add it.

Under WSL there are the clients of the Windows side as well (`windows_clients`). Their files are on the
mounted drive, and they start MCPX through `wsl.exe`.

The command has its absolute path, since clients have another `PATH` than terminals. A client's own command
(`claude mcp add`) is preferred to an edit of its file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.running import bounded
from mcpx.core.system.environment import COMMAND
from mcpx.paths import CONFIG_VARIABLE, STATE_VARIABLE, config_file, home
from mcpx.setup.clients.forms import write_entry
from mcpx.setup.clients.rows import CLIENTS, Client, WindowsSide

NAME: Final = "mcpx"
"""Of MCPX's entry in a client's file, and of its command."""
ADD_TIMEOUT_S: Final = 30.0  # for a client's own command, which starts Node as a rule
WINDOWS_TIMEOUT_S: Final = 10.0  # for a first program of Windows, which may start its side
_WINDOWS_PATH: Final = re.compile(r"([A-Za-z]):\\(.+)")
_WSL_CONF: Final = "/etc/wsl.conf"
_LINK: Final = ".local/bin/mcpx"
"""In the home folder: where pipx and uv put a link to the command. It outlives what it leads to."""
_FLEETING: Final = ("/uv/archive-v", "/uv/environments-v", "/uv/builds-v", "/pipx/.cache/", "/.cache/pipx/")
"""In the paths of environments that `uvx` and `pipx run` make, and that are cleaned up some day."""
_MAY_VANISH: Final = "may vanish with a cache: install MCPX for good (uv tool install, pipx) first"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of MCPX's entry. `config` is the configuration it names; None for the usual one."""

    command: str
    prefix: tuple[str, ...] = ()
    """Arguments before `attach`."""
    config: str | None = None
    serves: str | None = None
    """The path of the configuration, the usual one too."""
    env: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    def args(self, options: tuple[str, ...] = ()) -> list[str]:
        """Return the arguments for `mcpx attach`, with further options of its own."""
        return [*self.prefix, "attach", *(("--config", self.config) if self.config else ()), *options]

    def through_wsl(self, side: WindowsSide) -> Launch:
        """The same, for a client on the Windows side, whose variables do not come through."""
        set_first = ("/usr/bin/env", *(f"{name}={value}" for name, value in self.env.items()))
        words = (*(set_first if self.env else ()), self.command, *self.prefix)
        prefix = ("-d", side.distribution, "--exec", *words)
        return msgspec.structs.replace(self, command="wsl.exe", prefix=prefix, env={})


def own_launch(
    config: str | None, environ: Mapping[str, str] = os.environ, argv: list[str] | None = None
) -> Launch:
    """Return the way for clients to start this MCPX, with the configuration that was named, if any.

    The command is the same whoever asks, a terminal or the daemon's page: a link to this MCPX where pipx and
    uv put theirs, or on `PATH`; else the one that was typed, or by which the daemon was started; else the one
    beside this Python, else this Python.
    """
    argv = sys.argv if argv is None else argv
    command = next(
        (path for path in _commands(argv, environ) if Path(path).is_file() and os.access(path, os.X_OK)), None
    )
    prefix: tuple[str, ...] = ()
    if command is None:
        command, prefix = sys.executable, ("-P", "-m", "mcpx")
    fleeting = any(part in command for part in _FLEETING)
    state = environ.get(STATE_VARIABLE)
    return Launch(
        command=command,
        prefix=prefix,
        config=_named_config(config, environ),
        serves=os.path.abspath(config_file(config, environ=environ)),
        env={STATE_VARIABLE: os.path.abspath(state)} if state else {},
        notes=(f"{command} {_MAY_VANISH}",) if fleeting else (),
    )


def _commands(argv: list[str], environ: Mapping[str, str]) -> list[str]:
    """Return the paths that the command may have, the best one first."""
    beside = str(Path(sys.executable).with_name(NAME))
    typed = argv[0] if argv and Path(argv[0]).name == NAME else ""
    if typed and os.sep not in typed:
        typed = shutil.which(typed, path=environ.get("PATH")) or ""
    links = (f"{home(environ)}/{_LINK}", shutil.which(NAME, path=environ.get("PATH")) or "")
    lasting = [link for link in links if link and is_same_command(link, typed or beside)]
    started = environ.get(COMMAND, "")
    if not is_same_command(started, beside):
        started = ""
    return [os.path.abspath(each) for each in (*lasting, typed, started, beside) if each]


def is_same_command(one: str, other: str) -> bool:
    """Return True if two paths lead to one program."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _named_config(config: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the configuration that the entry must name: one that a client would not find by itself."""
    chosen = environ.get("XDG_CONFIG_HOME", "")
    elsewhere = chosen.startswith("/") and Path(chosen) != Path(home(environ), ".config")
    if config is None and not environ.get(CONFIG_VARIABLE) and not elsewhere:
        return None
    return os.path.abspath(config_file(config, environ=environ))


# --- the Windows side of WSL


def windows_clients(environ: Mapping[str, str] = os.environ) -> tuple[Client, ...]:
    """The clients of the Windows side, named as `cursor-windows`; none where this is not WSL."""
    distribution = environ.get("WSL_DISTRO_NAME", "")
    user = _windows_user(environ) if distribution else None
    if user is None:
        return ()
    folders = {"APPDATA": f"{user}/AppData/Roaming", "LOCALAPPDATA": f"{user}/AppData/Local"}
    side = WindowsSide(distribution, {"HOME": user, "USERPROFILE": user, **folders})
    return tuple(
        msgspec.structs.replace(
            each, name=f"{each.name}-windows", title=f"{each.title} (Windows)", command=None, windows=side
        )
        for each in CLIENTS
    )


def _windows_user(environ: Mapping[str, str]) -> str | None:
    """The user's folder on the mounted drive, as Windows says; None if it does not say, or is not mounted."""
    drives = _mounted_at()
    program = shutil.which("cmd.exe", path=environ.get("PATH")) or f"{drives}c/Windows/System32/cmd.exe"
    try:
        said = bounded.run(
            (program, "/d", "/c", "echo %USERPROFILE%"), environ, timeout_s=WINDOWS_TIMEOUT_S
        ).output
    except (OSError, bounded.OutOfBounds):  # no Windows program may be started here
        return None
    found = _WINDOWS_PATH.fullmatch(said.decode("utf-8", "replace").strip())
    if found is None:
        return None
    folder = f"{drives}{found[1].lower()}/{found[2].replace(chr(92), '/')}"
    return folder if os.path.isdir(folder) else None


def _mounted_at() -> str:
    """The folder in which drives are mounted (wsl.conf, automount.root)."""
    read = ConfigParser(strict=False, interpolation=None)
    with suppress(OSError, ValueError, ConfigParserError):
        read.read(_WSL_CONF)
    root = read.get("automount", "root", fallback="/mnt/").strip("\"' ")
    return f"{root.rstrip('/')}/"


def add_command(
    client: Client, launch: Launch, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...] | None:
    """Return the command line that adds MCPX to a client; None if it has none, or is not installed."""
    if client.command is None:
        return None
    # where Claude Code installs itself behind an alias of the shell
    hidden = Path(home(environ), f".claude/local/{client.command.program}")
    program = shutil.which(client.command.program, path=environ.get("PATH"))
    if program is None and os.access(hidden, os.X_OK):
        program = str(hidden)
    if program is None:
        return None
    return (program, *(word for part in client.command.add for word in _filled(part, client, launch)))


def _filled(part: str, client: Client, launch: Launch) -> Iterator[str]:
    if part == "{args}":
        yield from launch.args()
    elif part == "{env}":
        for name, value in launch.env.items():
            yield from ("--env", f"{name}={value}")
    elif part == "{json}":
        entry = write_entry(client.form, launch.command, launch.args(), launch.env, name=NAME)
        yield json.dumps({"name": NAME, **entry})
    else:
        yield {"{name}": NAME, "{command}": launch.command}.get(part, part)


def run(line: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> str | None:
    """Run a command line to its end, in the home folder; return why it failed, None for success."""
    try:
        done = bounded.run(line, environ, timeout_s=ADD_TIMEOUT_S, with_errors=True)
    except bounded.OutOfBounds as limit:
        return f"it {limit}".replace("did not answer", "did not end")
    except OSError as error:
        return error.strerror or str(error)
    return None if done.code == 0 else done.last_line or f"it ended with exit code {done.code}"
