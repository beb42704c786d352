"""The configuration as frozen structs: what every other part of MCPX reads, and nothing more.

Owns, with `per_server` and `server_config`, the shapes, bounds, defaults and meanings of all settings, each
written once: the parser (`mcpx.core.config.settings`), the JSON Schema and the table in the documentation
read them. Made by `load` and `parse`, or by hand in a program or a test (which checks no bounds); immutable.
Durations are seconds.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from mcpx.core.config.per_server import Audit, Count, NonEmpty, PerServer, Seconds, SecondsOrNever, doc
from mcpx.core.config.profiles import Profile
from mcpx.core.config.server_config import PeerConfig, ServerConfig, TokenStoreKind
from mcpx.core.running import Environment
from mcpx.core.system.endpoint import PROJECT_VARIABLES
from mcpx.core.system.processes import processors

GIB: Final = 1 << 30
TOON_MAX_SIZE: Final = 2 << 20
"""Bytes as they come, with all escapes; very dense results have a bound of their own."""

PER_PROCESSOR: Final = 4  # servers that start at the same time
MIN_STARTING: Final = 4
MAX_STARTING: Final = 32

StructuredContent = Literal["auto", "always", "never"]
Tiers = Literal["auto", "on", "off"] | bool
ArgumentsForm = Literal["object", "string"]
Sanitize = Literal["auto", "on", "off"]
"""The schema of exec's `arguments`: an object with any members, or such an object as JSON in a string."""


class Replica(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The URL at which other replicas reach this one, and the secret that they share; without it, none do."""

    url: Annotated[
        str, doc("URL at which the other replicas reach this one, without a path: http://10.0.0.3:8765.")
    ] = ""
    secret: Annotated[
        str, doc("The secret that all replicas share, of 16 bytes or more: as ${VAR}, and not in the file.")
    ] = ""

    def __repr__(self) -> str:
        return f"Replica(url={self.url!r})"


class HttpGateway(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the HTTP side, and the `Host` and `Origin` values that it takes beside its own."""

    host: Annotated[NonEmpty, doc("Address to listen on; loopback unless you know better.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535), doc("Port to listen on; 0 takes any free one.")] = 8765
    allowed_hosts: Annotated[
        tuple[NonEmpty, ...], doc("Values of the Host header to accept beside its own address.")
    ] = ()
    allowed_origins: Annotated[
        tuple[NonEmpty, ...], doc("Values of the Origin header to accept, for browsers.")
    ] = ()
    max_connections: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        doc(
            "Connections served at a time; others wait. A client that listens for changes keeps one. Never"
            " more than a quarter of the file descriptors that the system grants."
        ),
    ] = 1024
    drain: Annotated[
        SecondsOrNever,
        doc(
            "Seconds after SIGTERM in which MCPX still serves requests, while /readyz answers 503, so that"
            " a load balancer sends no more; then shutdown_grace."
        ),
    ] = 0.0
    replica: Annotated[
        Replica, doc("This MCPX as one of several behind a load balancer; without it, one that stands alone.")
    ] = Replica()


class ClusterLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ray cluster whose nodes run the servers."""

    address: Annotated[
        NonEmpty, doc("HOST:PORT of Ray's GCS; auto: the cluster that this machine is a node of.")
    ] = "auto"
    allow_open: Annotated[
        bool, doc("Join a cluster without token authentication, where whoever reaches Ray can do anything.")
    ] = False


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that are given once, at the top level of the file."""

    schema_compression_enabled: Annotated[
        bool, doc("Show input schemas as TypeScript types; false shows JSON Schema.")
    ] = True
    max_description_len: Annotated[
        Count, doc("Characters of a parameter's description in the TypeScript form.")
    ] = 300
    toon_compression_enabled: Annotated[
        bool, doc("Show JSON results as compact JSON, or as TOON if that is smaller; false: unchanged.")
    ] = True
    toon_compression_min_saving: Annotated[
        float,
        Meta(ge=0, le=1),
        doc(
            "Share of the tokens of compact JSON that TOON must save to be used: 0 uses it whenever it is"
            " smaller, 1 never."
        ),
    ] = 0.15
    toon_compression_min_size: Annotated[
        int, Meta(ge=0, le=GIB), doc("Results of fewer characters than this pass unchanged.")
    ] = 0
    toon_compression_max_size: Annotated[
        int,
        Meta(ge=0, le=GIB),
        doc(
            "Results of more bytes than this pass unchanged, and have no structuredContent except the"
            " server's own, because parsing them would delay other calls."
        ),
    ] = TOON_MAX_SIZE
    catalog_token_budget: Annotated[
        Count,
        doc("Tokens that the instructions and the three descriptions may take, with all lists in them."),
    ] = 4000
    search_history: Annotated[
        bool,
        doc(
            "Whether a search also names tools that you used after searches with similar words. The state"
            " folder keeps the known words of searches and the names of tools for this, and nothing else."
            " Turning it off deletes them."
        ),
    ] = False
    include_structured_content: Annotated[
        StructuredContent,
        doc(
            "Whether results carry structuredContent. auto: except for clients that show it to the model"
            " instead of the content, which would cancel the saving."
        ),
    ] = "auto"
    startup_wait: Annotated[
        Seconds, doc("Seconds to wait for the servers before the first list of tools is sent.")
    ] = 3.0
    shutdown_grace: Annotated[
        Seconds, doc("Seconds that calls in flight may take to finish at shutdown.")
    ] = 5.0
    idle_exit: Annotated[
        SecondsOrNever,
        doc(
            "Seconds without a client or a call after which the daemon ends; the next client starts it again."
            " 0 is never."
        ),
    ] = 0.0
    max_starting: Annotated[
        int,
        Meta(ge=0, le=1_000_000),
        doc(
            "Servers that start at the same time on this machine; 0: four for each processor, from 4 to 32."
            " Servers on nodes and at other MCPX do not count."
        ),
    ] = 0
    max_message_bytes: Annotated[
        int, Meta(ge=1024, le=GIB), doc("Bytes of the largest message accepted from a server.")
    ] = 64 << 20
    cache_bytes: Annotated[
        int,
        Meta(ge=1024, le=GIB),
        doc(
            "Bytes for the results that cache keeps, for all servers together; the least recently used are"
            " discarded first. A result larger than a quarter of this is not kept."
        ),
    ] = 32 << 20
    env_file: Annotated[
        str | tuple[NonEmpty, ...],
        doc(
            "A file, or a list of files, in the form of .env: a source for ${VAR} in all entries, before"
            " the environment. A server gets only the variables that its entry names. A relative path starts"
            " at this file's folder."
        ),
    ] = ()
    forward_env: Annotated[
        tuple[NonEmpty, ...],
        doc(
            "Variables of a client's environment that are passed on, by patterns of their names. They"
            " identify the client's project, and servers with a session for each client or project get them."
        ),
    ] = PROJECT_VARIABLES
    login_shell: Annotated[
        bool,
        doc(
            "Whether PATH and ${VAR} are read from your login shell, which is asked once, at the start."
            " false: only from the program that started MCPX."
        ),
    ] = True
    watch_config: Annotated[
        bool,
        doc(
            "Whether MCPX rereads the file automatically when it has changed, like mcpx reload: half a"
            " second after the last write. A file that cannot be used changes nothing."
        ),
    ] = True
    login_port: Annotated[
        int,
        Meta(ge=1, le=65535),
        doc("Port of 127.0.0.1 that the browser returns to after a sign-in; the next free one if taken."),
    ] = 8767
    login_timeout: Annotated[Seconds, doc("Seconds that you may take to sign in.")] = 300.0
    token_store: Annotated[
        TokenStoreKind,
        doc(
            "Where the tokens of sign-ins are kept. file: in the state folder, in files that only you can"
            " read. keychain: in the system's keychain, through keyring."
        ),
    ] = "file"  # noqa: S105 - a kind of store
    approve_timeout: Annotated[
        Seconds, doc("Seconds that you may take to agree to a call, or to open a link, before it fails.")
    ] = 120.0
    tiers: Annotated[
        Tiers,
        doc(
            "Whether clients get a fourth tool, query, which runs only read-only tools, so that a client"
            " can run its calls in parallel and without asking, and ask before exec. auto: clients that are"
            " known to act on annotations; on or true: all; off or false: none."
        ),
    ] = "auto"
    exec_arguments: Annotated[
        Literal["auto", ArgumentsForm],
        doc(
            "The form of exec's arguments parameter: an object, or a string that contains an object as"
            " JSON, which strict schemas and Gemini accept. auto: the form that the client is known to need."
            " MCPX always reads both."
        ),
    ] = "auto"
    sanitize: Annotated[
        Sanitize,
        doc(
            "Whether native tools (expose, pinned) are shown in forms that hosts accept: schemas without"
            " the parts for which a host refuses a tool, and descriptions within its limits. auto: what each"
            " client is known to need; on: all clients, and a strict form for clients that take exec's"
            " arguments as a string; off: none."
        ),
    ] = "auto"
    audit: Annotated[
        Audit,
        doc(
            "The audit log of all calls: on, with the names of arguments; full, with their values, except"
            " the secrets that MCPX knows; off."
        ),
    ] = "on"
    audit_required: Annotated[
        bool, doc("Whether a call that cannot be written to the audit log is refused.")
    ] = False
    http: Annotated[
        HttpGateway, doc("The HTTP endpoints. With this object, even empty, the daemon serves HTTP as well.")
    ] = HttpGateway()
    cluster: Annotated[
        ClusterLink | None,
        doc(
            "The Ray cluster whose nodes run the servers; mcpx cluster start sets it as well. Takes effect"
            " with the next start."
        ),
    ] = None
    ui: Annotated[
        bool, doc("Whether mcpx ui opens the daemon's page in the browser, on this computer only.")
    ] = True
    profiles: Annotated[
        dict[str, Profile],
        doc(
            "Profiles by name: what a client sees that asks for one (mcpx attach --profile NAME, /mcp/NAME"
            " over HTTP)."
        ),
    ] = {}


class Config(Settings, frozen=True, kw_only=True):
    """A whole configuration. `servers` is in the order of the file; `source` is the file as shown to users.

    `peers` are the entries of other MCPX. Their servers are among `servers` once they are known.

    `notices` are one-line remarks for the log: keys that have no effect, likely misspellings.
    `http_served` is whether the file has an `http` object: then the daemon serves HTTP beside its socket.
    `common` are the settings for all servers, for those that the files of projects name.
    `digest` is that of its text in this process; None for one that was made by a program.
    `environment` is what the entries were read against, and what servers are started in; None stands for
    that of this process.
    """

    source: str
    servers: dict[str, ServerConfig]
    peers: dict[str, PeerConfig] = {}
    notices: tuple[str, ...] = ()
    http_served: bool = False
    digest: int | None = None
    common: PerServer = PerServer()
    environment: Environment | None = None

    def server_named(self, name: str) -> str:
        """The name of the server that has this name or alias; the name as it is where none has."""
        if name in self.servers:
            return name
        return next((own for own, each in self.servers.items() if name in each.aliases), name)


def starting_limit(settings: Settings) -> int:
    """Return how many servers may start at the same time: as configured, or as suits the processors.

    A start keeps a processor busy for most of its time, so that more at once make none sooner; a few more
    than there are processors use the time in which some wait for files or the network.
    """
    suits = min(max(MIN_STARTING, int(PER_PROCESSOR * processors())), MAX_STARTING)
    return settings.max_starting or suits
