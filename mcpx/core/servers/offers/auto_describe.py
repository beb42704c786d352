"""Descriptions for text resources that have none: the first words of their content, in quotes.

Owned by one upstream actor; remembers what it has read over reconnects, so that an unchanged resource is
not read twice; what an earlier MCPX has made is shown at once, and read once more. Runs beside the calls,
once the server is ready; reads a few at a time and none that is known to be large, and gives up on a resource
that cannot be read. A resource counts as changed when its URI, type, size or `lastModified` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio
from mcp import ClientSession, MCPError
from mcp_types import TextResourceContents
from msgspec.structs import replace
from pydantic import ValidationError

from mcpx.core.catalog.model import Catalogue, ResourceInfo
from mcpx.core.servers.offers.stored_form import DescriptionKey, Descriptions
from mcpx.core.text import one_line, quoted

MAX_CONCURRENT_READS: Final = 4
DESCRIPTION_CHARS: Final = 100  # of the content make a description
MAX_READ_BYTES: Final = 256 * 1024  # the protocol cannot read a part, so larger ones are not read
READ_TIMEOUT_S: Final = 10.0  # for one resource: a description is not worth more

_TEXT_TYPES: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/yaml",
        "application/x-yaml",
        "application/x-sh",
        "application/x-shellscript",
        "application/x-python",
        "application/x-python-code",
        "application/toml",
        "application/sql",
    }
)


def is_text(mime_type: str | None) -> bool:
    """Whether the MIME type is text: `text/*`, `+json`, `+xml`, and the usual ones under `application/`."""
    if mime_type is None:
        return False
    kind = mime_type.split(";", 1)[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in _TEXT_TYPES


def first_words(text: str) -> str:
    """`begins: "..."` with the first characters on one line, and `...` where there are more.

    In quotes, because it is content by an unknown author, not what the resource is for.
    """
    return "begins: " + quoted(
        one_line(text[:DESCRIPTION_CHARS]) + ("..." if len(text) > DESCRIPTION_CHARS else "")
    )


class Describer:
    """The descriptions made for the resources of one server; `recalled` are those of an earlier MCPX."""

    def __init__(self, recalled: Descriptions | None = None) -> None:
        self.made: Descriptions = dict(recalled or {})
        self._recalled = set(self.made)
        self._undescribed: dict[str, ResourceInfo] = {}

    def apply(self, listed: Catalogue) -> Catalogue:
        """A catalogue, as it was listed, with the descriptions that were made."""
        self._undescribed = {uri: item for uri, item in listed.resources.items() if not item.description}
        self._forget_all_but(self._undescribed)
        return self.renew(listed)

    def renew(self, catalogue: Catalogue) -> Catalogue:
        """The last catalogue that was listed, with the descriptions that have been made since."""
        described = {
            uri: replace(item, description=known)
            for uri, item in self._undescribed.items()
            if (known := self.made.get(_key(item)))
        }
        return replace(catalogue, resources=catalogue.resources | described) if described else catalogue

    async def read_missing(self, session: ClientSession, admits: Callable[[str], bool]) -> None:
        """Read the text resources that have no description and are not too large; a few at a time.

        `admits` says whether there is a resource for clients: no other is read.
        """
        wanted = [item for item in self._undescribed.values() if self._wants(item)]
        queue = iter(wanted)

        async def work() -> None:
            for item in queue:
                if not admits(item.uri):
                    continue
                await self._describe(item, session)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(MAX_CONCURRENT_READS, len(wanted))):
                tasks.start_soon(work)

    def _wants(self, item: ResourceInfo) -> bool:
        key = _key(item)
        if not is_text(item.mime_type) or (key in self.made and key not in self._recalled):
            return False
        return item.size is None or item.size <= MAX_READ_BYTES

    def _forget_all_but(self, resources: Mapping[str, ResourceInfo]) -> None:
        current = {_key(item) for item in resources.values()}
        self.made = {key: text for key, text in self.made.items() if key in current}

    async def _describe(self, item: ResourceInfo, session: ClientSession) -> None:
        description: str | None = None
        with anyio.move_on_after(READ_TIMEOUT_S):
            try:
                contents = (await session.read_resource(item.uri)).contents
            except (MCPError, ValidationError, RuntimeError):  # the last: the server asks for input
                contents = []
            text = next((c.text for c in contents if isinstance(c, TextResourceContents)), None)
            description = first_words(text) if text else None
        key = _key(item)
        self.made[key] = description or (self.made.get(key) if key in self._recalled else None)
        self._recalled.discard(key)


def _key(item: ResourceInfo) -> DescriptionKey:
    modified = (item.annotations or {}).get("lastModified")
    return item.uri, item.mime_type, item.size, modified
