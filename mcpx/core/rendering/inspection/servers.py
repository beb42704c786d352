"""All servers on a page: what `inspect()` answers. Pure.

A line for each server, as full as the budget allows: the number of its tools, whether they are from last
time, its state if it takes no calls now, and what it is for; then without the last, then names alone. Those
that have the tools of another (`mcpx.core.catalog.alike`) share one line behind it, unless they say something
else of themselves. Momentary state belongs here, and in errors: descriptions must not change with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from mcpx.core.catalog.alike import Alike, Same, grouped, named, same_lines, without_own_words
from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.descriptions.ladder import counted
from mcpx.core.rendering.inspection.listing import LISTING_TOKENS, MAX_TEXT_CHARS
from mcpx.core.rendering.signatures import first_sentence, in_order
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import cut, one_line, paragraphs, shown_name, shown_server, visible

INSTRUCTIONS_TOKENS: Final = LISTING_TOKENS // 4
_MAX_LEFT_OUT: Final = 20
_CHARS_PER_TOKEN: Final = 3
_ENDS: Final = (". ", ".\n", "\n\n", "\u3002")  # of a sentence or paragraph


def about(info: ServerInfo, *, cut: bool = True) -> JSON:
    """`{server, state, sign_in?, remedy?, instructions?, left_out?}`; for the model, they are `cut`.

    What is from last time says so: for the model in `listed`, for programs as `ServerInfo.from_last_time`.
    """
    said: JSON = {"server": info.name, "state": info.describe_state(), **info.next_attempt()}
    if info.sign_in and not cut:
        said["sign_in"] = info.sign_in
    if info.remedy:
        said["remedy"] = info.remedy
    if last_time := info.from_last_time():
        said |= {"listed": f"from last time, {last_time['listed_at']}"} if cut else last_time
    if info.instructions:
        text = paragraphs(info.instructions[:MAX_TEXT_CHARS])
        said["instructions"] = _at_sentence(text) if cut else text
    if info.left_out:
        said["left_out"] = [
            {
                name: visible(value) if isinstance(value, str) else value
                for name, value in each.to_dict().items()
            }
            for each in (info.left_out[:_MAX_LEFT_OUT] if cut else info.left_out)
        ]
    return said


def _at_sentence(text: str) -> str:
    """The first sentences of a long text, a quarter of what a listing may take."""
    if estimate(text) <= INSTRUCTIONS_TOKENS:
        return text
    head = text[: INSTRUCTIONS_TOKENS * _CHARS_PER_TOKEN]
    while estimate(head) > INSTRUCTIONS_TOKENS:
        head = head[: len(head) // 2]
    end = max(head.rfind(mark) for mark in _ENDS)
    return f"{head[: end + 1].rstrip() if end > 0 else head} ..."


_ABOUT_LEN: Final = 100
_STATE_LEN: Final = 160
_NAME_LEN: Final = 120
_SEARCHED_CHARS: Final = 2_000  # of the instructions
_HEADING: Final = re.compile(r"^\s*#.*$", re.MULTILINE)
_MAX_ORDERED: Final = 100  # tools of which the first are named
_MAX_TOOLS_NAMED: Final = 3  # of a server that says nothing of itself
_HINT: Final = (
    "inspect(server_name) lists a server's tools with their parameters; inspect(query) searches all servers"
)


def servers_listing(servers: Sequence[ServerInfo], *, room: int) -> tuple[str, JSON]:
    """The servers as text for the model, within `room` tokens, and for programs."""
    groups = grouped(servers)
    alike = {other.name: each for _, same in groups for other, each in same}
    plain = {"servers": [_plain(server, alike.get(server.name)) for server in servers]}
    if not servers:
        return "No servers are configured.", plain
    tools = sum(len(server.tools) for server in servers)
    head = f"{counted(len(servers), 'server')}, {counted(tools, 'tool')}. {_HINT}."
    for form in (_described, _counted):
        lines = [head, *(line for server, same in groups for line in _lines(server, same, form))]
        if sum(map(estimate, lines)) + len(lines) <= room:
            return "\n".join(lines), plain
    return f"{head}\n{_names(servers, room - estimate(head))}", plain


def _lines(server: ServerInfo, same: Sequence[Same], form: Callable[..., str]) -> Iterator[str]:
    """The line of a server, and those of the servers that have its tools."""
    yield form(server)
    said = _said(server)
    alone = [each for each in same if form is _described and _said(each[0]) not in ("", said)]
    brief = [each for each in same if each not in alone]
    yield from same_lines(
        server.name, [(named(other.name, *_facts(other)), alike.differences) for other, alike in brief]
    )
    for other, alike in alone:
        yield form(other, alike)


def _facts(server: ServerInfo) -> tuple[str, str]:
    return _state(server), "from last time" if server.from_last_time() else ""


def _described(server: ServerInfo, alike: Alike | None = None) -> str:
    about = _about(server)
    return f"{_counted(server, alike)}: {about}" if about else _counted(server, alike)


def _counted(server: ServerInfo, alike: Alike | None = None) -> str:
    """`git (12 tools)`, `linear (waiting, ...: timed out; 30 tools)`, `weather (needs setup: ...)`."""
    counts = counted(len(server.tools), "tool") if server.catalogue else "tools not listed yet"
    if alike is not None:
        counts = ", ".join(filter(None, (alike.shared, alike.differences)))
    if server.from_last_time():
        counts += " from last time"
    state = _state(server)
    said = counts if not state else f"{state}; {counts}" if server.catalogue else state
    return f"{cut(shown_server(server.name), _NAME_LEN)} ({said})"


def _state(server: ServerInfo) -> str:
    """The state of a server that takes no calls now, else nothing."""
    return "" if server.available else one_line(server.describe_state(), _STATE_LEN)


def _said(server: ServerInfo) -> str:
    """The first sentence of its instructions, without words of its name."""
    return " ".join(without_own_words(server.name, _sentence(server)))


def _names(servers: Sequence[ServerInfo], room: int) -> str:
    """Return as many names as there is room for, and how many more there are."""
    names: list[str] = []
    for server in servers:
        name = cut(shown_server(server.name), _NAME_LEN)
        room -= estimate(f"{name}, ")
        if room < 0:
            return f"{', '.join(names)} and {len(servers) - len(names):,} more"
        names.append(name)
    return ", ".join(names)


def _about(server: ServerInfo) -> str:
    """Return what a server is for: the first sentence of its instructions, else the names of its first
    tools.
    """
    if said := _sentence(server):
        return said
    named = in_order(islice(server.tools.values(), _MAX_ORDERED))[:_MAX_TOOLS_NAMED]
    names = [cut(shown_name(tool.name), _NAME_LEN) for tool in named]
    return ", ".join([*names, *["..."] * (len(server.tools) > len(names))])


def _sentence(server: ServerInfo) -> str:
    head = (server.instructions or "")[:_SEARCHED_CHARS]
    return first_sentence(_HEADING.sub("", head), _ABOUT_LEN)


def _plain(server: ServerInfo, alike: Alike | None) -> JSON:
    """A server for programs, with the first sentence of its instructions."""
    plain = server.to_dict() | (
        {} if alike is None else {"same_tools": {"as": alike.leader} | alike.to_dict()}
    )
    plain.pop("instructions", None)
    return plain | ({"about": about} if (about := _about(server)) else {})
