"""The run as tables for a person. Medians over the rounds; ratios as `goals` makes them."""

from __future__ import annotations

import statistics

from goals import MB, goals, ratio
from rich.console import Console
from rich.table import Table
from targets import COMPRESSOR, DIRECT

NO_VALUE = "-"
WIDTH = 132  # of the widest table


def show(figures: dict, console: Console) -> None:
    """Print what was measured, and the verdict."""
    console.width = max(console.width, WIDTH)
    console.print(_machine(figures["machine"]), style="dim")
    if "calls" in figures or "large" in figures or "idle" in figures:
        console.print(_targets(figures))
    if figures.keys() & {"toon", "start", "attach", "inspect", "page"}:
        console.print(_scales(figures))
    if "hops" in figures:
        console.print(_hops(figures["hops"]))
    if "http" in figures:
        console.print(_http(figures["http"]))
    if "http-idle" in figures:
        console.print(_idle_http(figures["http-idle"]))
    if "cluster" in figures:
        console.print(_cluster(figures["cluster"]))
    if "daemon" in figures:
        console.print(_starts(figures["daemon"]))
    if "desks" in figures:
        console.print(_desks(figures["desks"]["rows"]))
    console.print(_verdict(figures))


def _desks(rows: list[dict]) -> Table:
    """What clients and servers take with and without MCPX."""
    table = Table(title="desks: clients that open their sessions at once")
    for column in ("", "clients", "servers", "", "processes", "PSS MB", "ready s", "menu, tokens"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        for way in ("without", "with"):
            its = row[way]
            figures = (its["processes"], its["pss"] / MB, its["ready_s"], its["tokens"])
            shown = [f"{value:,.{digits}f}" for value, digits in zip(figures, (0, 0, 1, 0), strict=True)]
            table.add_row(row["desk"], str(row["clients"]), str(row["servers"]), f"{way} MCPX", *shown)
    return table


def _hops(figures: dict) -> Table:
    """What each MCPX on the way to a server costs."""
    table = Table(title="exec over several MCPX, before the same child")
    for column in ("", "p50 ms", "p99 ms", "calls/s at 32"):
        table.add_column(column, justify="left" if not column else "right")
    for name, its in figures.items():
        p50, p99 = _median(its["p50_ms"]), _median(its["p99_ms"])
        table.add_row(name, f"{p50:.3f}", f"{p99:.2f}", f"{_median(its['per_s']):,.0f}")
    return table


def _http(figures: dict) -> Table:
    """Calls over HTTP, by target and way; a target or way that is missing is told elsewhere."""
    table = Table(title="calls over HTTP (columns at 32: with 32 in flight)")
    columns = {"p50_ms": "p50 ms", "p99_ms": "p99 ms", "per_s": "calls/s at 32", "p50_ms_at_32": "p50 at 32"}
    columns |= {"p99_ms_at_32": "p99 at 32", "cpu_us": "CPU µs", "client_us": "client's µs"}
    table.add_column("accepted")
    table.add_column("answers")
    for column in (*columns.values(), "errors"):
        table.add_column(column, justify="right")
    for name, its in figures.items():
        if "missing" not in its:
            values = [f"{_median(its[key]):,.{_digits(key)}f}" for key in columns]
            table.add_row(name, its["answers"], *values, f"{sum(its['errors']):.0f}")
    return table


def _digits(key: str) -> int:
    return {"p50_ms": 3, "p99_ms": 2}.get(key, 0)


def _idle_http(figures: dict) -> Table:
    """Memory of the daemon for each idle HTTP client, and how fast one that works is beside them."""
    table = Table(title="1,000 idle HTTP clients, and one that works")
    for column in ("each of them", "kB each", "p50 ms alone", "beside", "p99 ms alone", "beside"):
        table.add_column(column, justify="left" if column == "each of them" else "right")
    for kind, its in figures.items():
        times = [
            f"{_median(its[place][key]):.2f}" for key in ("p50_ms", "p99_ms") for place in ("alone", "beside")
        ]
        table.add_row(kind, f"{its['bytes'] / 1000:.1f}", *times)
    return table


def _cluster(figures: dict) -> Table:
    """What a cluster costs a call, beside other ways over one more process."""
    table = Table(title="exec through a cluster of one node, and other ways, before the same child")
    for column in ("", "p50 ms", "p95 ms", "CPU µs, all processes", "calls/s at 32"):
        table.add_column(column, justify="left" if not column else "right")
    for name, its in figures.items():
        p50, p95 = _median(its["p50_ms"]), _median(its["p95_ms"])
        cpu, rate = _median(its["cpu_us"]), _median(its["per_s"])
        table.add_row(name, f"{p50:.3f}", f"{p95:.2f}", f"{cpu:.0f}", f"{rate:,.0f}")
    return table


def _machine(machine: dict) -> str:
    load = f"load {machine['load_before']:.1f} before, {machine['load_after']:.1f} after"
    return (
        f"{machine['cpus']} x {machine['cpu']}, {machine['system']}, Python {machine['python']}, {load}; "
        f"{machine['rounds']} rounds, {machine['took_s']:.0f} s; peers {', '.join(machine['peers'])}"
    )


def _targets(figures: dict) -> Table:
    table = Table(title="exec through a gateway, before the same child")
    table.add_column("")
    names = list(dict.fromkeys(name for part in ("calls", "large", "idle") for name in figures.get(part, {})))
    for column in (
        "p50 ms",
        "x direct",
        "p99 ms",
        "calls/s at 32",
        "CPU µs",
        "10 MB ms",
        "x direct",
        "peak MB",
        "idle MB",
    ):
        table.add_column(column, justify="right")
    for name in names:
        calls, large = figures.get("calls", {}).get(name), figures.get("large", {}).get(name)
        row = [NO_VALUE] * 9
        if calls:
            row[0] = f"{_median(calls['p50_ms']):.3f}"
            row[1] = f"{ratio(calls['p50_ms'], figures['calls'][DIRECT]['p50_ms']):.2f}"
            row[2] = f"{_median(calls['p99_ms']):.2f}"
            row[3] = f"{_median(calls['per_s']):,.0f}"
            row[4] = f"{_median(calls['cpu_us']):.0f}"
        if large:
            row[5] = f"{_median(large['ms']):.1f}"
            row[6] = f"{ratio(large['ms'], figures['large'][DIRECT]['ms']):.2f}"
            row[7] = f"{large['peak'] / MB:.0f}"
        if idle := figures.get("idle", {}).get(name):
            row[8] = f"{idle['rss'] / MB:.0f} (PSS {idle['pss'] / MB:.0f})"
        table.add_row(name, *row)
    return table


def _scales(figures: dict) -> Table:
    table = Table(title="MCPX: TOON and scale")
    table.add_column("")
    table.add_column("median", justify="right")
    if toon := figures.get("toon"):
        whole, encoding, shaping = (_median(toon[name]) for name in ("ms", "toon_ms", "shaping_ms"))
        size = f"{toon['characters'] / MB:.1f} MB of JSON to {toon['toon_characters'] / MB:.2f} MB of TOON"
        table.add_row(f"{size}, the call", f"{whole:.1f} ms")
        table.add_row("  the same without MCPX", f"{_median(toon['direct_ms']):.1f} ms")
        table.add_row("  share of the TOON encoder", f"{encoding / whole:.0%} ({encoding:.1f} ms)")
        table.add_row(
            "  with parsing and the checks of fidelity", f"{shaping / whole:.0%} ({shaping:.1f} ms)"
        )
    if start := figures.get("start"):
        table.add_row("70 bare children, started and answered", f"{_median(start['children']):.2f} s")
        table.add_row("all ready in MCPX, from its own start", f"{_median(start['mcpx']):.2f} s")
        if "compressor" in start:
            table.add_row(f"all ready in {COMPRESSOR}", f"{_median(start['compressor']):.2f} s")
        table.add_row("  a call meanwhile, answered in MCPX", f"{_median(start['mcpx_call']):.2f} s")
        own = f"{_median(start['mcpx_own']):.2f} s"
        table.add_row("  from the start of its first child", own)
        table.add_row(
            "  the latter, to the bare children", f"{ratio(start['mcpx_own'], start['children']):.2f}"
        )
    if attach := figures.get("attach"):
        for which, running in (("cold", "no daemon"), ("warm", "a daemon")):
            name = f"tools of 15 known servers through a shim, {running} running"
            table.add_row(name, f"{_median(attach[f'{which}_ms']):.0f} ms")
        table.add_row("  an interpreter that does nothing", f"{_median(attach['python_ms']):.0f} ms")
        table.add_row("  memory of the shim", f"{_median(attach['rss']) / MB:.1f} MB")
    if page := figures.get("page"):
        for name, what in (("idle", "nothing called"), ("busy", "1,000 calls a second")):
            shares = " / ".join(f"{_median(page[state][name]):.1%}" for state in ("closed", "open"))
            table.add_row(f"the daemon's share of a core, {what}, page closed / open", shares)
        costs = " / ".join(f"{_median(page[state]['cpu_us']):.0f}" for state in ("closed", "open"))
        table.add_row("CPU of a call of 70 servers, 32 in flight, page closed / open", f"{costs} µs")
    if looks := figures.get("inspect"):
        table.add_row("inspect of a tool, 5 tools", f"{_median(looks['few']):.3f} ms")
        table.add_row("inspect of a tool, 527 tools", f"{_median(looks['all']):.3f} ms")
    return table


def _starts(rows: list[dict]) -> Table:
    table = Table(title="the daemon's start (known: its servers have been listed before)")
    for column in ("servers", "known", "files"):
        table.add_column(column)
    for column in ("first tools/list ms", "MB", "processes of servers", "first call ms", "without MCPX ms"):
        table.add_column(column, justify="right")
    for row in rows:
        calls = [
            f"{_median(row[name]):.0f}" if name in row else NO_VALUE for name in ("first_call_ms", "own_ms")
        ]
        table.add_row(
            f"{row['servers']} {row['kind']}",
            "yes" if row["known"] else "no",
            "cold" if row["cold"] else "warm",
            f"{_median(row['tools_ms']):.0f}",
            f"{_median(row['rss']) / MB:.0f}",
            f"{_median(row['processes']):.0f}",
            *calls,
        )
    return table


def _verdict(figures: dict) -> Table:
    table = Table(title="targets (ratios are medians of the rounds' ratios)")
    for column in ("measure", "value", "target", ""):
        table.add_column(column, justify="left" if column == "measure" else "right")
    for goal in goals(figures):
        limit = f"{'<=' if goal.at_most else '>='} {goal.limit:g}"
        table.add_row(
            goal.measure, f"{goal.value:.2f}", limit, "holds" if goal.holds else "[red]missed[/red]"
        )
    return table


_median = statistics.median
