"""Where MCPX's files are: the configuration, and the folders for what it must remember, for its owner only.

Standard library alone, and platformdirs where no folder is given: `mcpx attach` imports this and is quick.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path

OWNER_ONLY = 0o700
CONFIG_VARIABLE = "MCPX_CONFIG"
STATE_VARIABLE = "MCPX_STATE_DIR"
CONFIG_NAME = "config.json"


def state_folder() -> Path:
    """`MCPX_STATE_DIR`, or the user's state folder for mcpx. Not made by this."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    import platformdirs  # noqa: PLC0415 - a fifth of the shim's start, where it is not needed

    return platformdirs.user_state_path("mcpx")


def runtime_folder() -> Path:
    """`run` in `MCPX_STATE_DIR`, or the user's runtime folder for mcpx. Not made by this."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen).absolute() / "run"
    import platformdirs  # noqa: PLC0415 - as above

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it takes a temporary one: whose it is will be checked
        return platformdirs.user_runtime_path("mcpx")


def config_file(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """The file given, else what `MCPX_CONFIG` names, else `config.json` in the user's config folder.

    Whether it exists or not; `~` at the start is the home folder.
    """
    given = str(path) if path is not None else environ.get(CONFIG_VARIABLE, "")
    if given:
        return Path(home(environ) + given[1:] if given == "~" or given.startswith("~/") else given)
    import platformdirs  # noqa: PLC0415 - as above

    return platformdirs.user_config_path("mcpx") / CONFIG_NAME


def home(environ: Mapping[str, str] = os.environ) -> str:
    """The user's home folder."""
    return environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111  (Path.home raises where there is none)


def ensure_folder(path: Path) -> Path:
    """Make `path` and what is missing above it, each readable by its owner only. Raises OSError."""
    try:
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    except FileNotFoundError:
        if path.parent == path:
            raise
        ensure_folder(path.parent)
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    return path


def others_may_change(found: os.stat_result, *, sticky_is_safe: bool = False) -> bool:
    """Whether what lies in this folder may be other users' work: it is theirs, or they may write to it.

    In a sticky folder (/tmp) others can add things, but not touch ours: that will do where the owner of each
    thing is looked at (`sticky_is_safe`).
    """
    open_to_others = bool(found.st_mode & 0o022)
    if sticky_is_safe and found.st_mode & stat.S_ISVTX:
        open_to_others = False
    return found.st_uid not in {os.getuid(), 0} or open_to_others
