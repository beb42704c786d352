"""CHANGELOG.md in the form of Keep a Changelog: its sections, the notes of one, the release of the next."""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

from packaging.version import InvalidVersion, Version

UNRELEASED: Final = "Unreleased"
_HEAD: Final = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)
_RELATIVE: Final = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)[^)]*\)")


class ReleaseError(Exception):
    """A release that cannot be made; the text says why, and what to do."""


class Section(NamedTuple):
    """What changed in one version: `start` and `end` are offsets of the text with its heading."""

    name: str
    date: str | None
    text: str
    start: int
    end: int


def sections(changelog: str) -> dict[str, Section]:
    """The sections by the names of their versions, as they stand: the newest first."""
    heads = list(_HEAD.finditer(changelog))
    ends = [head.start() for head in heads[1:]] + [len(changelog)]
    found = [
        Section(head["name"], head["date"], changelog[head.end() : end].strip(), head.start(), end)
        for head, end in zip(heads, ends, strict=True)
    ]
    if twice := {one.name for one in found if sum(one.name == other.name for other in found) > 1}:
        raise ReleaseError(f"CHANGELOG.md has two sections of {', '.join(sorted(twice))}: make them one")
    return {one.name: one for one in found}


def notes(changelog: str, version: str = UNRELEASED) -> str:
    """The notes of a version: its section, with the text alone of links that lead nowhere from elsewhere."""
    known = sections(changelog)
    if version not in known:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]; it has {', '.join(known) or 'none'}")
    return _RELATIVE.sub(r"\1", known[version].text) + "\n"


def released(changelog: str, version: str, on: date) -> str:
    """The changelog with everything under Unreleased as `version`, and nothing under Unreleased."""
    known = sections(changelog)
    if UNRELEASED not in known or not known[UNRELEASED].text:
        raise ReleaseError("CHANGELOG.md has nothing under [Unreleased]: there is nothing to release")
    if version in known:
        raise ReleaseError(f"CHANGELOG.md has a section [{version}] already: choose a later version")
    if earlier := [name for name in known if name != UNRELEASED and Version(name) > Version(version)]:
        raise ReleaseError(f"{version} is before {earlier[0]}, which is released: choose a later version")
    waiting = known[UNRELEASED]
    head = f"## [{UNRELEASED}]\n\n## [{version}] - {on.isoformat()}\n\n"
    return changelog[: waiting.start] + head + waiting.text + "\n" + _gap(changelog[waiting.end :])


def _gap(rest: str) -> str:
    return f"\n{rest}" if rest else ""


def version_of(text: str) -> str:
    """A version as PEP 440 writes it; raises ReleaseError for another text."""
    try:
        version = Version(text)
    except InvalidVersion:
        raise ReleaseError(f"{text!r} is no version (PEP 440): give one as 1.2.3 or 1.2.3rc1") from None
    if str(version) != text or version.local:
        raise ReleaseError(f"write {text!r} as {version.public}: it becomes a tag and the name of a file")
    return text
