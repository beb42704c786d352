"""The figures as tables: for a terminal, and as Markdown for the pages (`scripts/docs --insert`)."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from scripts.lab.contextbench.recorded import JSON
from scripts.lab.contextbench.surfaces import COMPRESSORS, DIRECT, LISTING, SEARCH

WIDTH = 116
COMPRESSOR = list(COMPRESSORS)[-1]  # the highest level
PARTS = ("searches", "lookups", "results")
HEAD = ("connected", "menu", "searches", "look-ups", "results", "mean", "median", "saved", "written")
SEARCH_HEAD = ("searching", "labelled tools shown", "tasks with all their tools shown", "tokens an answer")
NAMES = {DIRECT: "all tools directly"}


def session_rows(made: JSON) -> list[tuple[str, ...]]:
    """A row for each surface. The parts are means and add up to the mean; what is written is not in it."""
    direct = made["surfaces"].get(DIRECT, {}).get("median")
    rows = []
    for name, each in made["surfaces"].items():
        parts = each["parts"]
        costs = (parts["instructions"] + parts["menu"], *(parts[part] for part in PARTS))
        share = f"{1 - each['median'] / direct:.1%}".replace("%", " %") if direct else ""
        numbers = (*costs, each["mean"], each["median"])
        shown = [f"{number:,.0f}" for number in numbers]
        rows.append((NAMES.get(name, name), *shown, share, f"{parts['written']:,.0f}"))
    return rows


def search_rows(made: JSON) -> list[tuple[str, ...]]:
    """A row for the recorded router, and those of MCPX."""
    return [
        (name, f"{each['named']:.0%}", f"{each['whole']:.0%}", f"{each['answer']['mean']:,.0f}")
        for name, each in made["search"].items()
    ]


def markdown(made: JSON) -> str:
    """Both tables, with an empty line between."""
    rows = [(name, *(cell.replace("%", " %") for cell in cells)) for name, *cells in search_rows(made)]
    return f"{_markdown(HEAD, session_rows(made))}\n\n{_markdown(SEARCH_HEAD, rows)}\n"


def demo_data(made: JSON) -> JSON:
    """What `mcpx demo` ends with: the medians of the main surfaces (`recorded_sessions.json`)."""
    shown = {
        "all tools connected directly": DIRECT,
        "mcp-compressor at its highest level": COMPRESSOR,
        LISTING: LISTING,
        SEARCH: SEARCH,
    }
    return {
        "source": "LiveMCPBench, replayed by scripts/context",
        **{key: made[key] for key in ("servers", "tools", "sessions", "tokenizer")},
        "median_tokens": {what: round(made["surfaces"][name]["median"]) for what, name in shown.items()},
    }


def show(made: JSON, console: Console) -> None:
    """Print the tables and the goals."""
    console.width = max(console.width, WIDTH)
    counts = "{servers} servers, {tools} tools; {sessions} sessions with {searches} searches, {calls} calls"
    console.print(f"{counts.format(**made)}; tokens of {made['tokenizer']}", style="dim")
    console.print(_table("what a model reads in a session (parts are means)", HEAD, session_rows(made)))
    console.print(_table("what the searches show, held half of the tasks", SEARCH_HEAD, search_rows(made)))
    goals = [
        (
            goal["measure"],
            f"{goal['value']:,.3g}" if goal["value"] < 1 else f"{goal['value']:,.0f}",
            f"{'<=' if goal['at_most'] else '>='} {goal['limit']:g}",
            "holds" if goal["holds"] else "[red]missed[/red]",
        )
        for goal in made["goals"]
    ]
    console.print(_table("goals", ("measure", "value", "goal", ""), goals))


def _table(title: str, head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(title=title)
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---", *("---:" for _ in head[1:])), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
