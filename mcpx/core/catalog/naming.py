"""The names under which MCPX offers the resources and prompts of all servers side by side. Pure.

A URI or URI template becomes `mcpx://SERVER/` followed by the upstream's own, verbatim. The server's name is
percent-encoded, so that it contains neither a slash nor a brace, and a template stays a template. A prompt
becomes `SERVER.NAME`, where `.` and `%` in the server's name are percent-encoded: the first dot ends it, and
the prompt's own name follows verbatim. Every name can be taken back exactly, has one spelling, and no two
servers can collide.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

SCHEME: Final = "mcpx://"
MAX_OFFERED_CHARS: Final = 131_072  # the longest URI of a server, with the longest name in front


def offered_uri(server: str, uri: str) -> str:
    """The name under which MCPX offers a URI or template of a server."""
    return _prefix(server) + uri


@lru_cache(maxsize=1024)
def _prefix(server: str) -> str:
    return f"{SCHEME}{quote(server, safe='')}/"


def own_uri(offered: str) -> tuple[str, str] | None:
    """The server and its own URI or template; None for a name that `offered_uri` never makes."""
    if not offered.startswith(SCHEME) or len(offered) > MAX_OFFERED_CHARS:
        return None
    host, slash, uri = offered[len(SCHEME) :].partition("/")
    server = unquote(host)
    return (server, uri) if slash and quote(server, safe="") == host else None


def offered_prompt(server: str, name: str) -> str:
    """The name under which MCPX offers a prompt of a server."""
    return f"{_encoded_head(server)}.{name}"


def own_prompt(offered: str) -> tuple[str, str] | None:
    """The server and its own name of the prompt; None for a name that `offered_prompt` never makes."""
    if len(offered) > MAX_OFFERED_CHARS:
        return None
    head, dot, name = offered.partition(".")
    server = unquote(head)
    return (server, name) if dot and _encoded_head(server) == head else None


def _encoded_head(server: str) -> str:
    return server.replace("%", "%25").replace(".", "%2E")
