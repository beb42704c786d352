"""`http.replica`: an MCPX that is one of several behind a load balancer. Its shape, and what it must hold.

`${VAR}` in it is expanded, because each replica has its own address, and the secret belongs in no file. What
is wrong with it is a mistake of the whole configuration: a replica without its secret would sign nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import msgspec

from mcpx.core.config.document import LocatedError, Location, quote
from mcpx.core.config.expand import Values, expand
from mcpx.core.config.trust import doc
from mcpx.core.config.urls import bad_url

if TYPE_CHECKING:
    from mcpx.core.config.notices import ConfigNotices

MIN_SECRET_BYTES: Final = 16
MAX_URL_CHARS: Final = 256


class Replica(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the other replicas reach this one, and the secret that they share; without a URL, none are."""

    url: Annotated[
        str,
        doc("URL at which the other replicas reach this one, without a path: http://10.0.0.3:8765."),
    ] = ""
    secret: Annotated[
        str,
        doc("The secret that all replicas share, of 16 bytes or more: as ${VAR}, and not in the file."),
    ] = ""

    def __repr__(self) -> str:
        return f"Replica(url={self.url!r})"


def usable_replica(given: Replica, values: Values, at: Location, notices: ConfigNotices) -> Replica:
    """The replica with its variables expanded; what is wrong with it is noted as a mistake."""
    if given == Replica():
        return given
    with notices.gathering():
        made = Replica(
            url=_expanded(given.url, values, at.key("url")).rstrip("/"),
            secret=_expanded(given.secret, values, at.key("secret")),
        )
        if problem := _bad_origin(made.url):
            raise at.key("url").error(problem)
        if len(made.secret.encode()) < MIN_SECRET_BYTES:
            needed = f"the secret must have {MIN_SECRET_BYTES} bytes or more"
            raise at.key("secret").error(f"{needed}; openssl rand -hex 32 makes one")
        return made
    return given


def _expanded(text: str, values: Values, at: Location) -> str:
    """The text with its variables.

    Raises:
        LocatedError: One has no value.
    """
    found = expand(text, values)
    if found.problems:
        raise at.error("; ".join(map(str, found.problems)))
    if found.deferred or found.unparsed:
        raise _unknown(at)
    return found.text


def _unknown(at: Location) -> LocatedError:
    return at.error(f"only variables are expanded here, such as {quote('${MCPX_REPLICA_SECRET}')}")


def _bad_origin(url: str) -> str | None:
    """What is wrong with the URL of a replica: it must be nothing but scheme, host and port."""
    if problem := bad_url(url):
        return problem
    parts = urlsplit(url)
    if len(url) > MAX_URL_CHARS or "@" in parts.netloc or parts.path or parts.query or parts.fragment:
        return "expected a URL of scheme, host and port alone, such as http://10.0.0.3:8765"
    return None
