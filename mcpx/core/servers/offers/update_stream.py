"""The stream on which a 2026-07-28 server announces changed resources: one for all URIs that are wanted.

The URIs of a `subscriptions/listen` stream cannot be changed, so a new stream is opened before the old one is
closed, and no update is missed between them. A stream that ends by itself is opened again. Runs inside the
incarnation whose session it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import CONNECTION_CLOSED

from supervisors import Signal

OPEN_TIMEOUT_S: Final = 10.0  # for the server to acknowledge a stream
RETRY_DELAY_S: Final = 1.0  # after a lost stream


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that was opened, or could not be: then `error` is set, and `honoured` is empty."""

    wanted: list[str]
    honoured: frozenset[str]
    after_a_gap: bool
    """Whether no stream was open just before: an update may have been missed."""
    error: Exception | None = None


OnOpened = Callable[[Opened], None]


class UpdateStream:
    """The stream of one session. `on_update` is called with each URI that changed."""

    def __init__(self, client: ClientSession, on_update: Callable[[str], None], log: Any) -> None:
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
        self,
        streams: anyio.abc.TaskGroup,
        uris: list[str],
        changed: Signal,
        *,
        after_a_gap: bool,
    ) -> Opened:
        try:
            with anyio.fail_after(OPEN_TIMEOUT_S):
                scope, honoured = await streams.start(self._run, uris, changed)
        except (SubscriptionLost, MCPError, TimeoutError) as error:
            self._log.warning("upstream.unsubscribed", reason=str(error) or "no answer", uris=len(uris))
            streams.start_soon(_set_later, changed)
            if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                uris = []  # nothing was refused: the next incarnation opens it again
            return Opened(wanted=uris, honoured=frozenset(), after_a_gap=after_a_gap, error=error)
        self._current = scope
        return Opened(wanted=uris, honoured=frozenset(honoured), after_a_gap=after_a_gap)

    async def _run(
        self,
        uris: list[str],
        changed: Signal,
        *,
        task_status: anyio.abc.TaskStatus[tuple[anyio.CancelScope, set[str]]],
    ) -> None:
        with anyio.CancelScope() as scope:
            try:
                async with listen(self._client, resource_subscriptions=uris) as stream:
                    self._live.add(scope)
                    task_status.started((scope, set(stream.honored.resource_subscriptions or ())))
                    async for event in stream:
                        if isinstance(event, ResourceUpdated):
                            self._on_update(event.uri)
            except (SubscriptionLost, MCPError, TimeoutError):
                if scope not in self._live:
                    raise
            finally:
                self._live.discard(scope)
            await _set_later(changed)


async def _set_later(changed: Signal) -> None:
    await anyio.sleep(RETRY_DELAY_S)
    changed.set()
