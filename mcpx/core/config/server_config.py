"""One server as frozen structs: how it is reached and signed in to, and the settings that are its own.

Made by `mcpx.core.config.servers` of the keys of an entry, or by hand; immutable. The `repr` of a transport
leaves out the values that may be secrets, so that a config can be logged.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mcpx.core.config.document import Location
from mcpx.core.config.per_server import NonEmpty, Patterns, PerServer, Place, ProcessLimits, doc
from mcpx.core.config.urls import PORT, with_port
from mcpx.core.running.inherited import Inherit

# --- credentials


Grant = Literal["authorization_code", "client_credentials"]
TokenAuth = Literal["none", "client_secret_basic", "client_secret_post"]
SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, section 3.3
CallbackHost = Literal["127.0.0.1", "localhost"]
TokenStoreKind = Literal["file", "keychain"]


class OAuth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sign-in to a server that answers 401. Nothing is needed for most servers: they say the rest.

    With `grant: client_credentials` no person is asked: MCPX signs in with the client's own secret, or with
    an assertion that it signs with `private_key` (RFC 7523).
    """

    client_id: Annotated[
        NonEmpty | None,
        doc("The client that is registered at the authorization server; left out, MCPX registers itself."),
    ] = None
    client_secret: Annotated[NonEmpty | None, doc("Its secret, best as ${keychain:NAME}.")] = None
    client_metadata_url: Annotated[
        NonEmpty | None,
        doc("https URL of a client metadata document of yours, where the server takes such as a client."),
    ] = None
    scopes: Annotated[
        tuple[NonEmpty, ...],
        doc("Scopes to ask for, as a list or in one string; left out, those that the server names."),
    ] = ()
    grant: Annotated[
        Grant,
        doc("authorization_code: a person signs in. client_credentials: the client does, without a person."),
    ] = "authorization_code"
    private_key: Annotated[
        NonEmpty | None,
        doc("PEM of the key that signs the client's assertions, or the path of a file that holds it."),
    ] = None
    """The PEM text, once it is read."""
    algorithm: Annotated[
        NonEmpty, doc("Algorithm of that signature: RS256, PS256, ES256 and their kin, or EdDSA.")
    ] = "RS256"
    issuer: Annotated[
        NonEmpty | None,
        doc("Issuer of the authorization server that the client belongs to; no other gets its secret."),
    ] = None
    token_auth: Annotated[
        TokenAuth | None, doc("How the client shows its secret; left out, client_secret_basic.")
    ] = None
    resource: Annotated[
        bool, doc("Whether the token is asked for this server alone (RFC 8707); some servers refuse that.")
    ] = True
    callback_port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        doc("Port of 127.0.0.1 that the browser returns to; left out, login_port."),
    ] = None
    callback_host: Annotated[
        CallbackHost, doc("How that address calls this computer: as the client is registered.")
    ] = "127.0.0.1"

    def __repr__(self) -> str:
        return f"OAuth(grant={self.grant!r}, client_id={self.client_id!r})"


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The certificates of a connection: paths of PEM files, absolute once they are read."""

    cert: Annotated[NonEmpty | None, doc("The client's certificate, with its chain.")] = None
    key: Annotated[NonEmpty | None, doc("Its key, where that is not in the same file.")] = None
    ca: Annotated[NonEmpty | None, doc("Certificates to trust in place of the system's.")] = None


# --- tools as they are shown


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another form for one tool of a server."""

    name: Annotated[
        NonEmpty | None,
        doc("Name that clients know it by. The server's own name finds it no more, but in rules."),
    ] = None
    description: Annotated[str | None, doc("Description in place of the server's.")] = None
    defaults: Annotated[
        dict[NonEmpty, Any],
        doc("Values of arguments that a call leaves out, by their names; they are shown in the schema."),
    ] = {}
    fixed: Annotated[
        dict[NonEmpty, Any],
        doc(
            "Arguments that no client sees or gives, with the values that the server gets. References in"
            " strings are expanded, ${project} to the project of the client that calls."
        ),
    ] = {}
    """Each string with references as a `Filled`, once it is read."""
    hidden: Annotated[
        Patterns, doc("Arguments that no client sees or gives, and that the server is not given either.")
    ] = ()


class Filled(msgspec.Struct, frozen=True):
    """A string with the values of its references, but for `${project}`, which is filled in for each call.

    `secrets` are the names of the others with their values; `problem` is why one has none.
    """

    text: str
    secrets: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    def __repr__(self) -> str:
        return f"Filled({sorted({name for name, _ in self.secrets})})"


Overrides = dict[str, Override]
"""By the server's own names of tools."""


# --- transports


class Stdio(msgspec.Struct, frozen=True, kw_only=True, tag="stdio"):
    """A server as a child process. `env` is added to what children inherit; `cwd` is absolute or `None`.

    `limits` are those of the server's `quota`, for itself and for what it starts; `inherit` is its setting.
    """

    kind: ClassVar[Literal["stdio"]] = "stdio"

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    limits: ProcessLimits = ProcessLimits()
    inherit: Inherit = ()

    def __repr__(self) -> str:
        hidden = f"args={len(self.args)}, env={sorted(self.env)}"
        return f"Stdio(command={self.command!r}, {hidden}, cwd={self.cwd!r})"

    @property
    def program(self) -> Stdio:
        """The program that MCPX starts for the server."""
        return self


class _Remote(msgspec.Struct, frozen=True, kw_only=True):
    """A server behind HTTP. `headers` go with every request.

    `auth` says how MCPX signs in where the server wants that; None: not at all. `program` is what MCPX starts
    and keeps running, where the entry says that as well; the server is behind the URL once it listens there.
    """

    url: str
    headers: dict[str, str] = {}
    auth: OAuth | None = OAuth()
    tls: Tls | None = None
    program: Stdio | None = None

    @property
    def names_port(self) -> bool:
        """True if MCPX chooses the port, so that the program can run more than once."""
        return PORT in self.url

    def on_port(self, port: int) -> Self:
        """The transport with that port filled in."""
        program = self.program
        if program is not None:
            args = tuple(with_port(each, port) for each in program.args)
            env = {name: with_port(value, port) for name, value in program.env.items()}
            program = replace(program, args=args, env=env)
        headers = {name: with_port(value, port) for name, value in self.headers.items()}
        return replace(self, url=with_port(self.url, port), headers=headers, program=program)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(headers={sorted(self.headers)})"


class Http(_Remote, frozen=True, kw_only=True, tag="http"):
    """A server behind Streamable HTTP."""

    kind: ClassVar[Literal["http"]] = "http"


class Sse(_Remote, frozen=True, kw_only=True, tag="sse"):
    """A server behind the older HTTP+SSE transport."""

    kind: ClassVar[Literal["sse"]] = "sse"


class Placed(msgspec.Struct, frozen=True, kw_only=True, tag="placed"):
    """A server as a child process on a node of a cluster, which `place` describes.

    No entry says this: `mcpx.cluster` makes it of one that has a command.
    """

    kind: ClassVar[Literal["placed"]] = "placed"

    stdio: Stdio
    place: Place

    @property
    def program(self) -> None:
        """The program that MCPX starts here: none, a node does."""
        return


Transport = Stdio | Http | Sse | Placed


# --- the server


class Variables(msgspec.Struct, frozen=True, eq=False):
    """The variables that an entry holds, `(name, value)` each, so that they can be kept out of what is shown.

    `fetched` are the values of those that came from a keychain or a command: secret, whatever their names.
    Any two are equal: what they mean for the server is in its transport.
    """

    values: tuple[tuple[str, str], ...] = ()
    fetched: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variables)

    def __hash__(self) -> int:
        return hash(Variables)

    def __repr__(self) -> str:
        return f"Variables({sorted({name for name, _ in self.values})})"


SWITCHED_OFF: Final = "disabled in the configuration"
"""The reason of a server that a person has switched off."""


class Obstacle(msgspec.Struct, frozen=True):
    """One thing that keeps a server from being started.

    `missing` is the name of what is not there (a variable, a file, an entry of the keychain), empty for a
    mistake. `remedy` is what to do, as a sentence or a command. `place` has `{}` for the path of `at`.
    """

    problem: str
    at: Location
    missing: str = ""
    remedy: str = ""
    place: str = "in {}"
    is_mistake: bool = False

    def __str__(self) -> str:
        return f"{self.problem} ({self.place.format(self.at.path)})"


class ServerConfig(PerServer, frozen=True, kw_only=True):
    """One upstream server. `disabled` is the reason why it must not be started, or `None`.

    A person has switched it off, or there are `obstacles`; `mcpx.core.config.diagnosis` says which, and what
    to do. The transport of such a server may still hold `${VAR}` as written, and is empty if its entry cannot
    be read. `source` is the file that it is configured in, empty for a server made by hand.
    """

    name: str
    transport: Transport
    disabled: str | None = None
    obstacles: tuple[Obstacle, ...] = ()
    variables: Variables = Variables()
    ages: bool = False
    """Whether it holds values that are fetched: of a command, the keychain, or a file of variables."""
    source: str = ""
    aliases: tuple[str, ...] = ()
    """Other names by which it is found; none of them is the name of a server."""
    overrides: Overrides = msgspec.field(default_factory=dict)
    """By its own names of tools."""
    peer: str | None = None
    """The entry of the other MCPX whose server it is; None for one that is configured here."""
    name_there: str = ""
    """Its name at that peer."""
    project: str | None = None
    """The folder of the clients that it is for; None for one that is for all."""
    agreed: str = ""
    """Of one that a file of its project names, the digest of the entry that a person has agreed to."""

    @property
    def is_switched_off(self) -> bool:
        """True if a person has switched it off: models are not shown it."""
        return self.disabled == SWITCHED_OFF

    @property
    def is_remote_mcpx(self) -> bool:
        """True if an MCPX answers for it, whose word on how a call failed holds."""
        return self.peer is not None or isinstance(self.transport, Placed)

    @property
    def starts_elsewhere(self) -> bool:
        """True if its start is the work of another machine: a node, or a peer that is reached by a URL."""
        return self.is_remote_mcpx and not isinstance(self.transport, Stdio)


class PeerConfig(ServerConfig, frozen=True, kw_only=True):
    """The entry of another MCPX, whose servers are servers here (`mcpx.core.config.peers`). It is none
    itself.

    `prefix` is what their names begin with. The rules are as its entry has them, those for all servers are in
    `common`: they are put together for each of its servers.
    """

    prefix: str | None = None
    common: PerServer = PerServer()

    def name_here(self, name: str) -> str:
        """The name that one of its servers has here."""
        return name if self.prefix is None else f"{self.prefix}/{name}"
