"""Errors for unknown names: they suggest the nearest names and list those that exist.

Owns the three errors for unknown servers, tools and resources. Called by the pipeline and the registry;
pure. Promises bounded texts: at most three suggestions, at most twenty names and a count, and for servers and
tools at most three lines of what a search for the name finds.

The errors' `details` are `{"did_you_mean": [...], "available": [...], "available_total": n}`, and for a tool
that other servers have under exactly that name `"servers_with_it": [...]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from os.path import commonprefix
from typing import Any, Final

from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.rendering.search_answer import best_tools
from mcpx.core.text import cut, one_line, quoted, shown_name, shown_uri
from mcpx.core.text.nearest import MAX_KNOWN, nearest
from mcpx.errors import URI_LEN, CallError, Code

Shown = Callable[[str], str]

_MAX_AVAILABLE: Final = 20
_MAX_SERVERS_WITH_IT: Final = 5
_NAME_LEN: Final = 120
_STATE_LEN: Final = 200


def unknown_server(name: str, servers: Sequence[ServerInfo]) -> CallError:
    """`unknown_server`: no server has that name; says so too where it is the name of a tool."""
    known = [server.name for server in servers]
    near = nearest(name, known)
    sentences = [f"No server is named {_quoted(name)}.", _did_you_mean(near, shown_name)]
    owners = _servers_with(name, servers)
    if owners:
        sentences.append(f"It is a tool of {_listed(owners, shown_name, _MAX_SERVERS_WITH_IT)}.")
    sentences.append(_available("Servers", known, shown_name) or "No servers are configured.")
    details = _details(near, known) | ({"servers_with_it": owners} if owners else {})
    text = _joined(sentences) + _found(servers, name)
    return CallError(Code.UNKNOWN_SERVER, text, server=name, details=details)


def unknown_tool(server: ServerInfo, tool: str, servers: Sequence[ServerInfo]) -> CallError:
    """`unknown_tool`: `server` has no tool of that name; says which of the `servers` do."""
    known = list(server.tools)
    near = nearest(tool, known)
    owners = _servers_with(tool, servers)
    sentences = [
        f"{shown_name(server.name)} has no tool named {_quoted(tool)}.",
        _did_you_mean(near, shown_name),
    ]
    if owners:
        sentences.append(f"There is one on {_listed(owners, shown_name, _MAX_SERVERS_WITH_IT)}.")
    sentences += [_state_note(server, "tools"), _available("Tools", known, shown_name)]
    if len(known) > _MAX_AVAILABLE:
        sentences.append(f"inspect({_quoted(server.name)}) lists them all.")
    details = _details(near, known) | ({"servers_with_it": owners} if owners else {})
    text = _joined(sentences) + _found(servers, tool)
    return CallError(Code.UNKNOWN_TOOL, text, server=server.name, tool=tool, details=details)


def unknown_resource(server: ServerInfo, uri: str, problem: str = "") -> CallError:
    """`unknown_resource`: no resource of `server` has that URI, and no template of it matches.

    `problem` is what is wrong with the URI itself, if anything is.
    """
    templates = server.catalogue.templates if server.catalogue else ()
    skills = server.catalogue.skills if server.catalogue else ()
    known = [*server.resources, *(template.uri_template for template in templates)]
    known += [skill.uri for skill in skills if skill.uri not in server.resources]
    near = _nearest_uris(uri, known) or _by_name(server, uri)
    sentences = [
        f"{shown_name(server.name)} has no resource {_quoted(uri)}" + (f": {problem}." if problem else "."),
        _did_you_mean(near, shown_uri),
        _state_note(server, "resources"),
        _available("Resources", known, shown_uri),
    ]
    details = {**_details(near, known), "uri": cut(uri, URI_LEN)}
    return CallError(Code.UNKNOWN_RESOURCE, _joined(sentences), server=server.name, details=details)


def _nearest_uris(uri: str, known: Sequence[str]) -> list[str]:
    """The nearest URIs, compared without the folder that all have in common: it makes them all alike."""
    known = known[:MAX_KNOWN]
    folder = commonprefix([uri, *known]).rpartition("/")[0]  # noqa: RUF071 -- cut back to a whole folder here
    ends = {other.removeprefix(folder): other for other in known}
    return [ends[end] for end in nearest(uri.removeprefix(folder), ends)]


def _by_name(server: ServerInfo, name: str) -> list[str]:
    """The URIs of the resources whose names are nearest."""
    uris = {resource.name: uri for uri, resource in islice(server.resources.items(), MAX_KNOWN)}
    return [uris[found] for found in nearest(name, uris)]


def _servers_with(tool: str, servers: Sequence[ServerInfo]) -> list[str]:
    return [server.name for server in servers if tool in server.tools][:_MAX_AVAILABLE]


def _state_note(server: ServerInfo, things: str) -> str:
    """The state of a server, if that may be why the name is not known."""
    verb = "" if server.state in {State.NEEDS_SIGN_IN, State.NEEDS_SETUP} else "is "
    is_off = server.state is State.DISABLED
    state = "is switched off" if is_off else verb + one_line(server.describe_state(), _STATE_LEN)
    if server.catalogue is None:
        return f"It has not listed its {things} yet: it {state}."
    return "" if server.available else f"It {state}; these are the {things} it listed last."


def _found(servers: Sequence[ServerInfo], name: str) -> str:
    """Return what a search for the name finds on all servers, a line each."""
    lines = best_tools(servers, name)
    return "\n".join(["", "A search for it finds:", *lines]) if lines else ""


def _quoted(name: str) -> str:
    return quoted(cut(name, _NAME_LEN))


def _listed(names: Sequence[str], shown: Shown, most: int = _MAX_AVAILABLE) -> str:
    """`a, b, c`, or with more than `most` of them `a, b, c and 15 more`."""
    text = ", ".join(cut(shown(name), _NAME_LEN) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most:,} more"


def _did_you_mean(near: Sequence[str], shown: Shown) -> str:
    return f"Did you mean {' or '.join(cut(shown(name), _NAME_LEN) for name in near)}?" if near else ""


def _available(heading: str, known: Sequence[str], shown: Shown) -> str:
    return f"{heading}: {_listed(known, shown)}." if known else ""


def _details(near: list[str], known: list[str]) -> dict[str, Any]:
    return {"did_you_mean": near, "available": known[:_MAX_AVAILABLE], "available_total": len(known)}


def _joined(sentences: Iterable[str]) -> str:
    return " ".join(filter(None, sentences))
