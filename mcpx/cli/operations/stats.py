"""`mcpx stats`: the tokens that MCPX has saved its clients, as a table with a bar for each row.

From the daemon where one runs, else from the file that all processes of the configuration keep. `render` is
pure; names are never read as markup. Where standard output is no terminal, the bars are ASCII.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import FOLD, NO_WRAP, NUMBER, console, counted, print_json, saved, table_of, tokens
from mcpx.core.daemon.control_client import request
from mcpx.core.store.paths import daemon_paths
from mcpx.core.text import one_line
from mcpx.errors import MCPXError

BAR_CELLS: Final = 24
MAX_ROWS: Final = 40
TERMINAL_BAR: Final = ("█", "░")
PLAIN_BAR: Final = ("#", ".")
NOTHING: Final = "nothing counted yet: no client has listed the tools or called one"
_LISTS: Final = {"client": "clients", "server": "servers", "tool": "tools"}


@click.command(short_help="The tokens that MCPX has saved.")
@with_config
@click.option(
    "--by", type=click.Choice(list(_LISTS)), default="server", show_default=True, help="A row each."
)
@click.option("--all", "of_all", is_flag=True, help="Of all configurations together.")
@json_option
def stats(*, config_path: str | None, by: str, of_all: bool, as_json: bool) -> None:
    """Show what results and lists of tools have cost in tokens, and would have cost without MCPX.

    Both are estimates, made the same way: a token is about four letters of what a model is charged for. Saved
    is the share that reached no model. The table is of all time; the daemon's own time has a line above it.

    A call is one request of a client to a server, however it ended; look-ups and what MCPX asks of itself do
    not count. The menu, which is the list of tools, counts once a session: the last one.
    """
    report = _ask(config_path, of_all=of_all)
    if as_json:
        print_json(report)
        return
    output = console()
    has_blocks = sys.stdout.isatty() and output.encoding.startswith("utf")
    output.print(render(report, by=by, bar=TERMINAL_BAR if has_blocks else PLAIN_BAR))


def _ask(config_path: str | None, *, of_all: bool) -> dict[str, Any]:

    paths = daemon_paths(config_path)
    if not of_all and (response := request(paths, {"mcpx": "stats"})) is not None:
        return response
    from mcpx.core.events.stats import report  # structlog, which a daemon has loaded already
    from mcpx.core.events.stats_file import read_all_stats, stats_file  # likewise

    try:
        return report(read_all_stats() if of_all else stats_file(paths.folder).read(), None)
    except OSError as error:
        raise MCPXError(f"{error.filename}: {error.strerror}") from None


def render(report: dict[str, Any], *, by: str = "server", bar: tuple[str, str] = PLAIN_BAR) -> RenderableType:
    """A report as two lines of sums, and a row for each server, client or tool."""
    all_time, since_start = report["all_time"], report["since_start"]
    if not all_time["since"]:
        return Text(NOTHING)
    parts: list[RenderableType] = [_sentence(f"since {all_time['since']}", all_time["total"], style="bold")]
    if since_start is not None:
        parts.append(_sentence("since the start", since_start["total"]))
    rows = all_time[_LISTS[by]]
    parts += [Text(), _table(rows[:MAX_ROWS], by, bar)]
    if len(rows) > MAX_ROWS:
        parts.append(Text(f"and {len(rows) - MAX_ROWS} more: --json has them all"))
    return Group(*parts)


def _sentence(period: str, count: dict[str, int], style: str = "") -> Text:
    direct, spent = count["direct"], count["spent"]
    sums = f"{tokens(direct)} tokens directly, {tokens(spent)} through MCPX ({saved(direct, spent)} saved)"
    calls, kept = counted(count["calls"], "call"), count.get("cached", 0)
    calls += f" ({kept:,} from the cache)" if kept else ""
    return Text(f"{period}, {calls}: {sums}", style=style)


def _table(rows: list[dict[str, Any]], by: str, bar: tuple[str, str]) -> Table:
    numbers = dict.fromkeys(("calls", "direct", "mcpx", "saved"), NUMBER)
    table = table_of({by: FOLD, **numbers, "": NO_WRAP})
    longest = max((max(row["direct"], row["spent"]) for row in rows), default=0)
    for row in rows:
        name = f"{row['server']} {row['tool']}" if by == "tool" else row[by]
        direct, spent = row["direct"], row["spent"]
        cells = (str(row["calls"]), tokens(direct), tokens(spent), saved(direct, spent))
        table.add_row(Text(one_line(name)), *map(Text, cells), _bar(row, longest, bar))
    return table


def _bar(row: dict[str, Any], longest: int, bar: tuple[str, str]) -> Text:
    """A bar of what was spent, then of what was saved; as long as the cost without MCPX."""
    spent, direct = (round(BAR_CELLS * row[key] / max(1, longest)) for key in ("spent", "direct"))
    return Text().append(bar[0] * spent, style="green").append(bar[1] * max(0, direct - spent), style="dim")
