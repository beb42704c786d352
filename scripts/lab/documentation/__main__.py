"""Writes or checks the generated regions and drawings of the documentation. Started by `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scripts.lab.documentation.drawings import DRAWINGS
from scripts.lab.documentation.regions import ROOT, pages, regions, rewritten
from scripts.lab.documentation.tables import tables


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if something is out of date.")
@click.option(
    "--insert",
    "names",
    metavar="NAME",
    multiple=True,
    help="Put a table of standard input into the measured region of that name; may be given several times.",
)
def main(*, check: bool, names: tuple[str, ...]) -> None:
    """Write the parts of the documentation that come from the code."""
    outdated = inserted(names, sys.stdin.read()) if names else outdated_parts()
    if not check:
        for path, text in outdated.items():
            path.write_text(text, "utf-8")
    for path in outdated:
        click.echo(f"{'out of date' if check else 'wrote'}: {path.relative_to(ROOT)}")
    if check and outdated:
        click.echo("run scripts/docs", err=True)
        sys.exit(1)


def outdated_parts() -> dict[Path, str]:
    """The files that differ from what the code says, with the text that they should have."""
    bodies = tables()
    wanted = {page: rewritten(page.read_text("utf-8"), bodies, kind="generated") for page in pages()}
    wanted |= {ROOT / "docs" / "images" / name: draw() for name, draw in DRAWINGS.items()}
    return {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text
    }


def inserted(names: tuple[str, ...], printed: str) -> dict[Path, str]:
    """The pages with these measured regions; `printed` has a table for each, with an empty line between.

    A block of code is one region whole.
    """
    parts = [printed] if printed.startswith("```") else printed.split("\n\n")
    bodies = [each for each in parts if each.strip()]
    if len(bodies) != len(names):
        raise click.UsageError(f"{len(bodies)} tables for {len(names)} regions")
    texts = {page: page.read_text("utf-8") for page in pages()}
    there = {name for text in texts.values() for kind, name, _ in regions(text) if kind == "measured"}
    if missing := set(names) - there:
        raise click.UsageError(f"no page has a measured region {', '.join(sorted(missing))}")
    found = dict(zip(names, bodies, strict=True))
    wanted = {page: rewritten(text, found, kind="measured") for page, text in texts.items()}
    return {page: text for page, text in wanted.items() if text != texts[page]}


if __name__ == "__main__":
    main()
