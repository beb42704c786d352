"""Where a client's file is, for one user and one system: the templates of the table, filled in.

Looks at the file system (what exists), and changes nothing.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mcpx.core.text.nearest import suggestion
from mcpx.errors import ConfigError
from mcpx.paths import home
from mcpx.setup.clients.rows import CLIENTS, Client, System


class ClientFile(msgspec.Struct, frozen=True):
    """A file in which a client keeps its servers. `installed` is whether there are traces of the client."""

    client: Client
    path: Path
    exists: bool
    installed: bool


def client_named(name: str) -> Client:
    """The row of a client.

    Raises:
        ConfigError: There is none; the text names the nearest, or all.
    """
    for client in CLIENTS:
        if client.name == name.lower():
            return client
    hint = suggestion(name, (client.name for client in CLIENTS))
    raise ConfigError(name, f"no client of this name is known; {hint}")


def this_system() -> System:
    """The system that this process runs on."""
    if sys.platform == "darwin":
        return "macos"
    return "windows" if sys.platform == "win32" else "linux"


def find(client: Client, environ: Mapping[str, str] = os.environ, system: System | None = None) -> ClientFile:
    """The file of a client: of several possible ones the first that exists, else the first of all."""
    paths = list(candidates(client, environ, system or this_system()))
    existing = [path for path in paths if _is_file(path)]
    path = (existing or paths)[0]
    folder = Path(_filled(client.folder, environ)) if client.folder else path.parent
    return ClientFile(client, path, bool(existing), bool(existing) or os.path.isdir(folder))  # noqa: PTH112 - False where it may not be seen


def find_all(
    client: Client, environ: Mapping[str, str] = os.environ, system: System | None = None
) -> list[ClientFile]:
    """Every file of a client that exists: some have one for each editor that they live in."""
    found: dict[str, ClientFile] = {}
    for path in candidates(client, environ, system or this_system()):
        if _is_file(path):
            found.setdefault(os.path.realpath(path), ClientFile(client, path, exists=True, installed=True))
    return list(found.values())


def candidates(client: Client, environ: Mapping[str, str], system: System) -> Iterator[Path]:
    """The paths at which the client may keep its servers, the preferred one first; at least one."""
    for template in client.files[system]:
        variable, _, rest = template.partition("/")
        if variable.startswith("$"):
            if chosen := environ.get(variable[1:]):
                yield Path(_at_home(chosen, environ), rest)
                return
        elif "*" in template:
            yield from _matching(_filled(template, environ))
        else:
            yield Path(_filled(template, environ))


def _is_file(path: Path) -> bool:
    """Whether there is a file, for all that can be seen: who may not look finds out by reading it."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _matching(path: str) -> list[Path]:
    """The paths that a path with one `*` stands for."""
    before, _, _ = path.partition("*")
    root = Path(before).parent
    return sorted(root.glob(Path(path).relative_to(root).as_posix()))


def _at_home(path: str, environ: Mapping[str, str]) -> str:
    return home(environ) + path[1:] if path == "~" or path.startswith("~/") else path


def _filled(template: str, environ: Mapping[str, str]) -> str:
    user = environ.get("HOME") or environ.get("USERPROFILE") or home(environ)
    chosen = environ.get("XDG_CONFIG_HOME", "")
    return template.format(
        home=user,
        config=chosen if chosen.startswith("/") else f"{user}/.config",
        support=f"{user}/Library/Application Support",
        roaming=environ.get("APPDATA") or f"{user}/AppData/Roaming",
        local=environ.get("LOCALAPPDATA") or f"{user}/AppData/Local",
    )
