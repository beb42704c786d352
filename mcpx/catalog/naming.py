"""The names under which one server's resources and prompts stand beside those of all the others: pure.

A URI or URI template becomes `mcpx://SERVER/` and then the upstream's own, verbatim; the server's name is
percent-encoded, so that it holds neither a slash nor a brace, and a template stays a template. A prompt
becomes `SERVER.NAME`, where `.` and `%` in the server's name are percent-encoded: the first dot ends it, and
the prompt's own name follows verbatim, whatever it holds. Each can be taken back exactly, a name has one
spelling, and no two servers can collide.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

SCHEME: Final = "mcpx://"
LONGEST: Final = 131_072  # characters: the longest URI of a server's own, behind the longest name


def offered_uri(server: str, uri: str) -> str:
    """A server's own URI or template as MCPX offers it."""
    return f"{SCHEME}{quote(server, safe='')}/{uri}"


def own_uri(offered: str) -> tuple[str, str] | None:
    """The server and its own URI or template; None for what `offered_uri` never makes."""
    if not offered.startswith(SCHEME) or len(offered) > LONGEST:
        return None
    host, slash, uri = offered[len(SCHEME) :].partition("/")
    server = unquote(host)
    return (server, uri) if slash and quote(server, safe="") == host else None


def offered_prompt(server: str, name: str) -> str:
    """A server's own prompt as MCPX offers it."""
    return f"{_undotted(server)}.{name}"


def own_prompt(offered: str) -> tuple[str, str] | None:
    """The server and its own name of the prompt; None for what `offered_prompt` never makes."""
    if len(offered) > LONGEST:
        return None
    head, dot, name = offered.partition(".")
    server = unquote(head)
    return (server, name) if dot and _undotted(server) == head else None


def _undotted(server: str) -> str:
    return server.replace("%", "%25").replace(".", "%2E")
