"""Fuzzes the parsers that strangers reach; `scripts/fuzz` says how it is called."""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from scripts.lab.fuzzing import texts, wire
from scripts.lab.fuzzing.loop import Finding, Target, bounded, run

TARGETS = {target.name: target for target in (*wire.TARGETS, *texts.TARGETS)}


def main(arguments: list[str] | None = None) -> int:
    """Run the targets that are named, or all; 1 if one found something."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "target", nargs="*", help="; ".join(f"{each.name}: {each.what}" for each in TARGETS.values())
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target [1]")
    parser.add_argument("--seed", type=int, default=0, help="another one alters in another way [0]")
    parser.add_argument("--input", type=Path, metavar="FILE", help="try this input alone")
    parser.add_argument("--list", action="store_true", help="print the targets")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("error")  # as in the tests: nobody is to read what a library thinks of an input
    if unknown := [name for name in chosen.target if name not in TARGETS]:
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    targets = [TARGETS[name] for name in chosen.target or TARGETS]
    if chosen.list:
        print("\n".join(f"{each.name:<16}{each.what}" for each in targets))
        return 0
    if chosen.input:
        for target in targets:
            print(f"{target.name}: {bounded(target, chosen.input.read_bytes())}")
        return 0
    found = [fuzz(target, chosen.minutes, chosen.seed) for target in targets]
    return 1 if any(found) else 0


def fuzz(target: Target, minutes: float, seed: int) -> Finding | None:
    """Run one target, and print what it did and found."""
    report = run(target, seconds=60 * minutes, seed=seed)
    print(f"{target.name:<16}{report.runs:>10,} inputs {report.shapes:>6,} shapes", flush=True)
    if report.finding is not None:
        data, error = report.finding
        file = Path(tempfile.gettempdir(), f"fuzz-{target.name}-{hashlib.sha256(data).hexdigest()[:8]}")
        file.write_bytes(data)
        traceback.print_exception(error, limit=-4)
        print(
            f"found with {data[:300]!r}\nagain with: scripts/fuzz --input {file} {target.name}",
            file=sys.stderr,
        )
    return report.finding


if __name__ == "__main__":
    sys.exit(main())
