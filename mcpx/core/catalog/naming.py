"""Names under which MCPX offers the tools, resources and prompts of all servers side by side. Pure.

A URI or URI template becomes `mcpx://SERVER/` followed by the upstream's own, verbatim. The server's name is
percent-encoded, so that it contains neither a slash nor a brace, and a template stays a template. Hosts know
the page of an app by its scheme, and skills are to have theirs, so these stay in front: `ui://mcpx/SERVER/`
and the rest. There the name is encoded twice, because some hosts take no segment with a slash in it. A prompt
becomes `SERVER.NAME`, where `.` and `%` in the server's name are percent-encoded: the first dot ends it, and
the prompt's own name follows verbatim. Every name can be taken back exactly, and no two servers can collide.

Tools are offered natively as `SERVER__TOOL`, with at most 64 letters, digits, `_` and `-`, as every host
takes them. A name that fits and that its first `__` splits into exactly the server and the tool is unchanged.
Any other has the characters that do not fit replaced, is cut, and ends with a digest of both names. A plain
name never ends like that, so no tool can take a name of another one, and a tool's name depends on nothing but
its own and its server's: what a person has approved stays what it was.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

MAX_NAME_CHARS: Final = 64
_SEPARATOR: Final = "__"
_DIGEST_CHARS: Final = 12  # hexadecimal: no word is written like that
_KEPT_CHARS: Final = MAX_NAME_CHARS - _DIGEST_CHARS - 1
_MAX_SERVER_CHARS: Final = 24  # of a name that is cut
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGESTED: Final = re.compile(rf"_[0-9a-f]{{{_DIGEST_CHARS}}}\Z")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


@lru_cache(maxsize=8192)  # most are asked for again at each listing of their server
def native_name(server: str, tool: str) -> str:
    """The name of a server's tool among those of all servers."""
    name = f"{server}{_SEPARATOR}{tool}"
    is_plain = server and tool and _PLAIN.fullmatch(name) and not _DIGESTED.search(name)
    if is_plain and name.partition(_SEPARATOR) == (server, _SEPARATOR, tool):
        return name
    return f"{_cut(_UNFIT.sub('_', server), _UNFIT.sub('_', tool))}_{_digest(server, tool)}"


def may_be_of(server: str, name: str) -> bool:
    """Return True if a native name may be one of that server's tools, which are not known."""
    plain = _UNFIT.sub("_", server)
    return name.startswith((plain + _SEPARATOR, plain[:_MAX_SERVER_CHARS] + _SEPARATOR))


def whole_name(server: str, tool: str) -> str:
    """The same for people, who may read any character: `SERVER.TOOL`."""
    return f"{server}.{tool}"


def _cut(server: str, tool: str) -> str:
    """Both names, in the room that a digest leaves."""
    if len(server) + len(_SEPARATOR) + len(tool) > _KEPT_CHARS:
        server = server[:_MAX_SERVER_CHARS]
    return f"{server}{_SEPARATOR}{tool}"[:_KEPT_CHARS]


def _digest(server: str, tool: str) -> str:
    both = f"{len(server)}:{server}{tool}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(both, digest_size=_DIGEST_CHARS // 2).hexdigest()


SCHEME: Final = "mcpx://"
FORMS: Final = {"ui://mcpx/": "ui://", "skill://mcpx/": "skill://", SCHEME: ""}
"""The beginnings of offered URIs, each with the scheme that it has taken off the server's own."""
MAX_OFFERED_CHARS: Final = 131_072  # the longest URI of a server, with the longest name in front


def offered_uri(server: str, uri: str) -> str:
    """The name under which MCPX offers a URI or template of a server."""
    start, scheme = next(form for form in FORMS.items() if uri.startswith(form[1]))
    return f"{start}{segment_of(server, start)}/{uri[len(scheme) :]}"


@lru_cache(maxsize=1024)
def segment_of(server: str, start: str) -> str:
    """A server's name as it stands behind that beginning of a URI."""
    once = quote(server, safe="")
    return once if start == SCHEME else quote(once, safe="")


def own_uri(offered: str) -> tuple[str, str] | None:
    """The server and its own URI or template; None for a name that no URI of a server can have.

    Every URI can be named with `mcpx://`, those too for which `offered_uri` has another form.
    """
    start = next((form for form in FORMS if offered.startswith(form)), None)
    if start is None or len(offered) > MAX_OFFERED_CHARS:
        return None
    segment, slash, uri = offered[len(start) :].partition("/")
    server = unquote(segment if start == SCHEME else unquote(segment))
    return (server, FORMS[start] + uri) if slash and segment_of(server, start) == segment else None


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
