"""The files that make a service manager run MCPX: a systemd user unit, a launchd agent. Pure text.

Quoting follows systemd.syntax(7), systemd.service(5) and systemd.exec(5): a word stands in double quotes with
C escapes, `%` is doubled everywhere, and a command line that holds a `$` is marked with `:` so that it is
taken as it is written.
"""

from __future__ import annotations

import plistlib
import re
import xml.parsers.expat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mcpx.core.daemon.launch import BAD_CONFIG

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
