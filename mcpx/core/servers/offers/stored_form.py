"""A catalogue as bytes, and back. Pure.

Entries are written as the protocol has them, and are read as those of a server are (`offers.entries`), so
that what is read is as clean as what a server lists. The secrets of the server's entry, which a server may
quote, are replaced by numbers; only a redactor of the same entry can put them back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from mcpx.core.catalog.model import (
    JSON,
    Catalogue,
    Entry,
    LeftOut,
    PromptInfo,
    ResourceInfo,
    TemplateInfo,
    ToolInfo,
)
from mcpx.core.config import Redactor
from mcpx.core.servers.offers.entries import InvalidEntry, read_entry

FORMAT: Final = 1
"""Of the bytes. A change that older versions would misread is a new one."""

DescriptionKey = tuple[str, str | None, int | None, str | None]
"""URI, MIME type, size and time of change of a resource: what its content is known by."""
Descriptions = dict[DescriptionKey, str | None]
"""What was made of the contents of resources; None where that failed."""

E = TypeVar("E", bound=Entry)


class UnreadableCatalogue(ValueError):  # noqa: N818 - a condition
    """The bytes are no catalogue."""


class _About(msgspec.Struct, kw_only=True):
    implementation: str | None = None
    server_title: str | None = None
    server_version: str | None = None
    instructions: str | None = None
    protocol_version: str | None = None
    capabilities: JSON = {}
    left_out: tuple[LeftOut, ...] = ()


class _Stored(msgspec.Struct, kw_only=True):
    about: _About
    tools: list[JSON]
    resources: list[JSON]
    templates: list[JSON]
    prompts: list[JSON]
    descriptions: list[tuple[DescriptionKey, str | None]] = []


def encode_catalogue(catalogue: Catalogue, descriptions: Descriptions, redactor: Redactor) -> bytes:
    """The bytes of a catalogue, without the secrets that `redactor` knows."""
    stored = _Stored(
        about=_About(**{name: getattr(catalogue, name) for name in _About.__struct_fields__}),
        tools=[each.to_protocol() for each in catalogue.tools.values()],
        resources=[each.to_protocol() for each in catalogue.resources.values()],
        templates=[each.to_protocol() for each in catalogue.templates],
        prompts=[each.to_protocol() for each in catalogue.prompts],
        descriptions=list(descriptions.items()),
    )
    try:
        written = msgspec.json.encode(stored)
    except UnicodeEncodeError:  # half a character, as some servers cut their texts
        written = json.dumps(msgspec.to_builtins(stored)).encode()
    return redactor.replace_by_numbers(written)


def decode_catalogue(
    data: bytes, server: str, redactor: Redactor, *, listed_at: float
) -> tuple[Catalogue, Descriptions]:
    """The catalogue of the server of that name, from last time, and the descriptions that were made.

    Raises:
        UnreadableCatalogue: The bytes are none, or were written for another entry.
    """
    try:
        stored = msgspec.convert(_loads(redactor.replace_numbers(data)), _Stored)
        tools = _read(ToolInfo, server, stored.tools)
        resources = _read(ResourceInfo, server, stored.resources)
        catalogue = Catalogue(
            generation=0,
            tools={each.name: each for each in tools},
            resources={each.uri: each for each in resources},
            templates=tuple(_read(TemplateInfo, server, stored.templates)),
            prompts=tuple(_read(PromptInfo, server, stored.prompts)),
            **{name: getattr(stored.about, name) for name in _About.__struct_fields__},
            listed_at=listed_at,
        )
    except (ValueError, LookupError, RecursionError) as error:  # msgspec's and InvalidEntry are the first
        raise UnreadableCatalogue(str(error)) from None
    return catalogue, dict(stored.descriptions)


def _loads(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # half a character
        return json.loads(data)


def _read(kind: type[E], server: str, entries: Sequence[JSON]) -> list[E]:
    read = [read_entry(kind, server, entry) for entry in entries]
    if any(cuts for _, cuts in read):
        raise InvalidEntry("a text in it is too long")
    return [entry for entry, _ in read]
