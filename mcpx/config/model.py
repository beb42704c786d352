"""The configuration as frozen structs: what every other part of MCPX reads, and nothing more.

Owns the shapes and the defaults. Made by `mcpx.config.load` and `parse`, or by hand in a program or a test;
never changed after. Every default is written here once: the JSON Schema and the settings table read it.

Durations are seconds. The `repr` of a transport leaves out the values that may be secrets, so that a config
can be logged.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

TOON_MAX_SIZE = (
    2 * 1024 * 1024
)  # bytes as they come, with all escapes; very dense ones have a bound of their own
StructuredContent = Literal["auto", "always", "never"]
Sessions = Literal["shared", "per_client"]


class Stdio(msgspec.Struct, frozen=True, kw_only=True, tag="stdio"):
    """A server as a child process. `env` is added to what children inherit; `cwd` is absolute or `None`."""

    kind: ClassVar[Literal["stdio"]] = "stdio"

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None

    def __repr__(self) -> str:
        hidden = f"args={len(self.args)}, env={sorted(self.env)}"
        return f"Stdio(command={self.command!r}, {hidden}, cwd={self.cwd!r})"


class Http(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """A server behind Streamable HTTP. `headers` go with every request."""

    kind: ClassVar[Literal["http"]] = "http"

    url: str
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Http(headers={sorted(self.headers)})"


class Sse(msgspec.Struct, frozen=True, kw_only=True, tag="sse"):
    """A server behind the older HTTP+SSE transport. `headers` go with every request."""

    kind: ClassVar[Literal["sse"]] = "sse"

    url: str
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Sse(headers={sorted(self.headers)})"


Transport = Stdio | Http | Sse


class Variables(msgspec.Struct, frozen=True, eq=False):
    """The variables that an entry holds, `(name, value)` each, so that they can be kept out of what is shown.

    Any two are equal: what they mean for the server is in its transport.
    """

    values: tuple[tuple[str, str], ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variables)

    def __hash__(self) -> int:
        return hash(Variables)

    def __repr__(self) -> str:
        return f"Variables({sorted({name for name, _ in self.values})})"


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a server that failed is started again; seconds, and `park_after` in consecutive failures."""

    initial: float = 0.5
    cap: float = 60.0
    healthy_after: float = 30.0
    park_after: int = 8
    park_probe: float = 300.0


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How an idle session is probed; seconds, and `failure_threshold` in consecutive misses."""

    enabled: bool = True
    interval: float = 30.0
    timeout: float = 5.0
    failure_threshold: int = 2


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one server may cost its callers: seconds to wait, calls to hold and to have in flight."""

    connect_timeout: float = 60.0
    call_timeout: float = 300.0
    queue_timeout: float = 15.0
    queue_size: int = 256
    max_concurrency: int = 64


class PerServer(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that can be given for all servers and, again, for one."""

    limits: Limits = Limits()
    health: HealthCheck = HealthCheck()
    restart: RestartPolicy = RestartPolicy()
    auto_describe: bool = True
    sessions: Sessions = "shared"
    native: bool = True


class ServerConfig(PerServer, frozen=True, kw_only=True):
    """One upstream server. `disabled` is the reason why it must not be started, or `None`.

    The transport of a disabled server may still hold `${VAR}` as written.
    """

    name: str
    transport: Transport
    disabled: str | None = None
    variables: Variables = Variables()


class HttpGateway(msgspec.Struct, frozen=True, kw_only=True):
    """Where the HTTP side listens, and which `Host` and `Origin` values it takes beside its own."""

    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration. `servers` is in the order of the file; `source` is the file as shown to users.

    `notices` are one-line remarks for the log: keys that have no effect, likely misspellings.
    `http_served` is whether the file has an `http` object: then the daemon serves HTTP beside its socket.
    `max_description_len` and `toon_compression_min_size` are characters, `toon_compression_max_size` and
    `max_message_bytes` are bytes.
    """

    source: str
    servers: dict[str, ServerConfig]
    notices: tuple[str, ...] = ()
    schema_compression_enabled: bool = True
    max_description_len: int = 300
    toon_compression_enabled: bool = True
    toon_compression_min_size: int = 0
    toon_compression_max_size: int = TOON_MAX_SIZE
    catalog_token_budget: int = 4000
    include_structured_content: StructuredContent = "auto"
    startup_wait: float = 3.0
    shutdown_grace: float = 5.0
    max_starting: int = 8
    max_message_bytes: int = 64 * 1024 * 1024
    http: HttpGateway = HttpGateway()
    http_served: bool = False
