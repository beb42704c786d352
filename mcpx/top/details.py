"""The texts of the screens of `mcpx top`: a server whole, the clients, the help. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mcpx.cli.stats import saved, tokens
from mcpx.cli.status_table import count, duration, remarks, shown_state
from mcpx.core.daemon.status import Cost, ServerStatus, SignInStatus, Status, Tokens
from mcpx.core.system.processes import Use
from mcpx.core.text import one_line
from mcpx.top.columns import in_bytes, latency, percent, rate
from mcpx.top.history import Row, bars

MAX_TEXT: Final = 2000  # characters of a cause or a difference
MAX_ROWS: Final = 40  # tools, clients or changes, and lines of a difference
MAX_NAME_CELLS: Final = 40
FACT_CELLS: Final = 12
MIN_CURVE_CELLS: Final = 10

KEYS: Final = (
    ("↑ ↓ k j", "choose a server; g the first, G the last"),
    ("Enter", "everything about it"),
    ("l", "its log, live"),
    ("r", "restart it; asks first"),
    ("/", "show only rows with these words; Esc shows all"),
    ("s S", "sort by the next thing, or by the one before"),
    ("c", "clients: what each has spent and saved"),
    ("Esc", "back to the table"),
    ("q", "quit"),
)
MEANINGS: Final = (
    ("state", "asleep: started when it is needed; retries in: after a failure;"),
    ("", "parked: it failed too often, and r starts it again"),
    ("up re", "time since it was started; restarts"),
    ("calls /s", "calls since the daemon's start, however they ended; a second, now"),
    ("p50 p95ms", "half of the last 512 calls took at most so many ms; 95 of 100"),
    ("busy", "calls that run, + calls that wait"),
    ("fail ref", "failed: sent, with no good answer; refused: nothing was sent"),
    ("saved", "tokens that reached no model, estimated, since the start"),
    ("mem cpu", "of its process and all that it has started; cpu is of one core"),
)


def help_text() -> Text:
    """What the keys do, and what the columns mean."""
    lines = [*KEYS, ("", ""), *MEANINGS]
    return Text("\n").join(_fact(key, Text(meaning)) for key, meaning in lines)


def server(row: Row, use: Use | None, width: int) -> Text:
    """Everything about a server, a fact a line; `use` is of its processes, if that is known."""
    return Text("\n").join(_facts(row, use, width))


def _facts(row: Row, use: Use | None, width: int) -> Iterator[Text]:
    known = row.server
    state = shown_state(known)
    if known.uptime_s is not None:
        state.append(f" for {duration(known.uptime_s)}", style="not dim")
    yield _fact("state", state)
    for text, style in remarks(known):
        yield _fact("", Text(one_line(text, MAX_TEXT), style=style))
    where = [known.transport, known.protocol_version, known.pid and f"pid {known.pid}"]
    where += [f"on the node {known.node}"] if known.node else []
    if use is not None:
        where += [f"{in_bytes(use.memory)} of memory", f"{percent(use.cpu)} of a core"]
    yield _fact("connection", Text(", ".join(one_line(each, MAX_TEXT) for each in where if each)))
    yield _fact("restarts", Text(f"{known.restarts}, failures in a row: {known.failures}"))
    yield _fact("offers", Text(_offers(known)))
    yield _fact("calls", Text(_calls(row)))
    time = known.latency_ms
    yield _fact("ms", Text(f"p50 {latency(time.p50)}, p95 {latency(time.p95)}, p99 {latency(time.p99)}"))
    curve = bars(row.calls, max(MIN_CURVE_CELLS, width - FACT_CELLS - 3))
    yield _fact("calls/s", Text(curve.lstrip() or "-", style="cyan"))
    if isinstance(known.sign_in, SignInStatus):
        yield _fact("sign-in", Text(_sign_in(known.sign_in)))
    if isinstance(known.tokens, Tokens):
        yield from _tokens(known.tokens)
    yield from _changes(known)


def _offers(known: ServerStatus) -> str:
    numbers = {
        "tools": known.tools,
        "resources": known.resources,
        "templates": known.templates,
        "prompts": known.prompts,
    }
    left_out = f", left out or cut: {known.left_out}" if known.left_out else ""
    old = f" (from last time, {known.listed_at or 'not now'})" if known.from_last_time else ""
    return one_line(", ".join(f"{number} {what}" for what, number in numbers.items()) + left_out + old)


def _calls(row: Row) -> str:
    known = row.server
    ends = f"{count(known.failed)} failed, {count(known.refused)} refused"
    now = f"{known.in_flight} in flight, {known.queued} waiting"
    return f"{count(known.calls)}, {ends}, {now}, {rate(row.rate)} a second"


def _sign_in(sign_in: SignInStatus) -> str:
    scopes = " ".join(sign_in.scopes or [])
    expires = f"token until {sign_in.expires_at}" if sign_in.expires_at else "no token"
    return one_line(f"{expires}{f', scopes {scopes}' if scopes else ''}", MAX_TEXT)


def _tokens(known: Tokens) -> Iterator[Text]:
    for period, cost in (("since start", known.since_start), ("all time", known.all_time)):
        yield _fact("tokens", Text(f"{period}: {_cost(cost)}"))
    tools = known.since_start.tools
    if isinstance(tools, msgspec.UnsetType) or not tools:
        return
    yield Text()
    yield from _table("tool", tools)


def _changes(known: ServerStatus) -> Iterator[Text]:
    """What waits for approval, with the difference."""
    for change in (known.changes or [])[:MAX_ROWS]:
        yield Text()
        yield Text(one_line(change.summary, MAX_TEXT), style="yellow")
        for line in change.difference[:MAX_ROWS]:
            style = {"+": "green", "-": "red"}.get(line[:1], "")
            yield Text(one_line(line, MAX_TEXT), style=style)


def clients(status: Status) -> Text:
    """How many clients are connected, and what each that has ever called has spent and saved."""
    lines = [Text(f"connected now: {status.daemon.clients}")]
    if isinstance(known := status.daemon.tokens, Tokens):
        for period, cost in (("Since the start", known.since_start), ("All time", known.all_time)):
            lines += [Text(), Text(f"{period}: {_cost(cost)}", style="bold")]
            named = cost.clients
            if not isinstance(named, msgspec.UnsetType) and named:
                lines += _table("client", named)
    return Text("\n").join(lines)


def _table(what: str, costs: Mapping[str, Cost]) -> Iterator[Text]:
    """A row for each name, what saved most first."""
    rows = sorted(costs.items(), key=lambda each: each[1].spent - each[1].direct)
    names = [one_line(name, MAX_NAME_CELLS) for name, _ in rows[:MAX_ROWS]]
    width = max(map(cell_len, [what, *names]))
    yield Text(f"{_padded(what, width)}  direct  mcpx  saved", style="bold")
    for name, (_, cost) in zip(names, rows, strict=False):
        share = saved({"direct": cost.direct, "spent": cost.spent})
        numbers = f"{tokens(cost.direct):>6} {tokens(cost.spent):>5} {share:>6}"
        yield Text(f"{_padded(name, width)}  {numbers}")
    if len(rows) > MAX_ROWS:
        yield Text(f"and {len(rows) - MAX_ROWS} more: mcpx stats", style="dim")


def _cost(cost: Cost) -> str:
    share = saved({"direct": cost.direct, "spent": cost.spent})
    return f"{tokens(cost.direct)} directly, {tokens(cost.spent)} through MCPX ({share} saved)"


def _fact(name: str, value: Text) -> Text:
    return Text(_padded(name, FACT_CELLS), style="dim").append_text(_undimmed(value))


def _undimmed(value: Text) -> Text:
    """A text whose style stays its own behind one that is dim."""
    return Text("", style="not dim").append_text(value)


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cell_len(text))
