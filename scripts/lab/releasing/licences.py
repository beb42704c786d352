"""Licences of all that is locked and of what the page vendors, held against those that MCPX may use.

A licence is what a distribution declares: its SPDX expression, or else its text or its classifiers by the
table `WORDS`. What is installed with MCPX must be under one of `PERMISSIVE`; what only its tests need may
be under `ONLY_FOR_TESTS` besides. Anything else, and a licence that cannot be told, is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

from scripts.lib import lock

ROOT: Final = Path(__file__).parents[3]
VENDORED: Final = ROOT / "mcpx" / "page" / "static" / "vendor" / "VENDORED.md"
PERMISSIVE: Final = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "OFL-1.1",
        "PSF-2.0",
    }
)
"""May be passed on with MCPX as it is; MPL-2.0 and OFL-1.1 ask that their own files stay under them."""
ONLY_FOR_TESTS: Final = frozenset({"GPL-3.0-or-later"})
"""Not passed on: async-solipsism, the virtual clock of tests."""
WORDS: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
_VENDORED_ROW: Final = re.compile(
    r"^\| `([^`]+)` \| (\S+) \| (\S+) \| `[^`]+` \| (\S+) \| `([0-9a-f]{64})` \|$", re.MULTILINE
)


class Vendored(NamedTuple):
    """A file of a package of npm that the page serves."""

    file: str
    package: str
    version: str
    licence: str
    sha256: str


class Licensed(NamedTuple):
    """Something that is used, and its licence as an SPDX expression; empty where it cannot be told."""

    name: str
    version: str
    licence: str
    used: str
    """`runtime`, `tests` or `page`."""


def vendored() -> list[Vendored]:
    """The files of others in the page, as its own list has them."""
    return [Vendored(*row) for row in _VENDORED_ROW.findall(VENDORED.read_text("utf-8"))]


def licence_of(metadata: Mapping[str, str], classifiers: list[str]) -> str:
    """The SPDX expression of a distribution by its core metadata, or the empty text."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    text = (metadata.get("License") or "").strip()
    if "\n" not in text and allowed(known := WORDS.get(text, text), PERMISSIVE | ONLY_FOR_TESTS):
        return known
    names = [
        each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: OSI Approved ::")
    ]
    found = sorted({WORDS[name] for name in names if name in WORDS})
    return " OR ".join(found) if len(found) == len(set(names)) else ""


def allowed(expression: str, licences: frozenset[str]) -> bool:
    """Return True if an expression without parentheses can be met by these licences."""
    choices = [choice.split(" AND ") for choice in expression.split(" OR ")]
    return any(all(each in licences for each in choice) for choice in choices)


def everything() -> Iterator[Licensed]:
    """All that is locked or vendored, with its licence."""
    for used, file in (("runtime", lock.RUNTIME), ("tests", lock.DEV)):
        for name, version in lock.locked(file).items():
            yield Licensed(name, version, installed_licence(name), used)
    for package, version, licence in sorted(
        {(each.package, each.version, each.licence) for each in vendored()}
    ):
        yield Licensed(package, version, licence, "page")


def installed_licence(name: str) -> str:
    """The licence of a distribution that is installed; the empty text for another one."""
    try:
        about = distribution(name).metadata
    except PackageNotFoundError:
        return ""
    fields = {field: about[field] for field in ("License-Expression", "License") if field in about}
    return licence_of(fields, about.get_all("Classifier") or [])


def objections(found: list[Licensed]) -> list[str]:
    """A line for each that must not be used, or not before somebody has looked at it."""
    lines = []
    for each in found:
        may = PERMISSIVE | ONLY_FOR_TESTS if each.used == "tests" else PERMISSIVE
        if not each.licence:
            lines.append(
                f"{each.name} {each.version}: no licence could be told; see its files, and add it to WORDS"
            )
        elif not allowed(each.licence, may):
            lines.append(f"{each.name} {each.version}: {each.licence} may not be used here ({each.used})")
    return lines


def main() -> int:
    """Print the table, and what must not be; return 1 if there is any."""
    found = list(everything())
    for each in found:
        print(f"{each.used:<8} {each.name:<36} {each.version:<12} {each.licence or '?'}")
    wrong = objections(found)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
