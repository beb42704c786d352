"""The table of `mcpx status`: a status as something that rich prints, and that fits 80 cells.

`render` is pure. Colours are styles, so a console that is no terminal prints none. Names and causes are never
read as markup; what would harm a terminal is left out, and what is long is cut with an ellipsis. `ready x3`
is a server with three sessions, one for each client.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mcpx.core.status import DaemonStatus, HttpStatus, ServerStatus, Status
from mcpx.text import one_line

STYLES: Final = {
    "ready": "green",
    "starting": "cyan",
    "asleep": "dim",
    "waiting": "yellow",
    "parked": "red",
    "stopped": "dim",
    "disabled": "dim",
}
PIPE_WIDTH: Final = 200  # a pipe has no width of its own
MAX_NAME_CELLS: Final = 16  # so that the table fits 80 cells
MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S
THOUSANDS_FROM: Final = 10_000
MILLIONS_FROM: Final = 1_000_000
PRECISE_MS: Final = 100.0  # tenths are not shown from here on


def show(status: dict[str, Any]) -> None:
    """Print a status that came as JSON to standard output.

    Raises:
        msgspec.ValidationError: It is no status.
    """
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(width=width).print(render(msgspec.convert(status, Status)))


def render(status: Status) -> RenderableType:
    """The daemon in one line, a row a server, a line for each server with an error, and what is not new."""
    parts: list[RenderableType] = [_daemon(status), *_config_error(status.daemon)]
    if isinstance(status.daemon.http, HttpStatus):
        parts.append(_http(status.daemon.http))
    parts += [Text(), _table(status.servers)]
    if with_causes := [server for server in status.servers if server.last_error]:
        parts += [Text(), *_causes(with_causes)]
    if old := [one_line(server.name) for server in status.servers if server.from_last_time]:
        parts += [Text(), Text(f"tools from last time: {', '.join(old)}", style="dim")]
    return Group(*parts)


def _daemon(status: Status) -> Text:
    daemon = status.daemon
    ready = sum(server.state == "ready" for server in status.servers)
    text = Text(f"mcpx {daemon.version}", style="bold")
    clients = "1 client" if daemon.clients == 1 else f"{daemon.clients} clients"
    rest = f"  pid {daemon.pid}, up {duration(daemon.uptime_s)}, {clients}"
    asleep = sum(server.state == "asleep" for server in status.servers)
    rest += f", {ready} of {len(status.servers)} servers ready" + (f", {asleep} asleep" if asleep else "")
    return text.append(rest, style="not bold")


def _http(http: HttpStatus) -> Text:
    if http.error is None:
        return Text(f"http {http.url or 'is starting'}")
    wait = "" if http.next_attempt_in_s is None else f" (next attempt in {duration(http.next_attempt_in_s)})"
    return Text(one_line(f"http is not served{wait}: {http.error}"), style="red")


def _config_error(daemon: DaemonStatus) -> list[Text]:
    """A line if the file was changed to something that cannot be used."""
    if not daemon.config_error:
        return []
    return [Text("configuration not reloaded: ", style="red").append(one_line(daemon.config_error))]


def _table(servers: list[ServerStatus]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("server", max_width=MAX_NAME_CELLS, no_wrap=True, overflow="ellipsis")
    table.add_column("state", no_wrap=True)
    for header in ("pid", "up", "re", "tools", "res", "busy", "calls", "p50", "p99 ms"):
        table.add_column(header, justify="right", no_wrap=True)
    for server in servers:
        table.add_row(*_row(server))
    return table


def _row(server: ServerStatus) -> list[Text]:
    latency = server.latency_ms
    cells = (
        "-" if server.pid is None else str(server.pid),
        "-" if server.uptime_s is None else duration(server.uptime_s),
        _count(server.restarts),
        _count(server.tools),
        _count(server.resources),
        _count(server.in_flight) + (f"+{_count(server.queued)}" if server.queued else ""),
        _count(server.calls),
        _latency(latency.p50),
        _latency(latency.p99),
    )
    own = f" x{server.sessions}" if server.sessions else ""
    state = Text(server.state + own, style=STYLES.get(server.state, ""))
    return [Text(one_line(server.name)), state, *map(Text, cells)]


def _causes(servers: list[ServerStatus]) -> list[Text]:
    """Return a line for each server: why it is not ready, or what it last failed with."""
    names = [_cut(one_line(server.name)) for server in servers]
    width = max(map(cell_len, names))
    return [
        Text(set_cell_size(name, width) + "  ", no_wrap=True, overflow="ellipsis").append(*_cause(server))
        for name, server in zip(names, servers, strict=True)
    ]


def _cause(server: ServerStatus) -> tuple[str, str]:
    is_past = server.state in {"ready", "asleep"}
    lead = "earlier: " if is_past else ""
    if server.next_attempt_in_s is not None:
        lead = f"next attempt in {duration(server.next_attempt_in_s)}: "
    style = "dim" if is_past else STYLES.get(server.state, "")
    return lead + one_line(server.last_error or ""), style


def _cut(name: str) -> str:
    return name if cell_len(name) <= MAX_NAME_CELLS else set_cell_size(name, MAX_NAME_CELLS - 1) + "…"


def duration(seconds: float) -> str:
    """`8s`, `12m`, `3h`, `3h05`, `9d`: at most five cells for what lives less than three years."""
    if seconds < MINUTE_S:
        return f"{seconds:.0f}s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S:.0f}m"
    if seconds < DAY_S:
        return f"{seconds // HOUR_S:.0f}h{seconds % HOUR_S // MINUTE_S:02.0f}"
    return f"{seconds // DAY_S:.0f}d"


def _count(number: int) -> str:
    """A number in at most four cells, up to a billion: `9999`, `123k`, `45M`."""
    if number < THOUSANDS_FROM:
        return str(number)
    return f"{number // 1000}k" if number < MILLIONS_FROM else f"{number // 1_000_000}M"


def _latency(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.1f}" if milliseconds < PRECISE_MS else f"{milliseconds:.0f}"
