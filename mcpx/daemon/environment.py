"""The environment of a daemon: of the program that happened to start it, without what loads code into others.

The daemon serves every client, and outlives the one that started it. Variables that make a process load a
library or a module (`LD_PRELOAD`, `PYTHONPATH`, ...) were meant for that client alone, so `for_daemon` sets
them aside under other names. `as_written` gives them back to `${VAR}` in a configuration, which may hand them
to one server by name. Everything else is kept: keys for `${VAR}`, `PATH`, proxies, the locale.

Standard library only, for `mcpx attach`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHILD_MARK: Final = "MCPX_CHILD"
"""Carries the random mark of a server's process. A daemon that is started inside one is no part of it."""
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
    """Whether a variable of that name can make a process load code, or give its secrets away."""
    return name.startswith(_LOADER_PREFIXES) or name in _LOADER_NAMES


def for_daemon(environ: Mapping[str, str]) -> dict[str, str]:
    """What a daemon is started with, by a process that has `environ`."""
    return {
        _ASIDE + name if loads_code(name) else name: value
        for name, value in environ.items()
        if name != CHILD_MARK
    }


def as_written(environ: Mapping[str, str]) -> Mapping[str, str]:
    """`environ`, with what `for_daemon` set aside under its own names again where they are free."""
    aside = {name.removeprefix(_ASIDE): value for name, value in environ.items() if name.startswith(_ASIDE)}
    return {**aside, **environ} if aside else environ
