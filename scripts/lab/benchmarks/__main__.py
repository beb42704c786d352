"""One run: every part in turn, then the tables. Started by scripts/bench.

A part that cannot be measured, or a peer that is not installed, is told with the reason, the others go on,
and the exit code is 1. Progress goes to stderr, the tables or the JSON to stdout. The whole default run takes
a few minutes at most.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from goals import goals
from http_targets import SUPERGATEWAY
from measure_calls import measure_calls, measure_idle
from measure_cluster import measure_cluster
from measure_desks import measure_desks
from measure_hops import measure_hops
from measure_http import measure_http, measure_idle_http
from measure_large import measure_large, measure_toon
from measure_page import measure_page
from measure_scale import children, measure_inspect, measure_start
from measure_start import attach_times, measure_starts
from payloads import json_text, log_text
from process import Unmeasured
from report import show
from rich.console import Console
from targets import DIRECT, HERE, PEERS, audited, child_with, native, targets, trusting

LARGE = 10_000_000
JSON = 1_000_000
CATALOGUE = HERE.parents[2] / "tests" / "data" / "livemcptool" / "tools.json"
PARTS = (
    "calls",
    "audit",
    "idle",
    "large",
    "toon",
    "start",
    "daemon",
    "attach",
    "inspect",
    "page",
    "hops",
    "http",
    "http-idle",
    "cluster",
    "desks",
)
ROUNDS = 9
SECONDS = 0.8


@click.command(context_settings={"max_content_width": 110})
@click.option("--rounds", type=click.IntRange(1), help=f"Rounds of each part.  [default: {ROUNDS}; quick: 2]")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Length of one measurement of small calls."
)
@click.option("--quick", is_flag=True, help="Short and rough: for a look, not for a README.")
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="This part alone; may be repeated.")
@click.option("--catalogue", type=click.Path(path_type=Path), default=CATALOGUE, help="The 527 tools.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Also draw a PNG.")
def main(**options: object) -> None:
    """Measure MCPX beside the direct call and the gateways of others, before the same child."""
    quick = options["quick"]
    rounds = options["rounds"] or (2 if quick else ROUNDS)
    seconds = options["seconds"] or (0.4 if quick else SECONDS)
    machine = _machine(rounds)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mcpx-bench-") as folder:
        figures, problems = _measure(
            Path(folder), options["only"] or PARTS, options["catalogue"], rounds, seconds
        )
    machine |= {"load_after": os.getloadavg()[0], "took_s": time.monotonic() - began}
    figures["machine"] = machine
    figures["goals"] = [
        {"measure": g.measure, "value": g.value, "limit": g.limit, "at_most": g.at_most, "holds": g.holds}
        for g in goals(figures)
    ]
    if options["as_json"]:
        print(json.dumps(figures, indent=1))
    else:
        show(figures, Console())
    if options["plot"]:
        drawn = subprocess.run(
            [PEERS / "python", HERE / "plot.py", options["plot"]],
            input=json.dumps(figures),
            text=True,
            check=False,
        )
        if drawn.returncode:
            problems.append("the plot could not be drawn")
    for problem in problems:
        _say(f"not measured: {problem}")
    sys.exit(1 if problems else 0)


def _measure(
    work: Path, wanted: tuple[str, ...], catalogue: Path, rounds: int, seconds: float
) -> tuple[dict, list[str]]:
    """The figures of the wanted parts, and what went wrong with the others."""
    large, as_json = log_text(LARGE), json_text(JSON)
    payloads = {"text": work / "text", "json": work / "json"}
    for path, text in zip(payloads.values(), (large, as_json), strict=True):
        path.write_text(text)
    wished = targets(work, payloads)
    there = [target for target in wished if target.installed]
    problems = [f"{each.name}: not installed, run scripts/bench" for each in wished if not each.installed]
    child = child_with(payloads)
    figures: dict = {"large_bytes": len(large.encode())}
    found: dict[str, list[str]] = {}

    def servers() -> dict[str, list[str]]:
        if not found:
            found.update(children(catalogue, work))
        return found

    gateways = [target for target in there if target.name != DIRECT]
    few = min(rounds, 3)  # where a round is dear
    parts: dict[str, Callable[[], dict]] = {
        "calls": lambda: measure_calls(
            [*there, native(work / "native", child), *trusting(work, child)], rounds=rounds, seconds=seconds
        ),
        "audit": lambda: measure_calls(audited(work / "audit", child), rounds=rounds, seconds=seconds),
        "idle": lambda: measure_idle(gateways),
        "large": lambda: measure_large(there, large, rounds=min(rounds, 5)),
        "toon": lambda: measure_toon(there, as_json, rounds=min(rounds, 5)),
        "start": lambda: measure_start(servers(), work, rounds=few),
        "daemon": lambda: measure_starts(servers(), work, rounds=few),
        "attach": lambda: attach_times(servers(), work),
        "inspect": lambda: measure_inspect(servers(), work, rounds=few),
        "page": lambda: measure_page(servers(), work, rounds=rounds, seconds=2.5 * seconds),
        "hops": lambda: measure_hops(work, child, rounds=rounds, seconds=seconds),
        "http": lambda: measure_http(work, child, rounds=min(rounds, 5), seconds=seconds),
        "http-idle": lambda: measure_idle_http(work, child, rounds=min(rounds, 5), seconds=seconds),
        "cluster": lambda: measure_cluster(work, child, rounds=rounds, seconds=seconds),
        "desks": lambda: {"rows": measure_desks(servers(), work / "desks")},
    }
    for part in wanted:
        _say(f"measuring {part} ...")
        try:
            figures[part] = parts[part]()
        except (Unmeasured, OSError) as error:
            problems.append(f"{part}: {error}")
    for name, its in figures.get("http", {}).items():
        if "missing" in its:
            problems.append(f"{name}: {its['missing']}")
    return figures, problems


def _machine(rounds: int) -> dict:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "?")
    lists = ("requirements.txt", "requirements-mcp-proxy.txt")
    pins = " ".join((HERE / name).read_text() for name in lists).split()
    gateway = json.loads((HERE / "package.json").read_text())["dependencies"][SUPERGATEWAY]
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "peers": [pin for pin in pins if "==" in pin and not pin.startswith("matplotlib")]
        + [f"{SUPERGATEWAY}=={gateway}"],
        "load_before": os.getloadavg()[0],
        "rounds": rounds,
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


main()
