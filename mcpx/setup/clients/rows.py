"""The table of clients: where each keeps its servers on each system, under which key, in which form.

The rows are data, in `clients.json`; what their members mean is said here. `find` says where a client's file
is for one user and system; both are given, so that every row can be tested everywhere. Read by `mcpx import`,
`install`, `uninstall` and `doctor`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mcpx.setup.documents.editing import Syntax

System = Literal["linux", "macos", "windows"]
Form = Literal["plain", "typed", "copilot", "zed", "opencode", "goose", "continue", "codex"]
"""The way in which an entry is written: see `mcpx.setup.clients.forms`."""

_APPS: Final[dict[System, str]] = {"linux": "{config}", "macos": "{support}", "windows": "{roaming}"}
"""By system, the meaning of `{apps}`: the folder in which desktop programs keep theirs."""


class ClientCommand(msgspec.Struct, frozen=True):
    """A client's own command to add a server.

    In `add`, `{name}` and `{command}` are replaced by one word, `{json}` by the entry with its name as JSON,
    `{args}` and `{env}` by any number of words; each variable is `--env` and `NAME=VALUE`.
    """

    program: str
    add: tuple[str, ...]


class WindowsSide(msgspec.Struct, frozen=True):
    """Windows, seen from Linux in WSL: the distribution's name there, and the user's folders, mounted."""

    distribution: str
    environ: dict[str, str]
    """USERPROFILE, APPDATA and LOCALAPPDATA, as paths of Linux."""


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a client's list of tools that run unasked, as it documents it.

    `files` are as those of the client; without any, it is the client's own. `value` is set at `key` for each
    tool, or with `listed` added to the list there; `{server}` and `{tool}` stand for the names. `note` is
    said where nothing is at `key` yet.
    """

    files: dict[System, tuple[str, ...]] = {}
    syntax: Syntax = "json"
    key: tuple[str, ...]
    value: str | dict[str, str | int]
    listed: bool = False
    note: str = ""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """One client.

    `files` are templates by system, the preferred one first: `{home}`, `{config}` (XDG_CONFIG_HOME,
    ~/.config), `{support}` (~/Library/Application Support), `{roaming}` and `{local}` (APPDATA,
    LOCALAPPDATA). One that starts with `$NAME` counts only where that variable is set, and is then the only
    one. A `*` stands for part of a name. In a row they may be one list for all systems, with `{apps}` for the
    system's own of these folders. `key` is the path of the servers in the file.
    """

    name: str
    title: str
    files: dict[System, tuple[str, ...]]
    key: tuple[str, ...] = ("mcpServers",)
    form: Form = "plain"
    syntax: Syntax = "json"
    command: ClientCommand | None = None
    timeout_unit_s: float = 0.001
    """Seconds that 1 means in the `timeout` of an entry; most clients count milliseconds."""
    variables: tuple[Literal["${NAME}", "${env:NAME}", "$NAME"], ...] = ("${NAME}", "${env:NAME}")
    """The spellings that the client replaces in an entry by an environment variable; others are text to it.
    Both in braces where its makers do not say."""
    windows: WindowsSide | None = None
    """Set for a client on the Windows side, which starts MCPX through `wsl.exe`."""
    folder: str | None = None
    """A folder that is there where the client is installed; without one, that of the file."""
    approvals: Approvals | None = None


def _client(row: dict[str, Any]) -> Client:
    made = row | {"files": _by_system(row["files"])}
    approvals = row.get("approvals", {})
    if "files" in approvals:
        made |= {"approvals": approvals | {"files": _by_system(approvals["files"])}}
    return msgspec.convert(made, Client)


def _by_system(files: Any) -> dict[System, list[str]]:
    by_system = files if isinstance(files, dict) else dict.fromkeys(_APPS, files)
    return {system: [each.replace("{apps}", _APPS[system]) for each in by_system[system]] for system in _APPS}


CLIENTS: Final = tuple(
    map(_client, msgspec.json.decode(Path(__file__).with_name("clients.json").read_bytes()))
)
"""Every client that MCPX knows, in the order in which they are shown."""
