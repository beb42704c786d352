"""Where a request comes from, for the audit log: made once for each client that has a connection."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final, Literal

import msgspec

from mcpx.core.text import cut

Transport = Literal["stdio", "socket", "http", "control", "page", "library"]
MAX_CLIENT_CHARS: Final = 128


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """Who asks, and over what. `control` is the command line, `page` the one in a browser, and `library` a
    program with a hub of its own.
    """

    transport: Transport
    client: str | None = None
    """What the client calls itself, `name/version`; None where it does not say."""
    name: str | None = None
    """Its name alone."""
    user: str | None = None
    """The user at the other end: of the socket, or of this process."""
    profile: str | None = None
    token: str | None = None
    """The name of the token that it showed."""


@lru_cache(maxsize=1)
def this_user() -> str:
    """The user of this process: the name, or the number where there is none."""
    import pwd  # noqa: PLC0415 - not every system has it

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def client_text(name: str | None, version: str | None) -> str | None:
    """What a client calls itself, in one text; None where it has no name."""
    if not name:
        return None
    return cut(f"{name}/{version}" if version else name, MAX_CLIENT_CHARS)


def page() -> Origin:
    """The origin of what a person does on the daemon's page."""
    return Origin(transport="page", user=this_user())


def library() -> Origin:
    """The origin of a request that a program makes with a hub of its own."""
    return Origin(transport="library", user=this_user())
