"""Lists of resources in the description of the resources tool.

Owns the shape of a server's block on each rung of the ladder:

    ## docs file:///guide.md (Guide, text/markdown, 1.2 kB): How to start, and what to do next
    file:///{name}.md (page template, text/markdown) skill://release/SKILL.md (skill of 3 files): How to
    release this project

then with the descriptions cut shorter, then without them, then URI and name alone, then
`## docs: 412 resources, 1 template, e.g. file:///guide.md`, and at last the counts alone. Servers that offer
no resources are left out. The files of a skill are not named beside it: it names them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from mcpx.core.catalog.model import ResourceInfo, SkillInfo, TemplateInfo
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.descriptions.ladder import Ladder, counted, fit
from mcpx.core.text import one_line, shown_server, shown_uri

Item = ResourceInfo | TemplateInfo | SkillInfo
_SHORT_DESCRIPTION_LEN: Final = 100
_NAME_LEN: Final = 80
_EXAMPLE_LEN: Final = 80
_KILO: Final = 1000
_HINT: Final = "Shortened to fit: resources(server_name, uri) with part of a URI or name finds the nearest."


def describe_resources(servers: Sequence[ServerInfo], *, budget: int, max_description_len: int = 300) -> str:
    """The list of resources and templates alone, by server, within `budget` tokens.

    `max_description_len` is the most characters shown of a resource's description.
    """
    offering = [server for server in servers if _entries(server)]
    if not offering:
        return "No resources are listed."
    return fit(offering, _ladder(max_description_len), budget)


def _ladder(description: int) -> Ladder:
    short = min(description, _SHORT_DESCRIPTION_LEN)
    rungs = (
        partial(_whole, description=description),
        partial(_whole, description=short),
        partial(_whole, description=0),
        _named,
        partial(_counted, example=True),
        partial(_counted, example=False),
    )
    return Ladder(
        name=("resources", description),
        rungs=rungs,
        listing=4,
        entries=_entries,
        hint=_HINT,
        left_out=_left_out,
    )


def _entries(server: ServerInfo) -> int:
    return sum(number for number, _ in _kinds(server))


def _kinds(server: ServerInfo) -> tuple[tuple[int, str], ...]:
    return (
        (len(_resources(server)), "resource"),
        (len(_templates(server)), "template"),
        (len(_skills(server)), "skill"),
    )


def _left_out(number: int) -> str:
    return f"and {counted(number, 'more server')} with resources."


def _resources(server: ServerInfo) -> list[ResourceInfo]:
    """Its resources without the files of skills."""
    if not (skills := _skills(server)):
        return list(server.resources.values())
    files = {uri for skill in skills for uri in skill.files}
    return [item for uri, item in server.resources.items() if uri not in files]


def _templates(server: ServerInfo) -> tuple[TemplateInfo, ...]:
    return server.catalogue.templates if server.catalogue else ()


def _skills(server: ServerInfo) -> tuple[SkillInfo, ...]:
    return server.catalogue.skills if server.catalogue else ()


def _items(server: ServerInfo) -> list[Item]:
    """In the order of their URIs, however the server listed them; templates behind them, and skills."""
    resources = sorted(_resources(server), key=lambda item: item.uri)
    templates = sorted(_templates(server), key=lambda item: item.uri_template)
    return [*resources, *templates, *sorted(_skills(server), key=lambda item: item.uri)]


def _uri(item: Item) -> str:
    return shown_uri(item.uri_template if isinstance(item, TemplateInfo) else item.uri)


def _head(server: ServerInfo) -> str:
    return f"## {shown_server(server.name)}"


def _whole(server: ServerInfo, *, description: int) -> str:
    return "\n".join([_head(server), *(_line(item, description) for item in _items(server))])


def _named(server: ServerInfo) -> str:
    return "\n".join([_head(server), *(_marked(item, [_name(item)]) for item in _items(server))])


def _counted(server: ServerInfo, *, example: bool) -> str:
    parts = [counted(number, noun) for number, noun in _kinds(server) if number]
    first = _uri(_items(server)[0])
    if example and len(first) <= _EXAMPLE_LEN:
        parts.append(f"e.g. {first}")
    return f"{_head(server)}: {', '.join(parts)}"


def _line(item: Item, description: int) -> str:
    """`uri (name, type, size): description`, without what is not known."""
    facts = _facts(item)
    text = one_line(item.description or "", description) if description else ""
    return f"{_marked(item, facts)}: {text}" if text else _marked(item, facts)


def _facts(item: Item) -> list[str]:
    if isinstance(item, SkillInfo):
        return [_name(item)]
    size = item.size if isinstance(item, ResourceInfo) else None
    return [_name(item), one_line(item.mime_type or "", _NAME_LEN), "" if size is None else _size(size)]


def _marked(item: Item, facts: list[str]) -> str:
    known = ", ".join(filter(None, facts))
    return f"{_uri(item)} ({known})" if known else _uri(item)


def _name(item: Item) -> str:
    """The name, left out where the URI ends with it; of a skill, whose URI has it, what it is."""
    if isinstance(item, SkillInfo):
        return f"skill of {counted(len(item.files), 'file')}" if isinstance(item.resources, list) else "skill"
    name = one_line(item.name, _NAME_LEN)
    return "" if _uri(item).endswith(name) else name


def _size(size: int) -> str:
    """Bytes as `340 B`, `1.2 kB`, `56 MB`."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < _KILO:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"  # noqa: PLR2004 -- two digits
        number /= _KILO
    return f"{number:.1f} TB"
