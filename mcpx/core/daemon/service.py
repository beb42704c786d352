"""Installing MCPX as a service of the user, and removing it: systemd on Linux, launchd on macOS.

`install` and `uninstall` return what they did (`Report`). Both may be repeated without effect. A
file that MCPX has not written is never touched. If the service manager cannot be reached (no user session, a
container), the file is written all the same and the lines say what to run.

Quoting follows systemd.syntax(7), systemd.service(5) and systemd.exec(5): a word stands in double quotes with
C escapes, `%` is doubled everywhere, and a command line that holds a `$` is marked with `:` so that it is
taken as it is written.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import sys
import xml.parsers.expat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mcpx.core.daemon.launch import BAD_CONFIG
from mcpx.core.running.bounded import OutOfBounds, run
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import daemon_paths
from mcpx.core.store.private_files import replace_file
from mcpx.core.system.linux import PLATFORM
from mcpx.errors import MCPXError
from mcpx.paths import config_hint

MARK: Final = "Written by `mcpx daemon install`; `mcpx daemon uninstall` removes it."
"""In every file that MCPX may replace or remove."""
LABEL: Final = "mcpx.daemon"
WATCHDOG_S: Final = 30
_SPACE: Final = 0x20
_DELETE: Final = 0x7F

_CONFIG_WORD: Final = re.compile(r'^ExecStart=.*"--config" "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_ESCAPE: Final = re.compile(r"\\x([0-9a-f]{2})|\\.|%%")

_SYSTEMD: Final = """\
# {mark}
[Unit]
Description=MCPX, one gateway between AI clients and their MCP servers

[Service]
Type=notify
ExecStart={command}
ExecReload={again}
{environment}WatchdogSec={watchdog}
Restart=on-failure
RestartSec=1
RestartPreventExitStatus={bad_config}
KillMode=mixed

[Install]
WantedBy=default.target
"""


def systemd_unit(command: Sequence[str], again: Sequence[str], environment: Mapping[str, str]) -> str:
    """A user unit that runs `command` with these variables, and `again` to reload the configuration.

    The first word of a command is an absolute path.

    KillMode is mixed: at a stop MCPX ends its servers itself, and only what is left then is killed.
    """
    variables = [f"Environment={_word(f'{name}={value}')}\n" for name, value in environment.items()]
    return _SYSTEMD.format(
        mark=MARK,
        command=_command_line(command),
        again=_command_line(again),
        environment="".join(variables),
        watchdog=WATCHDOG_S,
        bad_config=BAD_CONFIG,
    )


def _command_line(command: Sequence[str]) -> str:
    as_written = ":" if any("$" in word for word in command) else ""
    return as_written + " ".join(map(_word, command))


def _word(text: str) -> str:
    """One word of a unit file, quoted and escaped."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "%":
        return "%%"
    return f"\\x{ord(char):02x}" if ord(char) < _SPACE or ord(char) == _DELETE else char


def launchd_agent(command: Sequence[str], environment: Mapping[str, str], *, log: Path) -> str:
    """An agent that runs `command` with these variables at login and whenever it fails.

    Its standard output and standard error go to `log`.
    """
    agent = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": dict(environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},  # one that was stopped stays so
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    text = plistlib.dumps(agent, sort_keys=False).decode()
    return text.replace("<plist", f"<!-- {MARK} -->\n<plist", 1)


def served_by(text: str) -> str | None:
    """The configuration that such a file names; None where none is found."""
    if "<plist" in text:
        try:
            words = plistlib.loads(text.encode("utf-8", "surrogateescape")).get("ProgramArguments", [])
        except (ValueError, xml.parsers.expat.ExpatError):
            return None
        after = words[words.index("--config") + 1 :] if "--config" in words else []
        return str(after[0]) if after else None
    found = _CONFIG_WORD.search(text)
    return None if found is None else _ESCAPE.sub(_unescaped, found[1])


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code is not None:
        return chr(int(code, 16))
    return found[0][1]


UNIT: Final = "mcpx.service"
COMMAND_TIMEOUT_S: Final = 60.0  # a service manager answers at once; stopping MCPX may take its grace time
KEPT_VARIABLES: Final = ("PATH", "MCPX_STATE_DIR", "MCPX_LOG")
"""The service gets these: where servers' commands are found, and what MCPX itself reads."""

Command = tuple[str, ...]


class ServiceError(MCPXError):
    """MCPX cannot be installed as a service, or removed."""


class Report(NamedTuple):
    """The result of an installation or a removal."""

    lines: list[str]
    """For the user."""
    is_complete: bool
    """True if the service manager did its part, too."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """The commands of one kind of service manager; each may be repeated."""

    file: Path
    clear: tuple[Command, ...] = ()
    """Run before `start`; that they fail when there is nothing to clear is ignored."""
    start: tuple[Command, ...]
    restart: tuple[Command, ...]
    """In place of `start`, if the file has changed."""
    stop: tuple[Command, ...]
    after_removal: tuple[Command, ...] = ()
    """Run after the file was removed."""
    text: Callable[[Command, Command, Mapping[str, str], Path], str]
    """Writes the file: takes the command that runs MCPX, the one that reloads it, the variables, the log."""
    hints: tuple[str, ...] = ()
    """The advice after an installation; `{config}` stands for the option that names the configuration."""


def service(platform: str = PLATFORM, environ: Mapping[str, str] = os.environ) -> Service:
    """The service manager of this system.

    Raises:
        ServiceError: None is known.
    """
    home = Path(environ.get("HOME") or Path.home())
    if platform == "darwin":
        return _launchd(home)
    if platform == "linux":
        return _systemd(home, environ)
    raise ServiceError(f"no service manager is known for {platform}; let yours run: mcpx daemon run")


def _systemd(home: Path, environ: Mapping[str, str]) -> Service:
    config = environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    systemctl = ("systemctl", "--user")
    reload_units = (*systemctl, "daemon-reload")
    return Service(
        file=Path(config) / "systemd" / "user" / UNIT,
        start=(reload_units, (*systemctl, "enable", "--now", UNIT)),
        restart=(reload_units, (*systemctl, "enable", UNIT), (*systemctl, "restart", UNIT)),
        stop=((*systemctl, "disable", "--now", UNIT),),
        after_removal=(reload_units,),
        text=lambda command, again, environment, _log: systemd_unit(command, again, environment),
        hints=(
            f"its log: journalctl --user -u {UNIT}",
            "it runs while you are logged in; for always: loginctl enable-linger",
            f"variables that servers need, beside PATH: systemctl --user edit {UNIT}",
        ),
    )


def _launchd(home: Path) -> Service:
    file = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    load: Command = ("launchctl", "bootstrap", domain, str(file))
    unload: Command = ("launchctl", "bootout", f"{domain}/{LABEL}")
    return Service(
        file=file,
        clear=(unload,),
        start=(load,),
        restart=(load,),
        stop=(unload,),
        text=lambda command, _again, environment, log: launchd_agent(command, environment, log=log),
        hints=("its log: mcpx daemon logs{config}",),
    )


def install(config: Path, *, platform: str = PLATFORM, environ: Mapping[str, str] = os.environ) -> Report:
    """Let the service manager run MCPX with that configuration, now and at every login.

    Raises:
        ServiceError: No service manager is known, or the file is not MCPX's, or cannot be written.
    """
    target = service(platform, environ)
    # -P: a service runs in the home folder, and -m alone would import what lies there
    mcpx, at = (sys.executable, "-P", "-m", "mcpx"), ("--config", str(config.absolute()))
    kept = {name: environ[name] for name in KEPT_VARIABLES if environ.get(name)}
    log = daemon_paths(config).log
    text = target.text((*mcpx, "daemon", "run", *at), (*mcpx, "reload", *at), kept, log)
    before = _read_ours(target.file)
    if before == text:
        lines = [f"{target.file} is there already"]
    else:
        _write(target.file, text)
        with suppress(OSError):  # then there is no log; launchd makes the file, not the folder
            ensure_folder(log.parent)
        lines = [f"{_replaced(before, config)} {target.file}"]
    for each in target.clear:
        _run(each, environ)
    commands = target.start if before in {None, text} else target.restart
    done = _run_all(commands, environ)
    option = config_hint(config.absolute())
    hints = [hint.replace("{config}", option) for hint in target.hints]
    return Report([*lines, *done.lines, *hints], done.is_complete)


def uninstall(
    config: Path | None = None, *, platform: str = PLATFORM, environ: Mapping[str, str] = os.environ
) -> Report:
    """Remove MCPX from the service manager, and end the one that it runs; of that configuration, if given.

    Raises:
        ServiceError: No service manager is known, or the file is not MCPX's, or runs another configuration,
            or cannot be removed.
    """
    target = service(platform, environ)
    text = _read_ours(target.file)
    if text is None:
        return Report([f"{target.file} is not there; nothing to remove"], is_complete=True)
    if config is not None and served_by(text) != str(config.absolute()):
        raise ServiceError(f"{target.file} runs another configuration; leave --config out to remove it")
    done = _run_all(target.stop, environ)
    try:
        target.file.unlink()
    except OSError as error:
        raise ServiceError(f"{target.file} cannot be removed: {error.strerror}") from error
    after = _run_all(target.after_removal, environ)
    lines = [*done.lines, f"removed {target.file}", *after.lines]
    return Report(lines, done.is_complete and after.is_complete)


def _read_ours(file: Path) -> str | None:
    """The file's text; None if there is none.

    Raises:
        ServiceError: It cannot be read, or MCPX has not written it.
    """
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ServiceError(f"{file} cannot be read: {error.strerror}") from error
    if MARK not in text:
        raise ServiceError(f"{file} was not written by MCPX, and is left as it is; move it away first")
    return text


def _write(file: Path, text: str) -> None:
    """Write the file whole or not at all."""
    try:
        ensure_folder(file.parent)
        replace_file(file, text.encode("utf-8", "surrogateescape"), mode=0o666)
    except OSError as error:
        raise ServiceError(f"{file} cannot be written: {error.strerror}") from error


def _replaced(before: str | None, config: Path) -> str:
    """Say what becomes of the file: `wrote`, or `replaced (it served another.json)`."""
    if before is None:
        return "wrote"
    served = served_by(before)
    differs = served is not None and served != str(config.absolute())
    return f"replaced (it served {served})" if differs else "replaced"


def _run_all(commands: tuple[Command, ...], environ: Mapping[str, str]) -> Report:
    """Run them in turn; after a failure, the lines say what is left to be run by hand."""
    lines: list[str] = []
    for number, command in enumerate(commands):
        if (problem := _run(command, environ)) is not None:
            left = " && ".join(shlex.join(each) for each in commands[number:])
            lines += [f"{shlex.join(command)} did not work: {problem}", f"then run: {left}"]
            return Report(lines, is_complete=False)
        lines.append(f"ran {shlex.join(command)}")
    return Report(lines, is_complete=True)


def _run(command: Command, environ: Mapping[str, str]) -> str | None:
    """Return the reason why it failed; None for success."""
    try:
        done = run(command, environ, timeout_s=COMMAND_TIMEOUT_S, with_errors=True)
    except OSError as error:
        return error.strerror
    except OutOfBounds as limit:
        return str(limit).replace("did not answer", "no answer")
    return None if done.code == 0 else done.last_line or f"exit code {done.code}"
