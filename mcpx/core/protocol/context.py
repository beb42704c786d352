"""The client behind a call, as the upstream layer sees it: the contract between gateway and upstreams.

A `ClientId` is an identity and nothing more; it says to whom a session belongs, where each client has its
own. A `Caller` travels with a request. The gateway makes it, with the ways to reach its client; the upstream
layer passes the server's requests and log messages to it, and never learns what they are. Everything here is
pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from typing import Final, Literal, Protocol

import anyio
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.result_reading import to_server
from mcpx.core.system.users import this_user
from mcpx.core.text import cut
from mcpx.core.wire.envelope import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError

Transport = Literal["stdio", "socket", "http", "control", "page", "library"]
MAX_CLIENT_CHARS: Final = 128
MAX_CAPABILITIES_KEPT: Final = 4096  # bytes; real ones are shorter


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """The asker of a request, and over what and at which profile: made once for each connection.

    Read by the records of calls and by traces.
    `control` is the command line, `page` the one in a browser, `library` a program with a hub of its own.
    """

    transport: Transport
    client: str | None = None
    """What the client calls itself, `name/version`; None where it does not say."""
    name: str | None = None
    """Its name alone, as `name_kept` has it."""
    user: str | None = None
    """The user at the other end: of the socket, or of this process."""
    profile: str | None = None
    """The profile of the endpoint that it came to; None where that has none."""
    token: str | None = None
    """The name of the token that it showed."""


def name_kept(name: str | None) -> str | None:
    """The name of a client as it is kept, to tell clients apart by: a long one ends with its digest."""
    if name is None or len(name) <= MAX_CLIENT_CHARS:
        return name
    digest = sha256(name.encode(errors="replace")).hexdigest()
    return name[: MAX_CLIENT_CHARS - len(digest)] + digest


def client_text(name: str | None, version: str | None) -> str | None:
    """Join a client's name and version; None where it has no name."""
    if not name:
        return None
    return cut(f"{name}/{version}" if version else name, MAX_CLIENT_CHARS)


def page_origin() -> Origin:
    """The origin of what a person does on the daemon's page."""
    return Origin(transport="page", user=this_user())


def library_origin() -> Origin:
    """The origin of a request that a program makes with a hub of its own."""
    return Origin(transport="library", user=this_user())


SAMPLING: Final = "sampling/createMessage"
ELICITATION: Final = "elicitation/create"
ROOTS: Final = "roots/list"
QUESTIONS: Final = frozenset({SAMPLING, ELICITATION, ROOTS})
"""What a server may ask of a client: before 2026-07-28 by a request, from then on inside a result."""
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension by which a server answers a call with a task (2026-07-28)."""
TASK_METHODS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels as the protocol has them (RFC 5424), the most verbose first."""
_RANK: Final = {level: rank for rank, level in enumerate(LEVELS)}

OnStep = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with the client's progress on a request of the server."""
Ask = Callable[[str, JSON, OnStep | None], Awaitable[JSON]]
"""Sends a request of that method and those params; called with `on_progress` where that is wanted."""


def wants(wanted: str | None, level: str) -> bool:
    """Return True if a client that set the level `wanted` (None: none) is to get a message of `level`."""
    return wanted is not None and _RANK.get(level, -1) >= _RANK.get(wanted, len(LEVELS))


def most_verbose(levels: list[str | None]) -> str | None:
    """The level that satisfies all of these; None if there is none."""
    known = [level for level in levels if level in _RANK]
    return min(known, key=lambda level: _RANK[level], default=None)


class _Declared(msgspec.Struct, gc=False, omit_defaults=True):
    sampling: JSON | None = None
    elicitation: JSON | None = None
    roots: JSON | None = None
    extensions: dict[str, msgspec.Raw] | None = None


class Capabilities:
    """The declared capabilities of a client, as far as servers can make use of them through MCPX."""

    __slots__ = ("_declared", "encoded")

    def __init__(self, declared: _Declared) -> None:
        self._declared = declared
        self.encoded = msgspec.json.encode(declared)
        """As JSON, for the `_meta` of a 2026-07-28 request."""

    def has_extension(self, name: str) -> bool:
        """Return True if the client declared that extension of the protocol."""
        return name in (self._declared.extensions or ())

    def refusal(self, method: str, params: JSON) -> MCPError | None:
        """The protocol's error for a request that the client cannot take; None if it can."""
        declared = self._declared
        if method == SAMPLING:
            return _sampling_refusal(declared.sampling, params)
        if method == ELICITATION:
            return _elicitation_refusal(declared.elicitation, params)
        if method == ROOTS and declared.roots is not None:
            return None
        what = "roots" if method == ROOTS else method
        return MCPError(METHOD_NOT_FOUND, f"The client did not declare {what}")


def _sampling_refusal(declared: JSON | None, params: JSON) -> MCPError | None:
    if declared is None:
        return MCPError(METHOD_NOT_FOUND, "The client did not declare sampling")
    if ("tools" in params or "toolChoice" in params) and declared.get("tools") is None:
        return MCPError(INVALID_PARAMS, "The client did not declare sampling with tools (sampling.tools)")
    return None


def _elicitation_refusal(declared: JSON | None, params: JSON) -> MCPError | None:
    """An empty declaration means forms, as it did before there were modes."""
    if declared is None:
        return MCPError(METHOD_NOT_FOUND, "The client did not declare elicitation")
    mode = params.get("mode") or "form"
    modes = [name for name in ("form", "url") if declared.get(name) is not None] or ["form"]
    if mode not in modes:
        return MCPError(INVALID_PARAMS, f"The client did not declare elicitation in {mode} mode")
    return None


def read_capabilities(raw: bytes) -> Capabilities:
    """Decode capabilities from JSON; what cannot be read declares nothing."""
    return _capabilities(raw) if len(raw) <= MAX_CAPABILITIES_KEPT else _capabilities.__wrapped__(raw)


@lru_cache(maxsize=256)
def _capabilities(raw: bytes) -> Capabilities:
    try:
        return Capabilities(msgspec.json.decode(raw, type=_Declared))
    except (msgspec.DecodeError, RecursionError):
        return NO_CAPABILITIES


NO_CAPABILITIES: Final = Capabilities(_Declared())


class ClientId:
    """The identity of one client of MCPX, from its first call until it leaves; compared by `is`."""

    __slots__ = (
        "_folder",
        "connected",
        "environment",
        "principal",
        "project",
        "roots",
        "roots_changes",
        "roots_known",
        "sessionless",
        "vanishes",
        "variables",
    )

    def __init__(
        self,
        *,
        sessionless: bool = False,
        vanishes: bool = False,
        principal: str = "",
        folder: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.connected = True
        self.sessionless = sessionless
        """Whether it stands for all requests without a session of one principal (2026-07-28 over HTTP): their
        clients cannot be told apart."""
        self.vanishes = vanishes
        """Whether it stands for the clients of one name among these: nobody says when they leave."""
        self.principal = principal
        """The token with a name that it came with; "" for the default token, and for clients that need none.
        What a client calls itself is told from the same name of others by it."""
        self._folder = folder
        self.project = folder
        """The folder that it works in, as far as is known: its first root, or where it was started."""
        self.environment: Mapping[str, str] | None = None
        """Variables of its environment that every server is given where they are set, as it has said them."""
        self.variables = variables or {}
        """Variables of its environment that servers of its project are given."""
        self.roots_known = False
        """True if it was asked for its roots, and has not said since that they have changed."""
        self.roots_changes = 0
        """The number of times that it has said so."""
        self.roots: anyio.Event | None = None
        """Set when it has answered that; None while it is not asked."""

    def roots_changed(self) -> None:
        """Note that its roots have changed: what it has been asked does not count any more."""
        self.roots_known = False
        self.roots_changes += 1

    def has_root(self, root: str | None) -> None:
        """Note its first root, by which its project is known from now on; None for one without any."""
        self.roots_known = True
        self.project = root or self._folder


asking: Final[ContextVar[ClientId | None]] = ContextVar("client that asks", default=None)
"""The client whose request is served, on the SDK's path: a server that runs once for each project is shown to
it as it is in its project. None on the fast path, and where nobody in particular asks."""


@contextmanager
def asked_by(client: ClientId) -> Iterator[None]:
    """Have servers shown as they are for a client."""
    before = asking.set(client)
    try:
        yield
    finally:
        asking.reset(before)


SESSIONLESS: Final = ClientId(sessionless=True)
"""Stands for all requests without a session that came without a token of a name."""


class _Leveled(Protocol):
    @property
    def log_level(self) -> str | None: ...


def _log_nothing(_params: JSON) -> None:
    pass


async def _cannot_be_asked(method: str, _params: JSON, _on_progress: OnStep | None) -> JSON:
    raise MCPError(METHOD_NOT_FOUND, f"The client cannot be sent {method}")


class Caller(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The client behind one call: who it is, what it can do, and how it is reached."""

    client: object
    """The identity of the client: the same object for each of its calls."""
    capabilities: Capabilities
    modern: bool
    """True if it can be asked only in the answer to its own request (2026-07-28)."""
    is_local: bool = False
    """True if its person is at this machine, as far as is known, and it came with no token of a name."""
    is_peer: bool = False
    """True for another MCPX, which says itself which server asks."""
    level: str | None = None
    """The least severe level of log messages that this call wants; None for none at all."""
    sessions: Mapping[object, _Leveled] | None = None
    """By client, where a session has the level in place of its calls."""
    log: Callable[[JSON], None] = _log_nothing
    """Sends it a log message that belongs to this call. Must not raise."""
    ask: Ask = _cannot_be_asked
    """Sends it a request and waits for the result; only if it is not `modern`.

    Raises:
        MCPError: The client refused, or cannot be reached.
    """

    @property
    def log_level(self) -> str | None:
        """The least severe level of log messages that it wants now; None for none at all."""
        if self.sessions is None:
            return self.level
        session = self.sessions.get(self.client)
        return None if session is None else session.log_level


class InputAnswers(msgspec.Struct, frozen=True):
    """Members that a client adds when it repeats a request that was answered with `inputRequests`."""

    responses: bytes | msgspec.Raw = b""
    """A JSON object, or nothing."""
    state: str | None = None

    def members(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, each with a comma before it."""
        pieces: list[bytes] = []
        if self.responses:
            pieces += [b',"inputResponses":', bytes(self.responses)]
        if self.state is not None:
            pieces += [b',"requestState":', msgspec.json.encode(to_server(self.state))]
        return pieces
