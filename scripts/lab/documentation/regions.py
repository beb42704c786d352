"""The marked regions of the Markdown pages, whose text is written by a script and not by hand.

A region looks like this; `generated` is written from the code, `measured` holds the output of a measurement:

    <!-- generated: settings -->
    ...
    <!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
_REGION: Final = re.compile(
    r"(?P<start><!-- (?P<kind>generated|measured): (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def pages() -> list[Path]:
    """Every Markdown page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "supervisors" / "README.md"]


def regions(text: str) -> Iterator[tuple[str, str, str]]:
    """The regions of a page as `(kind, name, body)`."""
    for found in _REGION.finditer(text):
        yield found["kind"], found["name"], found["body"]


def rewritten(text: str, bodies: dict[str, str], *, kind: str) -> str:
    """The page with the bodies of these regions replaced.

    Raises:
        KeyError: A generated region of the page has a name that is not in `bodies`.
    """

    def replace(found: re.Match[str]) -> str:
        if found["kind"] != kind or (kind == "measured" and found["name"] not in bodies):
            return found[0]
        return f"{found['start']}{bodies[found['name']].strip()}\n{found['end']}"

    return _REGION.sub(replace, text)


def without_regions(text: str) -> str:
    """The page without its regions, which is what people write by hand."""
    return _REGION.sub("", text)
