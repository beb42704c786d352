"""The protocol between a gateway and a node: frozen structs, one to a line of JSON.

A gateway connects over TLS, to the certificate that it knows, and says one line first: a `Hello`, with the
token of the cluster. What follows depends on what it asks:

- `Attach`: the node answers `Accepted`, and from then on the connection is an MCP client at the node's
endpoint
  for that server, which the node has run if it does not know it yet. Equal specs of any number of gateways
  are one server; the digest of the spec tells them apart from others of the same name.
- `Watch`: the node sends `Report`s, at once and every second, and a `Pong` for each `Ping`, at once.
- `Release`, `Restart`, `Logs`, `Stop`: the node answers `Accepted` or `Tail`, and closes the connection.

Where something cannot be done, or the token is wrong, the answer is a `Refused`, and that is the end of it.
Lines end with a newline; the gateway says nothing more before it has the answer. A node that does not get a
whole hello in time, or too long a one, closes the connection without a word.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from mcpx.cluster.node.spec import ServerSpec
from mcpx.cluster.node.starting import Name
from mcpx.core.config.per_server import Sessions

MAX_HELLO_BYTES: Final = 4 << 20  # arguments and environment of a server; the kernel takes 2 MB of both
MAX_REPORT_BYTES: Final = 64 << 20  # 100,000 servers
MAX_LOG_LINES: Final = 10_000
MAX_LOG_BYTES: Final = 4 << 20


# --- what a gateway says first


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """The base of every first line: the token of the cluster, and `"mcpx": "node"`."""

    token: str
    mcpx: Literal["node"] = "node"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Attach(Hello, frozen=True, kw_only=True, tag="attach"):
    """Be a client of that server. `client` is the gateway's id, for the log.

    `memory` are the bytes that one session with it has been seen to take, 0 where it is not known. A node
    that has not so much left refuses it (`memory`), as it does when it has too many connections (`full`).
    """

    server: ServerSpec
    memory: Annotated[int, Meta(ge=0, le=1 << 50)] = 0
    client: Annotated[str, Meta(max_length=1024)] = ""


class Watch(Hello, frozen=True, kw_only=True, tag="watch"):
    """Be told how the node is, until one of both closes the connection."""


class Release(Hello, frozen=True, kw_only=True, tag="release"):
    """The gateway does not need that server here any more: end it once nobody uses it, without lingering."""

    server: Name
    digest: str


class Restart(Hello, frozen=True, kw_only=True, tag="restart"):
    """Start that server again; connections stay. The answer comes when it is ready, or has failed."""

    server: Name
    digest: str


class Logs(Hello, frozen=True, kw_only=True, tag="logs"):
    """The last lines that the server has written to standard error. The answer is a `Tail`."""

    server: Name
    digest: str
    lines: Annotated[int, Meta(ge=1, le=MAX_LOG_LINES)] = 100


class Stop(Hello, frozen=True, kw_only=True, tag="stop"):
    """End the node in order, with all its servers."""


FirstLine = Attach | Watch | Release | Restart | Logs | Stop


# --- what a node answers


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """It is done; after `Attach`, the next byte belongs to MCP.

    `digest` is that of the server as the node understood it: what `Report` names it by, and `Release`,
    `Restart` and `Logs` want.
    """

    ok: Literal[True] = True
    digest: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason why it cannot be done, for people; `token`: the token is not that of the cluster."""

    error: str
    code: Literal["", "token", "full", "memory", "unknown_server", "invalid", "stopping"] = ""


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The last lines of a server's standard error, the oldest first."""

    log: tuple[str, ...]
    ok: Literal[True] = True


class Ping(msgspec.Struct, frozen=True):
    """A line on a `Watch`, which is answered with a `Pong` of the same number, at once."""

    ping: int


class Pong(msgspec.Struct, frozen=True):
    """The answer to a `Ping`."""

    pong: int


class ServerReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server of a node. `connections` are those of gateways; `processes` those that were looked at.

    `memory_bytes` is of all its processes together, with what they have started; `cpu` their share of one
    core in the last second or so. `state`, `failures` and the like are those of `mcpx status`.
    """

    name: str
    digest: str
    sessions: Sessions = "shared"
    state: str
    pid: int | None = None
    connections: int = 0
    processes: int = 0
    memory_bytes: int | None = None
    cpu: float | None = None
    uptime_s: float | None = None
    calls: int = 0
    errors: int = 0
    in_flight: int = 0
    queued: int = 0
    restarts: int = 0
    failures: int = 0
    last_error: str | None = None
    next_attempt_in_s: float | None = None


class NodeReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node: its process, its machine, and its servers.

    `connections` are those of clients of servers. `memory_bytes` and `memory_free_bytes` are those of the
    machine or of the container, whichever has less; `load` is that of the last minute; `cpu` the node
    process's own share of one core.
    """

    name: str
    pid: int
    version: str
    uptime_s: float
    connections: int
    servers: tuple[ServerReport, ...] = ()
    cpus: int = 1
    cpu: float | None = None
    load: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    own_memory_bytes: int | None = None
    descriptors: int | None = None
    max_descriptors: int | None = None
    stopping: bool = False


class Report(msgspec.Struct, frozen=True):
    """The state of a node, on a `Watch`: all of it, each time."""

    node: NodeReport


class WatchLine(msgspec.Struct, frozen=True):
    """Any line of a node on a `Watch`, for its reader: a `Report`, a `Pong` or a `Refused`."""

    node: NodeReport | None = None
    pong: int | None = None
    error: str | None = None
    code: str = ""


class FirstAnswer(msgspec.Struct, frozen=True):
    """Any answer to a hello but a `Watch`, for its reader: `Accepted`, `Refused` or `Tail`."""

    ok: bool = False
    digest: str = ""
    log: tuple[str, ...] = ()
    error: str | None = None
    code: str = ""


def line_of(message: Any) -> bytes:
    """Any of these as a line."""
    return msgspec.json.encode(message) + b"\n"
