"""The environment of a daemon: that of the program that starts it, without variables that load code.

The daemon serves every client, and outlives the one that started it. Variables that make a process load a
library or a module (`LD_PRELOAD`, `PYTHONPATH`, ...) were meant for that client alone: `for_daemon` renames
them, and `as_written` restores the names for `${VAR}` in a configuration, which may pass them to a server.
Everything else is kept: keys for `${VAR}`, `PATH`, proxies, the locale. The command by which somebody has
started MCPX is added, because the daemon's own command line does not say it.

Standard library only, for `mcpx attach`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

CHILD_MARK: Final = "MCPX_CHILD"
"""Holds the random mark of a server's process. A daemon that such a process starts does not inherit it."""
COMMAND: Final = "MCPX_COMMAND"
"""Holds the absolute path of the `mcpx` that was typed, or that a client has started."""
_ASIDE: Final = "MCPX_ASIDE_"
_LOADER_PREFIXES: Final = ("LD_", "DYLD_", "PYTHON")  # ld.so(8), dyld(1), python(1)
_LOADER_NAMES: Final = frozenset(
    {
        "BASH_ENV",  # bash(1): read by each script
        "GCONV_PATH",  # iconv(3): libraries that convert text
        "GLIBC_TUNABLES",
        "NODE_OPTIONS",  # an editor's debugger puts --require here
        "OPENSSL_CONF",  # openssl(1): may name modules to load
        "OPENSSL_ENGINES",
        "OPENSSL_MODULES",
        "SSLKEYLOGFILE",  # the keys of every connection would be written there
        "__PYVENV_LAUNCHER__",  # which Python it is, on macOS
    }
)


def loads_code(name: str) -> bool:
    """Return True if a variable of that name can make a process load code, or reveal its secrets."""
    return name.startswith(_LOADER_PREFIXES) or name in _LOADER_NAMES


def for_daemon(environ: Mapping[str, str], argv: Sequence[str] = sys.argv) -> dict[str, str]:
    """The environment for a daemon that a process with `environ` starts; `argv` is its own command line."""
    kept = {
        _ASIDE + name if loads_code(name) else name: value
        for name, value in environ.items()
        if name != CHILD_MARK
    }
    command = argv[0] if argv else ""
    if os.sep in command and command.rpartition(os.sep)[2] == "mcpx":
        kept[COMMAND] = os.path.abspath(command)
    return kept


def as_written(environ: Mapping[str, str]) -> Mapping[str, str]:
    """`environ`, with what `for_daemon` renamed under its original names, where these are free."""
    aside = {name.removeprefix(_ASIDE): value for name, value in environ.items() if name.startswith(_ASIDE)}
    return {**aside, **environ} if aside else environ
