"""The table of faults, and what a soak or a series of kills showed, for a person to read."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tests.faults.audit_soak import AuditSoak
from tests.faults.hostile import HostileSeen
from tests.faults.kills import Kills
from tests.faults.load import Load
from tests.faults.long_lives import LongLife
from tests.faults.stage import Seen

WIDTH = 112


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def show_table(table: list[Seen], console: Console) -> None:
    """A row a fault, and below it what falls short."""
    console.width = max(console.width, WIDTH)
    shown = Table()
    for column in ("fault", "the caller saw", "after", "the server then", "after", "left over", ""):
        shown.add_column(column, justify="right" if column in {"after", "left over"} else "left")
    for seen in table:
        verdict = "[red]falls short[/]" if seen.problems else "[green]ok[/]"
        after, back = _ms(seen.error_s), _ms(seen.recovery_s)
        shown.add_row(seen.fault, seen.caller_saw, after, seen.ended, back, str(seen.left), verdict)
    console.print(shown)
    for seen in table:
        for problem in seen.problems:
            console.print(f"{seen.fault}: {problem}", style="red", markup=False)


def markdown(table: list[Seen]) -> str:
    """The table as docs/faults.md has it."""
    lines = [
        "| fault | the caller saw | after | the server then | after | left over |",
        "|---|---|---:|---|---:|---:|",
    ]
    for seen in table:
        after, back = _ms(seen.error_s), _ms(seen.recovery_s)
        cells = (seen.fault, seen.caller_saw, after, seen.ended, back, str(seen.left))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


HOSTILE_COLUMNS = (
    "hostile or odd",
    "the caller saw",
    "neighbour p99",
    "slowest",
    "memory",
    "bound",
    "left over",
)


def _hostile_cells(seen: HostileSeen) -> tuple[str, ...]:
    p99, slowest = _ms(seen.neighbour_p99_s), _ms(seen.neighbour_slowest_s)
    memory = (f"+{seen.memory_mb:.0f} MB", f"{seen.memory_bound_mb:g} MB")
    return (seen.fault, seen.caller_saw, p99, slowest, *memory, str(seen.left))


def show_hostile_table(table: list[HostileSeen], console: Console) -> None:
    """The same for the table of what is hostile or odd."""
    console.width = max(console.width, WIDTH)
    shown = Table()
    for column in (*HOSTILE_COLUMNS, ""):
        shown.add_column(column, justify="left" if column in {*HOSTILE_COLUMNS[:2], ""} else "right")
    for seen in table:
        shown.add_row(*_hostile_cells(seen), "[red]falls short[/]" if seen.problems else "[green]ok[/]")
    console.print(shown)
    for seen in table:
        for problem in seen.problems:
            console.print(f"{seen.fault}: {problem}", style="red", markup=False)


def hostile_markdown(table: list[HostileSeen]) -> str:
    """The same for the table of what is hostile or odd."""
    lines = [f"| {' | '.join(HOSTILE_COLUMNS)} |", "|---|---|---:|---:|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(_hostile_cells(seen))} |" for seen in table)])


def show_load(load: Load, console: Console) -> None:
    """What happened under load."""
    growth = load.growth
    before, after = growth.memory_mb
    failed = ", ".join(f"{number} {said}" for said, number in load.failed.items()) or "none"
    for name, value in (
        ("time", f"{load.seconds:.0f} s"),
        ("children killed", f"{load.kills:,}"),
        ("calls", f"{load.calls:,}, answered {load.answered:,}"),
        ("failed", failed),
        ("effects twice", str(load.duplicated)),
        ("answered, not done", str(load.lost)),
        ("done, said not sent", str(load.denied)),
        ("orphans, zombies", f"{load.orphans}, {load.zombies}"),
        ("memory", f"{before:.1f} MB before, {after:.1f} MB after"),
        ("file descriptors", f"{growth.descriptors[0]} before, {growth.descriptors[1]} after"),
    ):
        console.print(f"{name:22}{value}", highlight=False)
    for problem in load.problems:
        console.print(problem, style="red", markup=False)


def show_long_life(life: LongLife, console: Console) -> None:
    """What happened in a long life."""
    failed = ", ".join(f"{number} {said}" for said, number in life.failed.items()) or "none"
    what = f"{life.starts:,}" + (f", of {life.expected:,} that there were" if life.expected else "")
    for name, value in (
        ("time", f"{life.seconds:.0f} s"),
        ("calls", f"{life.calls:,}, answered {life.answered:,}, the slowest after {life.slowest_s:.2f} s"),
        ("failed", failed),
        ("values fetched" if life.expected else "processes", what),
        ("effects twice", str(life.duplicated)),
        ("answered, not done", str(life.lost)),
        ("done, said not sent", str(life.denied)),
        ("most memory", f"{life.peak_mb:,.0f} MB" if life.peak_mb else "-"),
        ("left over", str(life.left)),
    ):
        console.print(f"{name:22}{value}", highlight=False)
    for problem in life.problems:
        console.print(problem, style="red", markup=False)


def show_audit(soaked: AuditSoak, console: Console) -> None:
    """What the audit log holds after so many calls and kills."""
    outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in soaked.outcomes.items())
    for name, value in (
        ("time", f"{soaked.seconds:.0f} s"),
        ("calls", f"{soaked.calls:,}"),
        ("killed", f"{soaked.server_kills} servers, {soaked.daemon_kills} daemons"),
        ("lines by outcome", outcomes.replace(", None", "")),
    ):
        console.print(f"{name:22}{value}", highlight=False)
    for problem in soaked.problems:
        console.print(problem, style="red", markup=False)


def show_kills(kills: Kills, problems: list[str], console: Console) -> None:
    """What happened over so many deaths."""
    show_load(kills.load, console)
    for name, value in (
        ("slope of memory", f"{kills.load.growth.memory_slope_kb:.2f} kB a kill"),
        ("kill to error", f"{_ms(kills.told_s[0])} (p99 {_ms(kills.told_s[1])})"),
        ("kill to next answer", f"{_ms(kills.ready_s[0])} (p99 {_ms(kills.ready_s[1])})"),
        ("the bare child's start", _ms(kills.own_start_s)),
    ):
        console.print(f"{name:24}{value}", highlight=False)
    for problem in problems:
        console.print(problem, style="red", markup=False)
