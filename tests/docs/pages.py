"""The pages of the documentation, taken apart: code blocks with their kinds, headings, links, tables.

The words behind the fence say what a block is, and so how it is tested:

    json config    a configuration of MCPX
    json client    a client's own file (or `toml client`)
    json status    what `mcpx status --json` prints
    sh             commands, each on a line, that are read and not run
    console        commands that are run, with what they print
    python         a program that is run; what it prints follows as `text`
    ini, xml       generated from the code
    text haproxy   a configuration of HAProxy, with which the tests run it
    text           anything else
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PATHS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "supervisors" / "README.md",
)
KINDS = {
    "json config",
    "json client",
    "toml client",
    "json status",
    "yaml scrape",
    "yaml alerts",
    "yaml probes",
    "sh",
    "console",
    "python",
    "ini",
    "xml",
    "text haproxy",
    "text",
}
_BLOCK = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(msgspec.Struct, frozen=True):
    """A fenced block; `place` is `page:line`."""

    kind: str
    text: str
    place: str


def read(path: Path) -> str:
    return path.read_text("utf-8")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(kind: str | None = None) -> list[Block]:
    """The blocks of all pages, or those of one kind."""
    found = []
    for path in PATHS:
        text = read(path)
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found.append(Block(block[1].strip(), block[2], f"{name(path)}:{line}"))
    return [block for block in found if kind in (None, block.kind)]


def prose(path: Path) -> str:
    """A page without its code blocks."""
    return _BLOCK.sub("", read(path))


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    made = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        made.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return made


def links(path: Path) -> list[str]:
    """The targets of a page's links and images, those for another theme included."""
    return re.findall(r"(?:\]\(|src(?:set)?=\")([^)\s\"]+)", prose(path))


def tables(path: Path) -> list[list[list[str]]]:
    """The tables of a page as lists of rows of cells, without the line under the head."""
    found: list[list[list[str]]] = []
    inside = False
    for line in prose(path).splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        inside = line.startswith("|")
    return [[table[0], *table[2:]] for table in found]


def table(path: Path, *head: str) -> list[list[str]]:
    """The rows of the one table with this head."""
    (rows,) = [found[1:] for found in tables(path) if tuple(found[0]) == head]
    return rows
