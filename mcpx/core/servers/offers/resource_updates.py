"""Changes of a server's resources, as MCPX hears of them: the parts of `Subscriptions`.

`Support` knows if the server has subscriptions, and what is said where it has none. `Topic` is one URI with
listeners, and the digest that says after a reconnect if its content has changed meanwhile: the digest is read
when a subscription begins and after each update; when an update may have been missed, the listeners are
notified unless it is unchanged.

`UpdateStream` is the stream on which a 2026-07-28 server announces changes, one for all URIs that are wanted.
The URIs of a `subscriptions/listen` stream cannot be changed, so a new stream is opened before the old one is
closed, and no update is missed between them. A stream that ends by itself is opened again. Runs inside the
incarnation whose session it uses.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.config import ServerConfig
from mcpx.core.protocol.requests import INTERNAL_CONTEXT, ReadResource, Request
from mcpx.core.servers.call_errors import call_error
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.session.client_session import PassingSession, SubscriptionLost
from mcpx.core.telemetry.contained import containing
from mcpx.core.wire.envelope import CONNECTION_CLOSED, METHOD_NOT_FOUND, MCPError
from mcpx.errors import CallError, Code
from supervisors import Signal

READ_TIMEOUT_S: Final = 10.0
MIN_READ_INTERVAL_S: Final = 1.0  # of one resource: a storm of updates is no storm of reads
MAX_DIGEST_BYTES: Final = 1024 * 1024  # by the listing; a larger resource is not read for this
REFUSED: Final = b""  # the digest of a resource that the server refuses to give

Listener = Callable[[str], None]
"""Called with the URI that changed: the one subscribed to, or one below it. It may unsubscribe; it must not
raise."""
OPEN_TIMEOUT_S: Final = 10.0  # for the server to acknowledge a stream
RETRY_DELAY_S: Final = 1.0  # after a lost stream


class Provider(Protocol):
    """The session with the server that has the resources."""

    config: ServerConfig
    queue: CallQueue

    @property
    def catalogue(self) -> Catalogue | None: ...
    def submit(self, request: Request, reply: RawReply) -> None: ...
    def admits_resource(self, uri: str) -> bool:
        """True if there is a resource with that URI for clients, if the server has it."""


class Support:
    """Subscriptions, as far as the server of one session is known to have them.

    A server is asked even if it does not declare subscriptions: many have them all the same (the Python SDK
    1.x cannot declare them). One that answers that it does not know the method is not asked again in that
    session.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._refusal_of_all: JSON | None = None  # the server's error in this session, if it has none

    @property
    def is_modern(self) -> bool:
        """True if the server speaks 2026-07-28, as far as is known: it may be down."""
        catalogue = self.provider.catalogue
        return catalogue is not None and catalogue.protocol_version in MODERN_PROTOCOL_VERSIONS

    def require(self) -> None:
        """Check that the server may be asked.

        Raises:
            CallError: It has no resources, or has refused all subscriptions in this session.
        """
        known = self.provider.catalogue
        has_none = known is not None and not (
            "resources" in known.capabilities or known.resources or known.templates
        )
        if has_none or self._refusal_of_all is not None:
            raise self._not_offered()

    def note(self, error: CallError) -> None:
        """Take in that the server has refused a subscription; perhaps it refuses all of them."""
        said = error.details.get("upstream", {})
        if said.get("code") == METHOD_NOT_FOUND:
            self._refusal_of_all = said

    def forget(self) -> None:
        """Take in that a session has begun or ended."""
        self._refusal_of_all = None

    def refusal(self, error: Exception | None) -> CallError:
        """The error of a subscription that was left out when a stream was opened, or of the stream."""
        if error is not None:
            config = self.provider.config
            return call_error(
                error, server=config.name, tool=None, from_mcpx=config.is_remote_mcpx, peer=config.peer
            )
        known = self.provider.catalogue
        if known is not None and not (known.capabilities.get("resources") or {}).get("subscribe"):
            return self._not_offered()
        text = f"{self.provider.config.name} does not take the subscription"
        return CallError(Code.PROTOCOL_ERROR, text, server=self.provider.config.name)

    def _not_offered(self) -> CallError:
        """The error where the server has no subscriptions: its own, or what it would answer."""
        text = f"{self.provider.config.name} offers no subscriptions to resources"
        said = self._refusal_of_all or {"code": METHOD_NOT_FOUND, "message": text}
        return CallError(
            Code.UPSTREAM_ERROR, said["message"], server=self.provider.config.name, details={"upstream": said}
        )


class _Contents(msgspec.Struct):
    contents: msgspec.Raw = msgspec.Raw()


class Topic:
    """One URI, its listeners, and what is known of its content."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.listeners: list[Listener] = []
        self.error: CallError | None = None
        self.settled = anyio.Event()  # the server has agreed, or there is an error
        self.outdated = False  # the digest is to be read
        self.maybe_missed = False  # an update may have been missed: the digest decides
        self.reading = False
        self.silent = False  # there is no such resource for clients
        self.digest: bytes | None = None
        self._read_at = -math.inf  # by the loop's clock

    @property
    def established(self) -> bool:
        """True if the server has agreed at some time."""
        return self.settled.is_set() and self.error is None

    @property
    def needs_reading(self) -> bool:
        """True if its digest is to be read, and is not being read."""
        return (
            not self.silent and (self.outdated or self.maybe_missed) and self.established and not self.reading
        )

    def covers(self, uri: str) -> bool:
        """True if that URI is below this one: a server may name a part of what was subscribed to."""
        return uri.startswith(self.uri if self.uri.endswith("/") else f"{self.uri}/")

    def notify(self, uri: str) -> None:
        """Call the listeners with the URI that changed."""
        for listener in list(self.listeners):
            with containing("resource update"):  # one must not keep the others from theirs
                listener(uri)

    async def refresh_digest(self, provider: Provider, limiter: anyio.CapacityLimiter) -> None:
        """Read the digest; notify the listeners where an update may have been missed and it differs."""
        if not self.maybe_missed:
            await anyio.sleep(max(0.0, self._read_at + MIN_READ_INTERVAL_S - anyio.current_time()))
        async with limiter:
            unknown, self.outdated = self.outdated or self.digest is None, False
            digest = await read_digest(provider.submit, provider.catalogue, self.uri)
        self._read_at = anyio.current_time()
        if self.maybe_missed and (unknown or digest is None or digest != self.digest):
            self.notify(self.uri)
        self.maybe_missed = False
        self.digest = digest


async def read_digest(
    submit: Callable[[Request, RawReply], None], catalogue: Catalogue | None, uri: str
) -> bytes | None:
    """A digest of 16 bytes, `REFUSED` where the server gives no content, None where it cannot be known."""
    listed = catalogue.resources.get(uri) if catalogue else None
    if listed is not None and (listed.size or 0) > MAX_DIGEST_BYTES:
        return None
    reply = RawReply()
    with anyio.move_on_after(READ_TIMEOUT_S):
        try:
            submit(ReadResource(uri, context=INTERNAL_CONTEXT), reply)
            contents = msgspec.json.decode(await reply.wait(), type=_Contents).contents
            return hashlib.blake2b(contents, digest_size=16).digest()
        except msgspec.DecodeError:
            return None
        except CallError as error:
            return REFUSED if error.code is Code.UPSTREAM_ERROR else None
    return None


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that was opened, or could not be: then `error` is set, and `honoured` is empty."""

    wanted: list[str]
    honoured: frozenset[str]
    after_a_gap: bool
    """True if no stream was open just before: an update may have been missed."""
    error: Exception | None = None


OnOpened = Callable[[Opened], None]


class UpdateStream:
    """The stream of one session. `on_update` is called with each URI that changed."""

    def __init__(self, client: PassingSession, on_update: Callable[[str], None], log: Any) -> None:
        self._client = client
        self._on_update = on_update
        self._log = log
        self._current: anyio.CancelScope | None = None
        self._live: set[anyio.CancelScope] = set()

    async def keep(self, changed: Signal, wanted: Callable[[], list[str]], on_opened: OnOpened) -> None:
        """Keep a stream open for the URIs that `wanted` returns, which is called again when `changed` is set.

        `on_opened` is called after each attempt.
        """
        async with anyio.create_task_group() as streams:
            while True:
                changed.clear()
                before, self._current = self._current, None
                opened = None
                if uris := wanted():
                    opened = await self._open(streams, uris, changed, after_a_gap=before not in self._live)
                    on_opened(opened)
                if opened is not None and opened.error is not None:
                    self._current = before  # better than none, until the next attempt
                elif before is not None:
                    before.cancel()
                await changed.wait()

    async def _open(
        self, streams: anyio.abc.TaskGroup, uris: list[str], changed: Signal, *, after_a_gap: bool
    ) -> Opened:
        opened: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        scope = anyio.CancelScope()
        streams.start_soon(self._run, uris, changed, scope, opened)
        try:
            with anyio.fail_after(OPEN_TIMEOUT_S):
                honoured = await opened
        except (SubscriptionLost, MCPError, TimeoutError) as error:
            scope.cancel()
            self._log.warning("upstream.unsubscribed", reason=str(error) or "no answer", uris=len(uris))
            streams.start_soon(_set_later, changed)
            if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                uris = []  # nothing was refused: the next incarnation opens it again
            return Opened(wanted=uris, honoured=frozenset(), after_a_gap=after_a_gap, error=error)
        self._current = scope
        return Opened(wanted=uris, honoured=honoured, after_a_gap=after_a_gap)

    async def _run(
        self,
        uris: list[str],
        changed: Signal,
        scope: anyio.CancelScope,
        opened: asyncio.Future[frozenset[str]],
    ) -> None:
        def agreed(given: JSON) -> None:
            self._live.add(scope)
            honoured = given.get("resourceSubscriptions")
            if not opened.done():
                listed = honoured if isinstance(honoured, list) else ()
                opened.set_result(frozenset(uri for uri in listed if isinstance(uri, str)))

        with scope:
            try:
                wanted = {"resourceSubscriptions": uris}
                await self._client.listen(wanted, on_open=agreed, on_updated=self._on_update)
            except (SubscriptionLost, MCPError) as error:
                if not opened.done():
                    opened.set_exception(error)
                    return
            finally:
                self._live.discard(scope)
            await _set_later(changed)


async def _set_later(changed: Signal) -> None:
    await anyio.sleep(RETRY_DELAY_S)
    changed.set()
