"""How a server is reached, as frozen structs: a child process here or on a node of a cluster, or a URL.

Made by `mcpx.core.config.transport` of the keys of an entry, or by hand; immutable. The `repr` of a transport
leaves out the values that may be secrets, so that a config can be logged.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from mcpx.core.config.auth import OAuth, Tls
from mcpx.core.config.place import Place
from mcpx.core.config.trust import ProcessLimits


class Stdio(msgspec.Struct, frozen=True, kw_only=True, tag="stdio"):
    """A server as a child process. `env` is added to what children inherit; `cwd` is absolute or `None`.

    `limits` are those of the server's `quota`, for itself and for what it starts.
    """

    kind: ClassVar[Literal["stdio"]] = "stdio"

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    limits: ProcessLimits = ProcessLimits()

    def __repr__(self) -> str:
        hidden = f"args={len(self.args)}, env={sorted(self.env)}"
        return f"Stdio(command={self.command!r}, {hidden}, cwd={self.cwd!r})"


class Http(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """A server behind Streamable HTTP. `headers` go with every request.

    `auth` says how MCPX signs in where the server wants that; None: not at all.
    """

    kind: ClassVar[Literal["http"]] = "http"

    url: str
    headers: dict[str, str] = {}
    auth: OAuth | None = OAuth()
    tls: Tls | None = None

    def __repr__(self) -> str:
        return f"Http(headers={sorted(self.headers)})"


class Sse(msgspec.Struct, frozen=True, kw_only=True, tag="sse"):
    """A server behind the older HTTP+SSE transport. `headers` go with every request.

    `auth` says how MCPX signs in where the server wants that; None: not at all.
    """

    kind: ClassVar[Literal["sse"]] = "sse"

    url: str
    headers: dict[str, str] = {}
    auth: OAuth | None = OAuth()
    tls: Tls | None = None

    def __repr__(self) -> str:
        return f"Sse(headers={sorted(self.headers)})"


class Placed(msgspec.Struct, frozen=True, kw_only=True, tag="placed"):
    """A server as a child process on a node of a cluster, which `place` describes.

    No entry says this: `mcpx.cluster` makes it of one that has a command.
    """

    kind: ClassVar[Literal["placed"]] = "placed"

    stdio: Stdio
    place: Place


Transport = Stdio | Http | Sse | Placed


def command_of(transport: Transport) -> Stdio | None:
    """The child process that a server is, here or on a node; None for one that is reached by a URL."""
    if isinstance(transport, Placed):
        return transport.stdio
    return transport if isinstance(transport, Stdio) else None
