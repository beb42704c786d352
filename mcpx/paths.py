"""The places of MCPX's files: the configuration, and the folders for its state, private to their owner.

Standard library alone, and platformdirs where no folder is given: `mcpx attach` imports this and is quick.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

CONFIG_VARIABLE = "MCPX_CONFIG"
STATE_VARIABLE = "MCPX_STATE_DIR"
CONFIG_NAME = "config.json"
CONFIGURATIONS = "configs"
"""In the state folder: a folder for each configuration."""
AUDIT_FOLDER = "audit"
"""In the state folder: the audit log, of all configurations."""


def state_folder() -> Path:
    """`MCPX_STATE_DIR`, or the user's state folder for mcpx. It is not created.

    Raises:
        FileNotFoundError: The user has no home folder.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    import platformdirs  # noqa: PLC0415 - a fifth of the shim's start, where it is not needed

    return _in_home(platformdirs.user_state_path)


def runtime_folder() -> Path:
    """`run` in `MCPX_STATE_DIR`, or the user's runtime folder for mcpx. It is not created.

    Raises:
        FileNotFoundError: The user has no home folder.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen).absolute() / "run"
    import platformdirs  # noqa: PLC0415 - as above

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it takes a temporary one: whose it is will be checked
        return _in_home(platformdirs.user_runtime_path)


def config_file(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """The file given, else what `MCPX_CONFIG` names, else `config.json` in the user's config folder.

    Whether it exists or not; `~` at the start is the home folder.

    Raises:
        FileNotFoundError: None is given, and the user has no home folder.
    """
    given = str(path) if path is not None else environ.get(CONFIG_VARIABLE, "")
    if given:
        return Path(home(environ) + given[1:] if given == "~" or given.startswith("~/") else given)
    import platformdirs  # noqa: PLC0415 - as above

    return _in_home(platformdirs.user_config_path) / CONFIG_NAME


def _in_home(find: Callable[[str], Path]) -> Path:
    """One of the user's folders for mcpx."""
    with suppress(RuntimeError):  # platformdirs, on Linux
        if (folder := find("mcpx")).is_absolute():
            return folder
    advice = "this user has no home folder: set HOME, or MCPX_STATE_DIR and MCPX_CONFIG"
    raise FileNotFoundError(errno.ENOENT, advice)


def config_hint(config: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> str:
    """Return what a command in a message needs to mean this configuration: ` --config FILE`, or nothing.

    Nothing for the file that every command takes by itself in that environment.
    """
    if os.path.realpath(config) == os.path.realpath(config_file(environ=environ)):
        return ""
    import shlex  # noqa: PLC0415 - only a message needs it

    return f" --config {shlex.quote(os.fspath(config))}"


def configuration_key(path: str | os.PathLike[str]) -> str:
    """The name of a configuration's files: a digest of its real path, the same for each link to it."""
    return digest(os.path.realpath(path))


def configuration_folder(path: str | os.PathLike[str], state: Path | None = None) -> Path:
    """The folder for what MCPX keeps for one configuration alone: its logs, its sums. It is not created."""
    return (state or state_folder()) / CONFIGURATIONS / configuration_key(path)


def digest(text: str) -> str:
    """FNV-1a in sixteen hexadecimal digits: enough for one user's files, with nothing to import."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(text):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def home(environ: Mapping[str, str] = os.environ) -> str:
    """The user's home folder."""
    return environ.get("HOME") or os.path.expanduser("~")


def short(path: str | os.PathLike[str]) -> str:
    """A path with `~` for the home folder, to be shown."""
    text, folder = os.fspath(path), str(Path(home()))
    return f"~{text[len(folder) :]}" if folder != "/" and text.startswith(f"{folder}/") else text
