"""The one diagnosis of a server's entry, which every surface shows: its state, why, and what to do.

Reading an entry leaves an `Obstacle` for each thing that is missing or mistaken. `diagnose` makes of them the
state of the server: `mcpx check`, `doctor`, `list`, `status`, the page and the errors for models all show
this one answer, so they agree. A person who switched a server off is believed before anything else: then
nothing is wrong with it.
"""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

import msgspec

from mcpx.core.config.redaction import redactor_of
from mcpx.core.config.server_config import ServerConfig
from mcpx.paths import config_hint

EntryState = Literal["disabled", "needs setup", "invalid"]
DISABLED: Final = "disabled"
NEEDS_SETUP: Final = "needs setup"
INVALID: Final = "invalid"
_TELL: Final = "correct its entry"


class Diagnosis(msgspec.Struct, frozen=True):
    """The reason that a server is not started: its state, the cause in words without places, and the remedy.

    `missing` are the names of what is not there. `remedy` is one line, and ends with the command after which
    the server is looked at again.
    """

    state: EntryState
    cause: str | None = None
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    def __str__(self) -> str:
        """`needs setup: environment variable KEY is not set`."""
        return self.state if self.cause is None else f"{self.state}: {self.cause}"


def diagnose(server: ServerConfig) -> Diagnosis | None:
    """The state that a server has by its entry; None for one that can be started."""
    option = _option(server.source) if server.source else ""
    name = shlex.quote(server.name)
    if server.disabled is None:
        return _without_folder(server, f"mcpx restart {name}{option}")
    if not server.obstacles:
        return Diagnosis(DISABLED, remedy=f"mcpx enable {name}{option}")
    mistakes = [each for each in server.obstacles if each.is_mistake]
    told = mistakes or server.obstacles
    remedies = _joined(each.remedy for each in told) or _TELL
    return Diagnosis(
        INVALID if mistakes else NEEDS_SETUP,
        _joined(each.problem for each in told),
        tuple(dict.fromkeys(each.missing for each in told if each.missing)),
        f"{remedies}; then: mcpx {'check' if mistakes else f'restart {name}'}{option}",
    )


def _without_folder(server: ServerConfig, again: str) -> Diagnosis | None:
    """The diagnosis of a server whose working folder is not there."""
    program = server.transport.program
    folder = None if program is None else program.cwd
    if folder is None or folder.startswith("${project") or os.path.isdir(folder):
        return None
    is_file = os.path.exists(folder)
    remedy = _TELL if is_file else f"mkdir -p {shlex.quote(folder)}"
    shown = redactor_of(server)
    cause = shown(f"its working folder {folder} is {'a file' if is_file else 'not there'}")
    return Diagnosis(NEEDS_SETUP, cause, (shown(folder),), shown(f"{remedy}; then: {again}"))


@lru_cache(maxsize=64)
def _option(source: str) -> str:
    """The `--config` of a command for this file; who reads it has another environment than this process."""
    return config_hint(source, {})


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))
