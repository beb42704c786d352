"""What a gateway and a node say to each other, and what starts a node: all of it frozen structs.

A gateway connects over TLS, to the certificate that it knows, and says one line first: a `Hello`, with the
token of the cluster. What follows depends on what it asks:

- `Attach`: the node answers `Accepted`, and from then on the connection is an MCP client at the node's door
  for that server, which the node has run if it does not know it yet. Equal specs of any number of gateways
  are one server; the digest of the spec tells them apart from others of the same name.
- `Watch`: the node sends `Report`s, at once and every second, and a `Pong` for each `Ping`, at once.
- `Release`, `Restart`, `Logs`, `Stop`: the node answers `Accepted` or `Tail`, and closes the connection.

Where something cannot be done, the answer is a `Refused`, and the connection is closed. Lines end with a
newline. A node that does not get a whole hello within `HELLO_TIMEOUT_S` closes the connection without a word,
and so it does for a wrong token, after an answer that says so.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from mcpx.config import CallLimits, HealthCheck, RestartPolicy, ServerConfig, Stdio, Variables
from mcpx.config.per_server import Era, Sessions
from mcpx.config.trust import ProcessLimits

MAX_HELLO_BYTES: Final = 4 << 20  # arguments and environment of a server; the kernel takes 2 MB of both
MAX_REPORT_BYTES: Final = 64 << 20  # 100,000 servers
MAX_LOG_LINES: Final = 10_000
MAX_LOG_BYTES: Final = 4 << 20
HELLO_TIMEOUT_S: Final = 5.0
REPORT_INTERVAL_S: Final = 1.0
LINGER_S: Final = 120.0  # for a server that nobody uses: a gateway that is started again finds it running

Name = Annotated[str, Meta(min_length=1, max_length=1024)]


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as a node needs to know it: how it is started, and how it is treated.

    Everything is resolved: no `${VAR}` is left. `secrets` are the variables (name, value) that are kept out
    of the node's log. Rules, pins and the like are the gateway's.
    """

    name: Name
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    limits: ProcessLimits = ProcessLimits()
    sessions: Sessions = "shared"
    era: Literal["auto"] | Era = "auto"
    call_limits: CallLimits = CallLimits()
    health: HealthCheck = HealthCheck()
    restart: RestartPolicy = RestartPolicy()
    secrets: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ServerSpec(name={self.name!r}, sessions={self.sessions!r})"

    @property
    def digest(self) -> str:
        """What tells it apart from others of its name, in hexadecimal. Nothing can be read out of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


def spec_of(server: ServerConfig, stdio: Stdio) -> ServerSpec:
    """The spec of a server that is started by that command."""
    return ServerSpec(
        name=server.name,
        command=stdio.command,
        args=stdio.args,
        env=stdio.env,
        cwd=stdio.cwd,
        limits=stdio.limits,
        sessions=server.sessions,
        era=server.era,
        call_limits=server.call_limits,
        health=server.health,
        restart=server.restart,
        secrets=server.variables.values,
    )


def server_of(spec: ServerSpec, name: str) -> ServerConfig:
    """The server that a node runs under that name.

    It shows everything and asks nobody: rules, pins, questions and budgets hold at the gateway. A server that
    all share is started with its first client; one that each client has alone, once to list it.
    """
    return ServerConfig(
        name=name,
        transport=Stdio(command=spec.command, args=spec.args, env=spec.env, cwd=spec.cwd, limits=spec.limits),
        sessions=spec.sessions,
        era=spec.era,
        call_limits=spec.call_limits,
        health=spec.health,
        restart=spec.restart,
        variables=Variables(spec.secrets),
        start="eager" if spec.sessions == "shared" else "auto",
        auto_describe=False,
        result_token_budget=0,
        pin="off",
    )


# --- what a gateway says first


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """What every first line has: the token of the cluster, and `"mcpx": "node"`."""

    token: str
    mcpx: Literal["node"] = "node"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Attach(Hello, frozen=True, kw_only=True, tag="attach"):
    """Be a client of that server. `client` is the gateway's id, for the log."""

    server: ServerSpec
    client: Annotated[str, Meta(max_length=1024)] = ""


class Watch(Hello, frozen=True, kw_only=True, tag="watch"):
    """Be told how the node is, until one of both closes the connection."""


class Release(Hello, frozen=True, kw_only=True, tag="release"):
    """The gateway does not need that server here any more: end it once nobody uses it, without `LINGER_S`."""

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
    """Why it cannot be done, for people; `token` says that the token is not that of the cluster."""

    error: str
    code: Literal["", "token", "full", "unknown_server", "invalid", "stopping"] = ""


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
    """How a node is, on a `Watch`: all of it, each time."""

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


# --- what starts a node


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node works; the defaults will do."""

    max_message_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 64 << 20
    shutdown_grace_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    linger_s: Annotated[float, Meta(ge=0, le=86_400)] = LINGER_S
    hello_timeout_s: Annotated[float, Meta(gt=0, le=60)] = HELLO_TIMEOUT_S
    report_interval_s: Annotated[float, Meta(gt=0, le=60)] = REPORT_INTERVAL_S


class NodeStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one line on a node's standard input, which then stays open: its end is the end of the node.

    `host` is the address to listen on, `certificate` and `key` are PEM, `state` is the folder of this node
    alone, which is made.
    """

    name: Name
    host: str
    token: Annotated[str, Meta(min_length=16)]
    certificate: str
    key: str
    state: str
    settings: NodeSettings = NodeSettings()

    def __repr__(self) -> str:
        return f"NodeStart(name={self.name!r}, host={self.host!r}, state={self.state!r})"


class NodeReady(msgspec.Struct, frozen=True, kw_only=True):
    """The one line on a node's standard output, once it listens; or `error`, and then it ends."""

    host: str = ""
    port: int = 0
    pid: int = 0
    version: str = ""
    error: str | None = None


def line_of(message: Any) -> bytes:
    """Any of these as a line."""
    return msgspec.json.encode(message) + b"\n"
