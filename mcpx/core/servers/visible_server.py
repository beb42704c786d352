"""`VisibleServer`: the members of a `Server` that may be used for the clients of a profile.

The registry, the pipeline and the gateway get servers of this type, never `Server`. Behind it is either the
server itself or a `NarrowedServer`, which has what a profile shows of it and nothing else. It is no proxy: a
member that is added to `Server` does not exist there, neither for mypy nor at run time, until somebody adds
it to `VisibleServer`, and decides in `NarrowedServer` if it is narrowed or passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Era, ServerConfig
from mcpx.core.policy.policy import NarrowedPolicy, ServerPolicy
from mcpx.core.protocol.requests import Request
from mcpx.core.servers.accounts import Account
from mcpx.core.servers.admission import refusal_of
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.offers.resource_updates import Listener
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.core.servers.server import Server
from mcpx.errors import CallError


class VisibleServer(Protocol):
    """A server as the clients of one view see it. `Server` says what each member is."""

    # --- narrowed by a profile

    @property
    def policy(self) -> ServerPolicy: ...
    @property
    def narrowing(self) -> NarrowedPolicy | None: ...
    @property
    def catalogue(self) -> Catalogue | None: ...
    def info(self) -> ServerInfo: ...
    def refusal_of(self, request: Request) -> CallError | None: ...
    async def await_catalogue(self, suffices: Callable[[Catalogue], bool] = ...) -> None: ...
    async def await_descriptions(self) -> None: ...

    # --- the same for all: nothing of what the server offers is in it

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> ServerConfig: ...
    @property
    def era(self) -> Era | None: ...
    @property
    def has_listed(self) -> bool: ...
    @property
    def needs_sign_in(self) -> bool: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def queue(self) -> CallQueue: ...
    @property
    def per_client(self) -> bool: ...
    @property
    def wants_project(self) -> bool: ...
    @property
    def is_alike(self) -> bool: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    async def await_first_attempt(self) -> None: ...
    def warm(self) -> None: ...
    async def subscribe(
        self, uri: str, listener: Listener, meta: bytes, *, modern: bool
    ) -> Callable[[], None]: ...
    @property
    def submit(self) -> Callable[[Request, RawReply], None]: ...


class NarrowedServer:
    """A server of which there is what a policy shows: exactly the members of `VisibleServer`.

    The requests that it submits carry the policy with them (`RequestContext.policy`).
    """

    __slots__ = ("_server", "config", "name", "narrowing", "policy")

    def __init__(self, server: Server, policy: NarrowedPolicy) -> None:
        self._server = server
        self.name = server.name
        self.config = server.config
        self.policy = self.narrowing = policy

    def is_of(self, server: Server) -> bool:
        """Return True if this is a part of that server."""
        return self._server is server

    # --- narrowed

    @property
    def catalogue(self) -> Catalogue | None:
        """The part of the server's catalogue that is shown; the same object while that is the same."""
        return self.policy.narrowed(self._server.catalogue)

    def info(self) -> ServerInfo:
        """Return the server's information, with the catalogue that is shown."""
        info = self._server.info()
        return info if info.catalogue is None else replace(info, catalogue=self.catalogue)

    def refusal_of(self, request: Request) -> CallError | None:
        """Say why a request may not be sent."""
        return None if request.context.own else refusal_of(request, self.policy, self.info())

    async def await_catalogue(self, suffices: Callable[[Catalogue], bool] = lambda _known: True) -> None:
        """Wait for the first listing, unless the known part that is shown `suffices`."""

        def shown_suffices(_whole: Catalogue) -> bool:
            shown = self.catalogue
            return shown is not None and suffices(shown)

        await self._server.await_catalogue(shown_suffices)

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""
        await self._server.await_descriptions()

    # --- passed on

    @property
    def era(self) -> Era | None:
        """The era of the session."""
        return self._server.era

    @property
    def has_listed(self) -> bool:
        """True if the catalogue is from this run of MCPX."""
        return self._server.has_listed

    @property
    def needs_sign_in(self) -> bool:
        """True if a person has to sign in before a call can run."""
        return self._server.needs_sign_in

    @property
    def account(self) -> Account | None:
        """The account that MCPX has at the server."""
        return self._server.account

    @property
    def queue(self) -> CallQueue:
        """The requests that wait."""
        return self._server.queue

    @property
    def per_client(self) -> bool:
        """True if each client has a session of its own."""
        return self._server.per_client

    @property
    def wants_project(self) -> bool:
        """True if it matters in which project a client is."""
        return self._server.wants_project

    @property
    def is_alike(self) -> bool:
        """True if it offers the same in all projects."""
        return self._server.is_alike

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions to resources; who may have one is decided before."""
        return self._server.subscriptions

    async def await_first_attempt(self) -> None:
        """Wait until it has listed or failed for the first time."""
        await self._server.await_first_attempt()

    def warm(self) -> None:
        """Start the server if it is asleep."""
        self._server.warm()

    async def subscribe(
        self, uri: str, listener: Listener, meta: bytes, *, modern: bool
    ) -> Callable[[], None]:
        """Have `listener` called with changes of `uri`, until the result is called."""
        return await self._server.subscribe(uri, listener, meta, modern=modern)

    @property
    def submit(self) -> Callable[[Request, RawReply], None]:
        """The way to send or queue a request."""
        return self._server.submit
