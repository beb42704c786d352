"""Plays the recorded sessions on every surface and prints the tables. Started by scripts/context.

A surface that cannot be measured is told with the reason, the others go on, and the exit code is 1. Progress
goes to stderr, the tables, the Markdown or the JSON to stdout. A whole run takes a few minutes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console

from scripts.lab.benchmarks.process import Unmeasured
from scripts.lab.contextbench.figures import figures
from scripts.lab.contextbench.play import Played, play
from scripts.lab.contextbench.recorded import DATA, JSON, load
from scripts.lab.contextbench.report import demo_data, markdown, show
from scripts.lab.contextbench.surfaces import SEARCH, SURFACES, opened

DEMO = Path(__file__).resolve().parents[3] / "mcpx" / "demo" / "tour" / "recorded_sessions.json"


@click.command(context_settings={"max_content_width": 110})
@click.option("--only", multiple=True, help="Surfaces whose name holds this; may be repeated.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, help="The folder with both data sets.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print two tables for scripts/docs.")
@click.option("--demo", is_flag=True, help="Also write the figures that end `mcpx demo`.")
def main(*, only: tuple[str, ...], data: Path, as_json: bool, as_markdown: bool, demo: bool) -> None:
    """Count the tokens of whole sessions: directly, through MCPX, and through mcp-compressor."""
    recorded = load(data)
    played: dict[str, Played] = {}
    tools: dict[str, list[JSON]] = {}
    problems = []
    with tempfile.TemporaryDirectory(prefix="mcpx-context-") as folder:
        for number, name in enumerate(
            name for name in SURFACES if not only or any(word in name for word in only)
        ):
            began = time.monotonic()
            try:
                with opened(name, recorded, Path(folder) / str(number)) as surface:
                    played[name] = play(surface, recorded, searching=name == SEARCH)
                    tools[name] = surface.tools
            except (Unmeasured, OSError) as error:
                problems.append(f"{name}: {error}")
            _say(f"{name}: {time.monotonic() - began:.0f} s")
    made = figures(recorded, played, tools)
    if as_json:
        print(json.dumps(made, indent=1))
    elif as_markdown:
        print(markdown(made), end="")
    else:
        show(made, Console())
    if demo and not only and not problems:
        DEMO.write_text(f"{json.dumps(demo_data(made), indent=2)}\n", "utf-8")
    for problem in problems:
        _say(f"not measured: {problem}")
    sys.exit(1 if problems else 0)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


main()
