"""The meter: calls, how they end, and what results and menus cost a model, directly and through MCPX.

One for each hub, and the only place where calls are counted: whatever shows a figure of calls, failures or
tokens reads the sums here. It is a sink of `Records`, which tells of each call; the paths of the gateway note
each answer to a client and each listing of the tools; `mcpx.core.events.stats_file` keeps the sums for good.
Costs are estimates (`mcpx.core.events.costs`), the same for both sides. What MCPX answers by itself
(`inspect`, an error of its own) costs nothing directly. docs/monitoring.md defines all of it.

Under load not every call is looked at: of each tool of each client the first `SAMPLES` calls in a window are,
of those with large results the first `SAMPLES_OF_LARGE`, and the others are taken to cost the average of
these. So noting a call costs a fraction of a microsecond. Nothing here raises: a fault of the meter costs no
call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from mcpx.core.events.costs import Listings, Offers, Pieces, costs, menu_of
from mcpx.core.events.records import CACHED, End, Kind, Record, Target, end_of
from mcpx.core.events.stats import (
    COMMAND_LINE,
    COMPLETIONS,
    INSPECT,
    MAX_CLIENTS,
    MAX_TOOLS,
    MCPX,
    MENU,
    OTHERS,
    PAGE,
    PROGRAM,
    PROMPTS,
    RESOURCES,
    TASKS,
    UNNAMED,
    Count,
    Totals,
    total,
)
from mcpx.core.protocol.context import ClientId, Transport
from mcpx.core.protocol.messages import Exec, Request
from mcpx.core.protocol.requests import Watched
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.metrics import Activity
from mcpx.core.text import cut, one_line, visible
from mcpx.core.wire.turn import TURN, after_turn

WINDOW_S: Final = 0.25
SAMPLES: Final = 32  # calls of one tool and client that are looked at in a window
SAMPLES_OF_LARGE: Final = 2  # and of those with large results, which take longer
LARGE_BYTES: Final = 32768
MAX_NAME_CHARS: Final = 64  # of a client
MAX_LABEL_CHARS: Final = 200  # of a server or a tool
MAX_QUESTIONS: Final = 1000  # that are open: a client need not come back with an answer
_KINDS: Final[Mapping[Kind, str]] = {
    "resource": RESOURCES,
    "prompt": PROMPTS,
    "completion": COMPLETIONS,
    "task": TASKS,
}
_NOT_TOOLS: Final = frozenset({INSPECT, *_KINDS.values()})
_OWN_CLIENTS: Final[Mapping[Transport, str]] = {"control": COMMAND_LINE, "page": PAGE, "library": PROGRAM}


class Watch(Protocol):
    """Hears of answers. Must not raise."""

    def answered(
        self, watched: Watched, raw: msgspec.Raw | bytes, pieces: Pieces, cost: tuple[int, int] | None
    ) -> None:
        """Note the answer to a call; `cost` is the direct and the spent one, where they were looked at."""


class _Row:
    """The calls of one tool by one client in the current window, and answers, of which some are looked at."""

    __slots__ = (
        "_large", "answers", "cached", "calls", "cancelled", "client", "direct", "failed",
        "is_listed", "ok", "refused", "sampled", "samples", "server", "spent", "tool",
    )  # fmt: skip

    def __init__(self, client: str, server: str, tool: str, samples: int = SAMPLES) -> None:
        self.client = client
        self.server = server
        self.tool = tool
        self.samples = samples
        self.is_listed = False  # among those that are summed at the end of the window
        self.clear()
        self._large: _Row | None = None

    def clear(self) -> None:
        """Begin another window."""
        self.answers = self.sampled = self.direct = self.spent = 0
        self.calls = self.ok = self.failed = self.refused = self.cancelled = self.cached = 0

    def count(self) -> Count:
        """Return what was counted in the window."""
        direct = spent = 0
        if self.sampled:
            direct = self.direct * self.answers // self.sampled
            spent = self.spent * self.answers // self.sampled
        ends = self.ok, self.failed, self.refused, self.cancelled
        return Count(self.calls, direct, spent, *ends, self.cached)

    def add_end(self, end: End, number: int) -> None:
        """Count so many ends of that kind, fewer where it is negative."""
        setattr(self, end, getattr(self, end) + number)

    def of_large(self) -> _Row:
        """The same tool's calls with large results, which have an average of their own."""
        if self._large is None:
            self._large = _Row(self.client, self.server, self.tool, SAMPLES_OF_LARGE)
        return self._large


Sample = tuple[_Row, msgspec.Raw | bytes, Pieces]
"""An answer that is looked at: the row that it counts in, as it came, and as the client gets it."""


class ClientMeter:
    """Counts the calls of the clients of one name."""

    def __init__(self, meter: Meter, name: str) -> None:
        self.name = name
        self._meter = meter
        self.rows: dict[tuple[str, str], _Row] = {}

    def note(
        self, server: str, tool: str, raw: msgspec.Raw | bytes, pieces: Pieces, request: Request | None = None
    ) -> None:
        """Count one answer: the server's result (empty where there is none), and the client's, in pieces.

        `request` is what was answered, for those who watch.
        """
        row = self.rows.get((server, tool)) or self._new_row(server, tool)
        if len(raw) > LARGE_BYTES:
            row = row.of_large()
        row.answers += 1
        meter, cost = self._meter, None
        if row.sampled < row.samples:
            row.sampled += 1
            if TURN.is_open and meter.watch is None:
                meter.sample_later((row, raw, pieces))
            else:
                cost = meter.sample(row, raw, pieces)
        if meter.watch is not None and request is not None and request.context.watched is not None:
            meter.watch.answered(request.context.watched, raw, pieces, cost)

    def row(self, server: str, tool: str) -> _Row:
        """Return the row that counts the calls of that tool."""
        return self.rows.get((server, tool)) or self._new_row(server, tool)

    def _new_row(self, server: str, tool: str) -> _Row:
        server, tool = self._meter.known(server, tool)
        if len(self.rows) >= MAX_TOOLS and (server, tool) not in self.rows:
            server = tool = OTHERS
        row = self.rows.get((server, tool))
        if row is None:
            row = self.rows[server, tool] = _Row(self.name, _label(server), _label(tool))
        return row


class Meter:
    """Sums what calls cost. `upstreams` are the servers by name, `activity` is that of all together."""

    def __init__(self, upstreams: Mapping[str, Offers], activity: Activity) -> None:
        self._upstreams = upstreams
        self._clients: dict[str, ClientMeter] = {}
        self._questions: dict[Target, list[tuple[_Row, End]]] = {}  # the oldest first
        self._listed: list[_Row] = []
        self.noted: list[Record] = []
        self._samples: list[Sample] = []
        self._timer: asyncio.TimerHandle | None = None
        self._since_start = Totals()
        self._saved = Totals()
        self._writing = Totals()
        self._unsaved = Totals()
        self._listings = Listings()
        self._activity = activity
        self.watch: Watch | None = None
        """Hears of each answer to a request, for as long as somebody looks."""

    # --- calls

    def of_client(self, name: str | None) -> ClientMeter:
        """Return the counter of clients that call themselves that."""
        name = (name or "")[:MAX_NAME_CHARS]
        client = self._clients.get(name)
        if client is None:
            label = one_line(name) or UNNAMED
            if len(self._clients) >= MAX_CLIENTS:
                name = label = OTHERS
            client = self._clients.setdefault(name, ClientMeter(self, label))
        return client

    def known(self, server: str, tool: str) -> tuple[str, str]:
        """Return the names under which a tool is counted: what does not exist is counted together."""
        upstream = self._upstreams.get(server)
        if upstream is None:
            return MCPX, tool if tool in _NOT_TOOLS else OTHERS
        catalogue = upstream.catalogue
        exists = tool in _NOT_TOOLS or (catalogue is not None and catalogue.tool(tool) is not None)
        return server, tool if exists else OTHERS

    def begun(self, record: Record) -> None:
        """Count a call that begins."""
        try:
            origin, server, kind, name = record.target
            client = self._clients.get(origin.name or "") if kind == "tool" else None
            row = client and client.rows.get((server, name))  # the usual one, without a call more
            row = record.counted = row or self._row_of(record.target)
            row.calls += 1
            if not row.is_listed:
                self._list(row)
        except Exception as error:  # noqa: BLE001 - the promise of this module
            contain(error, "meter")

    def ended(self, record: Record) -> None:
        """Count its end."""
        row = record.counted
        outcome, code, _ = record.ending or record.how()
        if outcome == "ok":
            row.ok += 1
        else:
            row.cached += outcome == CACHED
            row.add_end(end := end_of(outcome, code), 1)
            if record.is_question():
                self._keep_question(record.target, row, end)
        if not row.is_listed:
            self._list(row)

    def asked(self, target: Target, end: End) -> None:
        """Note that a call that ended so was answered with a question."""
        self.count()
        self._keep_question(target, self._row_of(target), end)

    def _keep_question(self, target: Target, row: _Row, end: End) -> None:
        self._questions.setdefault(target, []).append((row, end))
        if len(self._questions) > MAX_QUESTIONS:
            del self._questions[next(iter(self._questions))]

    def goes_on(self, target: Target) -> None:
        """Take back the count of a call that ended with a question."""
        self.count()
        if not (known := self._questions.get(target)):
            return
        row, end = known.pop(0)
        if not known:
            del self._questions[target]
        row.calls -= 1
        row.add_end(end, -1)
        if not row.is_listed:
            self._list(row)

    def _row_of(self, target: Target) -> _Row:
        origin, server, kind, name = target
        client = self.of_client(origin.name or _OWN_CLIENTS.get(origin.transport))
        return client.row(server, name if kind == "tool" else _KINDS.get(kind, OTHERS))

    def sample(self, row: _Row, raw: msgspec.Raw | bytes, pieces: Pieces) -> tuple[int, int]:
        """Look at one of the answers that are counted in this window. Returns its costs."""
        if not row.is_listed:
            self._list(row)
        direct, spent = _costs(raw, pieces)
        row.direct += direct
        row.spent += spent
        return direct, spent

    def count_soon(self) -> None:
        """Have what is `noted` counted at the end of the window, if nothing does so before."""
        if self._timer is None:
            self._activity.begin()
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)

    def sample_later(self, sample: Sample) -> None:
        """Look at an answer, when the answers of this turn have been written."""
        if not self._samples:
            after_turn(self.count)
        self._samples.append(sample)

    def count(self) -> None:
        """Count what is `noted`."""
        noted, self.noted = self.noted, []
        for record in noted:
            if record.counted is None:
                self.begun(record)
            else:
                self.ended(record)
        samples, self._samples = self._samples, []
        for sample in samples:
            self.sample(*sample)

    def _end_window(self) -> None:
        self._timer = None
        self._sum_window()

    def _list(self, row: _Row) -> None:
        """Have a row summed at the end of the window."""
        row.is_listed = True
        self._listed.append(row)
        self.count_soon()

    def _sum_window(self) -> None:
        self.count()
        rows, self._listed = self._listed, []
        for row in rows:
            self._add(row.client, row.server, row.tool, row.count())
            row.clear()
            row.is_listed = False

    def _add(self, client: str, server: str, tool: str, count: Count) -> None:
        for totals in (self._since_start, self._unsaved):
            totals.since = totals.since or datetime.now(UTC).date().isoformat()
            totals.add(client, server, tool, count)

    # --- listings of tools

    def note_listing(
        self,
        client: object,
        name: str | None,
        spent: int,
        shown: Mapping[str, Offers] | None = None,
        *,
        counted_before: bool = False,
    ) -> None:
        """Count a listing of MCPX's own tools by a client of that name, at the cost `spent`.

        Directly it would have been the definitions of all tools of all servers that it is `shown` (None: all
        there are). It takes the place of the listing that the client had before. With `counted_before`
        another daemon has counted that, and nothing is counted now.
        """
        label = self.of_client(name).name
        if isinstance(client, ClientId) and client.sessionless:
            client = client.principal + label
        menu = menu_of(self._upstreams if shown is None else shown, spent)
        count = self._listings.counted_before if counted_before else self._listings.replace
        for server, direct, more in count(client, menu):
            self._activity.begin()
            self._add(label, _label(server), MENU, Count(0, direct, more))

    def client_left(self, client: object) -> None:
        """Forget a client that has left."""
        self._listings.client_left(client)

    # --- the sums

    def since_start(self) -> Totals:
        """The sums since MCPX started; not to be changed."""
        self._sum_window()
        return self._since_start

    def all_time(self) -> Totals:
        """The sums for good, those of other processes as of the last minute."""
        self._sum_window()
        totals = Totals()
        for part in (self._saved, self._writing, self._unsaved):
            totals.merge(part)
        return totals

    def total(self) -> Count:
        """The sum of `all_time`, which costs less."""
        self._sum_window()
        return total(part.total for part in (self._saved, self._writing, self._unsaved))

    # --- for the writer of the file

    def begin_saving(self) -> Totals:
        """Return what is not in the file yet. Call `saved` or `not_saved` next."""
        self._sum_window()
        self._writing, self._unsaved = self._unsaved, Totals()
        return self._writing

    def saved(self, totals: Totals) -> None:
        """It is in the file, which holds these sums now."""
        self._saved, self._writing = totals, Totals()

    def not_saved(self) -> None:
        """It could not be written: it remains for the next time."""
        self._unsaved.merge(self._writing)
        self._writing = Totals()


def _label(name: str) -> str:
    """A name that any file and terminal can hold."""
    return cut(visible(name), MAX_LABEL_CHARS)


def _costs(raw: msgspec.Raw | bytes, pieces: Pieces) -> tuple[int, int]:
    try:
        return costs(raw, pieces)
    except Exception as error:  # noqa: BLE001 - the boundary: the meter must not cost a call
        contain(error, "meter")
        return 0, 0


def tool_label(request: Request) -> str:
    """Return the name under which the tool of a request is counted."""
    return request.tool_name if isinstance(request, Exec) else RESOURCES
