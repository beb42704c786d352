"""Environments: the variables that servers are given unasked, and those that a daemon is started with.

`GROUPS` is the one table of what every server is given where it is set (docs/configuration.md shows it). A
shim sends these of its own environment to the daemon, and no others; a configuration may name more
(`mcpx.core.running.inherited`). No variable that is a key by its name is among them.

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
from pathlib import Path
from typing import Final, NamedTuple

CHILD_MARK: Final = "MCPX_CHILD"
"""Holds the random mark of a server's process. A daemon that such a process starts does not inherit it."""
COMMAND: Final = "MCPX_COMMAND"
"""Holds the absolute path of the `mcpx` that was typed, or that a client has started."""
_ASIDE: Final = "MCPX_ASIDE_"
_HOME: Final = str(Path(__file__).parents[3])
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


# --- what servers are given


class Group(NamedTuple):
    """Variables that servers are given, and what they are about."""

    about: str
    names: tuple[str, ...]


class Login(NamedTuple):
    """Variables of one login of a person, which change together: it has them if one of `known_by` is set."""

    known_by: tuple[str, ...]
    names: tuple[str, ...]


def _in_both_cases(*names: str) -> tuple[str, ...]:
    return tuple(each for name in names for each in (name, name.lower()))


BASIC: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The SDK's short list (`mcp.client.stdio`), without which few programs run: `inherit: "none"` leaves it."""
_DISPLAY: Final = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CURRENT_DESKTOP",
    "XDG_SESSION_DESKTOP",
    "XDG_SESSION_ID",
    "XDG_SESSION_TYPE",
)
_BUS: Final = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
_AGENT: Final = ("SSH_AUTH_SOCK", "SSH_AGENT_PID")
LOGINS: Final = (Login(_DISPLAY[:2], _DISPLAY), Login(_BUS, _BUS), Login(_AGENT[:1], _AGENT))
LOCALE: Final = (
    *("LANG", "LANGUAGE", "LC_ADDRESS", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION"),
    *("LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE"),
    *("LC_TIME", "TZ", "TZDIR"),
)
FOLDERS: Final = (
    *("TMPDIR", "TMP", "TEMP", "XDG_BIN_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME"),
    *("XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_DESKTOP_DIR", "XDG_DOCUMENTS_DIR", "XDG_DOWNLOAD_DIR"),
    *("XDG_MUSIC_DIR", "XDG_PICTURES_DIR", "XDG_PUBLICSHARE_DIR", "XDG_STATE_HOME", "XDG_TEMPLATES_DIR"),
    "XDG_VIDEOS_DIR",
)
GROUPS: Final = (
    Group("you, your shell, and where commands are", BASIC),
    Group("proxies", _in_both_cases("ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")),
    Group(
        "certificates",
        (
            *("SSL_CERT_DIR", "SSL_CERT_FILE", "NIX_SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
            *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO"),
            *("DENO_CERT", "DENO_TLS_CA_STORE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
            *("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "PIP_CERT", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS"),
        ),
    ),
    Group("language and time zone", LOCALE),
    Group("folders", FOLDERS),
    Group("display", _DISPLAY),
    Group("session bus", _BUS),
    Group("SSH agent", _AGENT),
    Group(
        "registries of package managers",
        (
            *("npm_config_registry", "NPM_CONFIG_REGISTRY", "npm_config_userconfig", "NPM_CONFIG_USERCONFIG"),
            *("COREPACK_NPM_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "YARN_REGISTRY", "BUN_CONFIG_REGISTRY"),
            *(
                "PIP_CONFIG_FILE",
                "PIP_EXTRA_INDEX_URL",
                "PIP_FIND_LINKS",
                "PIP_INDEX_URL",
                "PIP_TRUSTED_HOST",
            ),
            *("UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX"),
            *("UV_INDEX_STRATEGY", "UV_INDEX_URL", "UV_INSECURE_HOST", "UV_PYTHON_INSTALL_MIRROR"),
            *("GOPROXY", "GONOPROXY", "GONOSUMDB", "GOPRIVATE", "GOSUMDB", "JSR_URL", "NPM_CONFIG_OFFLINE"),
            *("npm_config_offline", "UV_OFFLINE"),
        ),
    ),
    Group(
        "caches and folders of package managers and browsers",
        (
            *("npm_config_cache", "NPM_CONFIG_CACHE", "npm_config_prefix", "NPM_CONFIG_PREFIX", "NVM_DIR"),
            *("COREPACK_HOME", "FNM_DIR", "PNPM_HOME", "VOLTA_HOME", "YARN_CACHE_FOLDER", "BUN_INSTALL"),
            *("BUN_INSTALL_CACHE_DIR", "DENO_DIR", "DENO_INSTALL_ROOT", "PIP_CACHE_DIR", "PIPX_HOME"),
            *("UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "UV_TOOL_BIN_DIR", "UV_TOOL_DIR", "PYENV_ROOT"),
            *("ASDF_DATA_DIR", "ASDF_DIR", "MISE_DATA_DIR", "GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT"),
            *("CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "NUGET_PACKAGES", "PLAYWRIGHT_BROWSERS_PATH"),
            *("PUPPETEER_CACHE_DIR", "PUPPETEER_EXECUTABLE_PATH", "CHROME_PATH"),
        ),
    ),
    Group(
        "container engines",
        (
            *("DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_TLS_VERIFY"),
            *("CONTAINER_CONNECTION", "CONTAINER_HOST"),
        ),
    ),
)
"""Every variable that a server is given where it is set; nothing beside them but its own, and the mark."""
MAX_SAID_CHARS: Final = 16384
"""Length of a value that a client tells: all of them together are one line on the daemon's socket."""
UNASKED: Final = tuple(dict.fromkeys(name for group in GROUPS for name in group.names))


def environment_of_client(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a client tells the daemon: of `UNASKED`, what is set, text, and not too long."""
    said = given_unasked(environ)
    return {name: value for name, value in said.items() if len(value) <= MAX_SAID_CHARS and is_text(value)}


def python_running(code: str, *arguments: str) -> list[str]:
    """The command of a Python that runs code of MCPX; its `sys.argv[2:]` are the arguments.

    Not `-m`, to find this very package wherever it is; not multiprocessing, which runs the main module.
    """
    code = f"import sys; sys.path.append(sys.argv[1]); {code}"
    return [sys.executable, "-P", "-c", code, _HOME, *arguments]


def is_text(value: str) -> bool:
    """Return True if a message can hold it: a variable, or the name of a file, may be no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def given_unasked(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those of `UNASKED` that are set, but for functions that bash has exported: code (bash(1))."""
    values = ((name, variables.get(name)) for name in UNASKED)
    return {name: value for name, value in values if value is not None and not value.startswith("()")}
