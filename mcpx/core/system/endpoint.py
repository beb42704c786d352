"""Endpoints, which clients attach to, and the words on the daemon's socket before MCP.

Every frontend gives each of its clients an `Endpoint`: from the command line (`mcpx attach`, `mcpx serve`),
the greeting on the daemon's socket, or the URL over HTTP. A connection to that socket is an MCP client's, or
begins with a control request: one line of JSON whose first key is `mcpx`
(`mcpx.core.gateway.frontends.control` lists them). Standard library and msgspec only, for `mcpx attach`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from mcpx.core.system.environment import is_text
from mcpx.core.system.linux import folder_of_program

Expose = Literal["three", "all", "both"]
"""How tools are shown: by the three tools, each under its own name, or both."""
EXPOSURES: Final[tuple[Expose, ...]] = ("three", "all", "both")


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way in. `expose` is the client's own choice, None for what the configuration says.

    With `server` the endpoint is transparent: it shows that server alone, as it is. Any other endpoint shows
    all servers, or those of a `profile` of the configuration, or those named in `only` (sorted, each once),
    or with both those that are in both (`mcpx.core.policy.profiles`).

    With `project` it shows beside them the servers that the files of that folder name.

    With `peer` the client is another MCPX, which is given that server to offer as one of its own
    (`mcpx.core.gateway.peer`).
    """

    expose: Expose | None = None
    server: str | None = None
    only: tuple[str, ...] | None = None
    profile: str | None = None
    peer: str | None = None
    project: str | None = None

    @property
    def alone(self) -> str | None:
        """The one server that it gives under its own names, as it is or to another MCPX; None where it shows
        servers by those of MCPX.
        """
        return self.peer if self.server is None else self.server

    @property
    def shows_all(self) -> bool:
        """True if its clients see every server."""
        return not any((self.server, self.only is not None, self.profile, self.peer, self.project))


DEFAULT_ENDPOINT: Final = Endpoint()


def only_of(lists: Iterable[str]) -> tuple[str, ...]:
    """The servers named in lists such as `git,linear`, as `Endpoint.only` has them."""
    return tuple(sorted({name for each in lists for name in map(str.strip, each.split(",")) if name}))


# --- the words on the daemon's socket before MCP, for the shim, the command line and the gateway

CONTROL_PREFIX: Final = b'{"mcpx"'
"""How a connection begins that makes a control request."""
PROGRESS_PREFIX: Final = b'{"progress"'
"""How a line begins that comes before the response to a control request."""
LIMIT_KEY: Final = "max_message_bytes"
"""In the answer to the greeting: the longest line that the daemon takes."""
SETTLED_KEY: Final = "mcpx/settled"
"""In the `_meta` of a list: answer in one page, and if it is true, when every server is ready, asleep, or has
failed once. The shim asks for that when it compares the daemon's lists with those that its client has."""

COUNTED_KEY: Final = "mcpx/counted"
"""Beside it: whether a daemon has counted the list that the client has, so that the next one does not. Where
it is false, the client has read what the shim remembers of an earlier daemon."""
FRESH_KEY: Final = "mcpx/fresh"
"""Set in `_meta` of a call that no result may answer which was kept of an earlier one."""
CACHED_KEY: Final = "mcpx/cached"
"""The member of a result's `_meta` that says it was kept, and for how long: `{"age_s": 12}`."""
PROBE_KEY: Final = "mcpx/probe"
"""In the `_meta` of `initialize`: MCPX itself asks, in a client's name, to see what that client would see.
It is no client: nothing is counted for it, and nothing of it is remembered."""


WANTED_KEY: Final = "wanted"
"""In the answer to the greeting: patterns of further variables that the daemon wants to know before."""


class Surroundings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The surroundings of a client, as its shim has them from it.

    `folder` is the one in which it was started, `program` that of its own executable, as far as it is known.
    `variables` are those of its environment that the daemon may know. `told_all` says that it was asked for
    them by the answer to a first greeting; None that it cannot be.
    """

    folder: str = ""
    program: str = ""
    variables: dict[str, str] = {}
    told_all: bool | None = None


PROJECT_VARIABLES: Final = (
    "CLAUDE_PROJECT_DIR",  # Claude Code; Gemini CLI and others beside their own
    "WORKSPACE_FOLDER_PATHS",  # Cursor
    "GEMINI_PROJECT_DIR",
    "QWEN_PROJECT_DIR",
    "CODEX_PROJECT_DIR",
    "FACTORY_PROJECT_DIR",
)
"""Variables by which clients say the project that they work in, the surest first."""
MAX_FOLDER_BYTES: Final = 4096
MAX_VARIABLES_BYTES: Final = 16384
"""Of the names and values that a shim sends; what is over it is left out."""


def surroundings(patterns: Collection[str] = (), *, told_all: bool = False) -> Surroundings:
    """The surroundings of the client that has started this process, with variables that fit `patterns`."""
    chosen = list(PROJECT_VARIABLES)
    chosen += [name for name in os.environ if any(fnmatchcase(name, each) for each in patterns)]
    variables, room = {}, MAX_VARIABLES_BYTES
    for name in chosen:
        value = os.environ.get(name)
        if value is not None and name not in variables and is_text(name + value):
            room -= len(name.encode()) + len(value.encode())
            if room >= 0:
                variables[name] = value
    return Surroundings(_folder(os.getcwd), _folder(_program), variables, told_all)


def _program() -> str:
    """The folder of the executable that has started this process; Linux alone tells."""
    return folder_of_program(os.getppid())


def _folder(find: Callable[[], str]) -> str:
    try:
        found = find()
    except OSError:  # it was removed, or is of another user
        return ""
    return found if is_text(found) and len(found.encode()) <= MAX_FOLDER_BYTES else ""


def greeting(endpoint: Endpoint, about: Surroundings | None = None, **more: object) -> bytes:
    """The shim's control request: once answered, the connection is an MCP client's, at that endpoint.

    `about` is what it says of the client beside, and `more` are further members: its `environment`.
    """
    client = {} if about is None else msgspec.to_builtins(about)
    return msgspec.json.encode({"mcpx": "attach", **msgspec.to_builtins(endpoint), **client, **more}) + b"\n"
