"""Differences between two catalogues of one server. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.core.catalog.model import Catalogue, Entry


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """Which lists differ. Their order does not count; any field of an entry does."""

    tools: bool = False
    resources: bool = False
    """Of skills as well: their files are resources, and their list has no announcement for itself."""
    prompts: bool = False
    about: bool = False
    """What the server says about itself: title, version, instructions."""

    def __bool__(self) -> bool:
        return self.tools or self.resources or self.prompts or self.about

    def __or__(self, other: Diff) -> Diff:
        """Unite two changes."""
        return Diff(
            tools=self.tools or other.tools,
            resources=self.resources or other.resources,
            prompts=self.prompts or other.prompts,
            about=self.about or other.about,
        )


EVERYTHING: Final = Diff(tools=True, resources=True, prompts=True, about=True)


def diff(old: Catalogue | None, new: Catalogue) -> Diff:
    """Return what differs in `new`; without an old catalogue, everything that the server offers."""
    old = old or Catalogue(generation=0)
    return Diff(
        tools=old.tools != new.tools,
        resources=old.resources != new.resources
        or _unordered(old.templates) != _unordered(new.templates)
        or _unordered(old.skills) != _unordered(new.skills),
        prompts=_unordered(old.prompts) != _unordered(new.prompts),
        about=_about(old) != _about(new),
    )


def _unordered(entries: tuple[Entry, ...]) -> list[bytes]:
    """The entries as a value that is independent of their order, and of that of their members."""
    return sorted(msgspec.json.encode(entry.to_protocol(), order="deterministic") for entry in entries)


def _about(catalogue: Catalogue) -> tuple[str | None, ...]:
    return (
        catalogue.implementation,
        catalogue.server_title,
        catalogue.server_version,
        catalogue.instructions,
    )
