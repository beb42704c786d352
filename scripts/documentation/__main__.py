"""Writes or checks the generated regions and drawings of the documentation. Started by `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scripts.documentation.drawings import DRAWINGS
from scripts.documentation.regions import ROOT, pages, regions, rewritten
from scripts.documentation.tables import tables


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if something is out of date.")
@click.option("--insert", metavar="NAME", help="Put standard input into the measured region of that name.")
def main(*, check: bool, insert: str | None) -> None:
    """Write the parts of the documentation that come from the code."""
    outdated = _inserted(insert, sys.stdin.read()) if insert else _generated()
    if not check:
        for path, text in outdated.items():
            path.write_text(text, "utf-8")
    for path in outdated:
        click.echo(f"{'out of date' if check else 'wrote'}: {path.relative_to(ROOT)}")
    if check and outdated:
        click.echo("run scripts/docs", err=True)
        sys.exit(1)


def _generated() -> dict[Path, str]:
    """The files that differ from what the code says, with the text that they should have."""
    bodies = tables()
    wanted = {page: rewritten(page.read_text("utf-8"), bodies, kind="generated") for page in pages()}
    wanted |= {ROOT / "docs" / "images" / name: draw() for name, draw in DRAWINGS.items()}
    return {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text
    }


def _inserted(name: str, body: str) -> dict[Path, str]:
    """The page with a measured region of that name, with this body."""
    for page in pages():
        text = page.read_text("utf-8")
        if any(kind == "measured" and each == name for kind, each, _ in regions(text)):
            return {page: rewritten(text, {name: body}, kind="measured")}
    raise click.UsageError(f"no page has a measured region {name!r}")


if __name__ == "__main__":
    main()
