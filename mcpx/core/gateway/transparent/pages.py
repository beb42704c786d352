"""The pages of a server's lists as a policy lets them be seen.

An entry that is shown as the server gave it keeps its bytes; of one whose annotations are overridden only
these are replaced; one that cannot be read is not shown. Pages stay pages: cursors are the server's own, and
a page may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, Entry, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.servers.offers.entries import InvalidEntry, read_entry
from mcpx.core.servers.offers.pages import decode_entry
from mcpx.core.servers.passthrough.messages import NOTHING, elements_of, members_of
from mcpx.core.wire import envelope

E = TypeVar("E", bound=Entry)
Show = Callable[[Catalogue], Catalogue]
"""What is shown of a catalogue: the very entries of it, or others in the place of some, or fewer."""

_PAGES: Final[dict[str, tuple[str, type[Entry]]]] = {
    "tools/list": ("tools", ToolInfo),
    "resources/list": ("resources", ResourceInfo),
    "resources/templates/list": ("resourceTemplates", TemplateInfo),
    "prompts/list": ("prompts", PromptInfo),
}
METHODS: Final = frozenset(_PAGES)


def shown_page(method: str, result: msgspec.Raw, server: str, show: Show, *, strict: bool) -> msgspec.Raw:
    """A page with what is shown of it; the very same where that is all.

    If it is not `strict`, one that is shown as it is keeps its bytes, whatever else is in it.
    """
    key, kind = _PAGES[method]
    members = members_of(result)
    entries = _entries(members.get(key, NOTHING), kind, server)
    offered = show(_catalogue(kind, [info for _, info in entries]))
    shown = {_key_of(info): info for info in _all(offered, kind)}
    if not strict and all(shown.get(_key_of(info)) is info for _, info in entries):
        return result
    kept = [_encoded(raw, info, held) for raw, info in entries if (held := shown.pop(_key_of(info), None))]
    folded = key.casefold()
    rest = {name: raw for name, raw in members.items() if name.casefold() != folded}
    listed = msgspec.Raw(b"[" + b",".join(kept) + b"]")
    ordered = {name: listed if name == key else rest[name] for name in members if name == key or name in rest}
    return msgspec.Raw(envelope.encode({key: listed} | ordered))


def _entries(listed: msgspec.Raw, kind: type[E], server: str) -> list[tuple[msgspec.Raw, E]]:
    """The entries that can be read, with the bytes of each."""
    found: list[tuple[msgspec.Raw, E]] = []
    for raw in elements_of(listed):
        try:
            decoded, _ = decode_entry(bytes(raw))
            found.append((raw, read_entry(kind, server, decoded)[0]))
        except InvalidEntry:
            continue
    return found


def _encoded(raw: msgspec.Raw, given: Entry, shown: Entry) -> bytes:
    """An entry as it is shown; without members that stand in it twice, which may be read in two ways."""
    if shown is given:
        return envelope.encode(members_of(raw))
    if isinstance(given, ToolInfo) and isinstance(shown, ToolInfo):
        members = members_of(raw)
        members.pop("annotations", None)
        if replace(shown, annotations=given.annotations) == given:
            if shown.annotations is not None:
                members["annotations"] = msgspec.Raw(envelope.encode(shown.annotations))
            return envelope.encode(members)
    return envelope.encode(shown.to_protocol())


def _catalogue(kind: type[Entry], entries: Iterable[Entry]) -> Catalogue:
    """A catalogue of these entries; of two of one name the first counts."""
    by_key = {_key_of(entry): entry for entry in reversed(list(entries))}
    whole = Catalogue(generation=0)
    if kind is ToolInfo:
        return replace(whole, tools=by_key)
    if kind is ResourceInfo:
        return replace(whole, resources=by_key)
    field = "templates" if kind is TemplateInfo else "prompts"
    return replace(whole, **{field: tuple(by_key.values())})


def _all(catalogue: Catalogue, kind: type[Entry]) -> Iterable[Entry]:
    if kind is ToolInfo:
        return catalogue.tools.values()
    if kind is ResourceInfo:
        return catalogue.resources.values()
    return catalogue.templates if kind is TemplateInfo else catalogue.prompts


def _key_of(entry: Entry) -> str:
    match entry:
        case ResourceInfo(uri=uri):
            return uri
        case TemplateInfo(uri_template=template):
            return template
        case ToolInfo(name=name) | PromptInfo(name=name):
            return name
    raise TypeError(type(entry).__name__)
