"""How a client starts MCPX: by its absolute path, since clients have another PATH than terminals."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.system.environment import COMMAND
from mcpx.paths import CONFIG_VARIABLE, STATE_VARIABLE, config_file, home

_COMMAND: Final = "mcpx"
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
        """The arguments for `mcpx attach`, with further options of its own."""
        return [*self.prefix, "attach", *(("--config", self.config) if self.config else ()), *options]


def own_launch(
    config: str | None, environ: Mapping[str, str] = os.environ, argv: list[str] | None = None
) -> Launch:
    """How clients are to start this MCPX, with the configuration that was named, if any.

    The command is the same whoever asks, a terminal or the daemon's page: a link to this MCPX where pipx and
    uv put theirs, or on `PATH`; else the one that was typed, or by which the daemon was started; else the one
    beside this Python, else this Python.
    """
    argv = sys.argv if argv is None else argv
    command = next((path for path in _commands(argv, environ) if _runs(path)), None)
    prefix: tuple[str, ...] = ()
    if command is None:
        command, prefix = sys.executable, ("-P", "-m", "mcpx")
    fleeting = any(part in command for part in _FLEETING)
    state = environ.get(STATE_VARIABLE)
    return Launch(
        command=command,
        prefix=prefix,
        config=_named_config(config, environ),
        serves=os.path.abspath(config_file(config, environ=environ)),  # noqa: PTH100 - as below
        env={STATE_VARIABLE: os.path.abspath(state)} if state else {},  # noqa: PTH100 - a link stays one
        notes=(f"{command} {_MAY_VANISH}",) if fleeting else (),
    )


def _commands(argv: list[str], environ: Mapping[str, str]) -> list[str]:
    """Where the command may be, the best place first."""
    beside = str(Path(sys.executable).with_name(_COMMAND))
    typed = argv[0] if argv and Path(argv[0]).name == _COMMAND else ""
    if typed and os.sep not in typed:
        typed = shutil.which(typed, path=environ.get("PATH")) or ""
    links = (f"{home(environ)}/{_LINK}", shutil.which(_COMMAND, path=environ.get("PATH")) or "")
    lasting = [link for link in links if link and is_same_command(link, typed or beside)]
    started = environ.get(COMMAND, "")
    if not is_same_command(started, beside):
        started = ""
    return [os.path.abspath(each) for each in (*lasting, typed, started, beside) if each]  # noqa: PTH100 - as above


def is_same_command(one: str, other: str) -> bool:
    """Whether two paths lead to one program."""
    try:
        return os.path.samefile(one, other)  # noqa: PTH121 - text to text
    except OSError:
        return False


def _runs(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)


def _named_config(config: str | None, environ: Mapping[str, str]) -> str | None:
    """The configuration that the entry must name: one that a client would not find by itself."""
    chosen = environ.get("XDG_CONFIG_HOME", "")
    elsewhere = chosen.startswith("/") and Path(chosen) != Path(home(environ), ".config")
    if config is None and not environ.get(CONFIG_VARIABLE) and not elsewhere:
        return None
    return os.path.abspath(config_file(config, environ=environ))  # noqa: PTH100 - as above
