"""`VisibleServer`: the members of a `Server` that may be used for the clients of a profile.

The registry, the pipeline and the gateway get servers of this type, never `Server`. Behind it is
either the upstream itself or `NarrowedUpstream` (`mcpx.core.daemon.hub_view`), which has what a profile shows
of it and nothing else. So a member that is added to `Server` does not exist there, neither for mypy nor at
run time, until somebody adds it here and decides in `NarrowedUpstream` if it is narrowed or passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Era, ServerConfig
from mcpx.core.policy.narrowed_policy import NarrowedPolicy
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.requests import Request
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.offers.resource_updates import Listener
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.errors import CallError

if TYPE_CHECKING:
    from mcpx.core.servers.accounts import Account


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
    def rate(self) -> CallRate: ...
    @property
    def queue(self) -> CallQueue: ...
    @property
    def per_client(self) -> bool: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    async def await_first_attempt(self) -> None: ...
    def warm(self) -> None: ...
    async def subscribe(
        self, uri: str, listener: Listener, meta: bytes, *, modern: bool
    ) -> Callable[[], None]: ...
    @property
    def submit(self) -> Callable[[Request, RawReply], None]: ...
