"""Results that were too large for a model, kept so that it can read the rest.

Owned by the hub, on its event loop. Each client has results of its own, dropped when it leaves; nobody else
can read them. Clients that cannot be told apart (requests without a session, programs) share one collection,
under ids that cannot be guessed. All in all at most `MAX_KEPT_BYTES` are kept, none for longer than
`MAX_AGE_S`: the oldest of the client with most makes room.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Container, Sequence
from typing import Final

import anyio
import msgspec

from mcpx.core.calls.results.parts import NO_LIMIT, Limit
from mcpx.core.calls.results.shaping import MAX_KEPT_BYTES
from mcpx.core.calls.results.worker import ShapingJob
from mcpx.core.protocol.context import SESSIONLESS, ClientId
from mcpx.core.rendering.json_rows import Rows, find_rows

MAX_AGE_S: Final = 3600.0
MAX_REMEMBERED_CHARS: Final = 16 << 20  # of the text whose rows are remembered; that takes as much again
MAX_REMEMBERED_ROWS: Final = 200_000
_ENTRY_BYTES: Final = 1024  # what an entry costs beside its texts, generously
_SHORT_ID_BYTES: Final = 2  # ids of one client's own: four digits that a model can copy
_LONG_ID_BYTES: Final = 16
_SEALED_ID_BYTES: Final = 8  # what cannot be guessed is the seal


class KeptResult(msgspec.Struct, frozen=True, eq=False):
    """The texts of one result as the server gave them, in their order; or the `source` that has them.

    The texts of a large result are not taken out of it: `mcpx.core.calls.results.large` makes its pages
    in a worker.
    """

    id: str
    texts: tuple[str, ...]
    size: int
    """In bytes of memory."""
    kept_at: float
    """By the event loop's clock."""
    limit: Limit = NO_LIMIT
    """What is shown of it at a time."""
    source: tuple[msgspec.Raw, ShapingJob] | None = None
    """A large result, and the job that made its first page."""
    pictures: tuple[bytes, ...] = ()
    """Blocks, in JSON, that were replaced by smaller pictures or by a text."""


class KeptResults:
    """The results that are kept, by client and id."""

    def __init__(self, *, max_bytes: int = MAX_KEPT_BYTES, max_age_s: float = MAX_AGE_S) -> None:
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._by_client: dict[ClientId, dict[str, KeptResult]] = {}  # each client's oldest first
        self._bytes: dict[ClientId, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last_read: tuple[str, Rows] | None = None
        self.seal: Callable[[str], str] | None = None
        """Makes ids for clients without a session, which may come back to another replica; else None."""

    @property
    def size(self) -> int:
        """Bytes that are kept now."""
        return sum(self._bytes.values())

    def keep(
        self, texts: tuple[str, ...], client: ClientId | None, limit: Limit = NO_LIMIT
    ) -> KeptResult | None:
        """Keep a result for a client (None: a program); None where it alone is too large, or the client gone.

        Other results may be dropped for it.
        """
        size = _ENTRY_BYTES + sum(map(sys.getsizeof, texts))
        kept = KeptResult(self.new_id(client), texts, size, anyio.current_time(), limit)
        return kept if self._put(kept, client) else None

    def keep_source(self, raw: msgspec.Raw, job: ShapingJob, client: ClientId | None) -> bool:
        """Keep a large result as it came, under the id that the job has; whether there is room for it."""
        size = _ENTRY_BYTES + len(raw)
        further = job.order.further
        kept = KeptResult(job.result_id, (), size, anyio.current_time(), further, (raw, job))
        return self._put(kept, client)

    def keep_as(self, result_id: str, texts: tuple[str, ...], client: ClientId | None, limit: Limit) -> None:
        """Keep a result under an id that was given out."""
        size = _ENTRY_BYTES + sum(map(sys.getsizeof, texts))
        self._put(KeptResult(result_id, texts, size, anyio.current_time(), limit), client)

    def keep_pictures(self, result_id: str, blocks: Sequence[bytes], client: ClientId | None) -> None:
        """Keep the pictures of a result that were replaced, under an id that was given out."""
        size = _ENTRY_BYTES + sum(map(sys.getsizeof, blocks))
        self._put(KeptResult(result_id, (), size, anyio.current_time(), pictures=tuple(blocks)), client)

    def _put(self, kept: KeptResult, client: ClientId | None) -> bool:
        owner = client or SESSIONLESS
        if kept.size > self._max_bytes or not owner.connected:
            return False
        self._make_room(kept.size)
        self._by_client.setdefault(owner, {})[kept.id] = kept
        self._bytes[owner] = self._bytes.get(owner, 0) + kept.size
        if self._timer is None:
            self._expire()
        return True

    def new_id(self, client: ClientId | None) -> str:
        """An id that no result of this client has yet."""
        owner = client or SESSIONLESS
        return self._new_id(owner, self._by_client.get(owner, {}))

    def _new_id(self, owner: ClientId, results: Container[str]) -> str:
        if self.seal is None or not owner.sessionless:
            return _new_id(owner, results)
        return self.seal(secrets.token_hex(_SEALED_ID_BYTES))

    def get(self, result_id: str, client: ClientId | None) -> KeptResult | None:
        """A result of this client; None where there is none of that id, or no more."""
        kept = self._by_client.get(client or SESSIONLESS, {}).get(result_id)
        return None if kept is None or self._is_old(kept) else kept

    def find_rows(self, text: str) -> Rows | None:
        """Find the rows of a text (`mcpx.core.rendering.json_rows`); those of the last one are remembered."""
        if self._last_read is None or self._last_read[0] is not text:
            rows = find_rows(text)
            if rows is None or len(text) > MAX_REMEMBERED_CHARS or rows.total > MAX_REMEMBERED_ROWS:
                return rows
            self._last_read = text, rows
        return self._last_read[1]

    def drop(self, client: ClientId) -> None:
        """Drop the results of a client that has left."""
        self._last_read = None
        self._by_client.pop(client, None)
        self._bytes.pop(client, None)

    def _make_room(self, size: int) -> None:
        """Drop the oldest result of the client that holds most, until there is room for `size` bytes."""
        while self._bytes and self.size + size > self._max_bytes:
            fullest = max(self._bytes, key=self._bytes.__getitem__)
            self._remove(fullest, next(iter(self._by_client[fullest].values())))

    def _remove(self, owner: ClientId, kept: KeptResult) -> None:
        del self._by_client[owner][kept.id]
        self._last_read = None
        self._bytes[owner] -= kept.size
        if not self._by_client[owner]:
            self.drop(owner)

    def _is_old(self, kept: KeptResult) -> bool:
        return anyio.current_time() - kept.kept_at >= self._max_age_s

    def _expire(self) -> None:
        """Drop what is too old, and come back when the next one will be."""
        for owner, results in list(self._by_client.items()):
            for kept in [kept for kept in results.values() if self._is_old(kept)]:
                self._remove(owner, kept)
        firsts = [next(iter(results.values())).kept_at for results in self._by_client.values() if results]
        self._timer = None
        if firsts:
            delay = max(0.0, min(firsts) + self._max_age_s - anyio.current_time())
            self._timer = asyncio.get_running_loop().call_later(delay, self._expire)


def _new_id(owner: ClientId, results: Container[str]) -> str:
    """An id that is new to this client, and one that cannot be guessed where others share its collection."""
    size = _LONG_ID_BYTES if owner.sessionless else _SHORT_ID_BYTES
    while (made := secrets.token_hex(size)) in results:
        size = _LONG_ID_BYTES
    return made
