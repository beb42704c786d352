"""The challenge of a 401 or 403: its `WWW-Authenticate` (RFC 9110 11, RFC 6750 3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from mcpx.core.servers.accounts import Responded

MAX_HEADER_LEN: Final = 8192  # characters of all challenges that are read
MAX_SCOPES_LEN: Final = 4096  # characters of a list of scopes; those beyond are cut off
_FORBIDDEN: Final = 403
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - of RFC 9110
_PART: Final = re.compile(
    rf'(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))'
    rf"|(?P<scheme>{_TOKEN})(?P<token68>\s+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$)))?"
)


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """The Bearer challenge of a response. Each part is None where the server did not give it."""

    status: int
    scope: str | None = None
    """The scopes that the request needs, separated by spaces."""
    resource_metadata: str | None = None
    """The URL of the server's metadata (RFC 9728)."""
    error: str | None = None
    """`invalid_token`, `insufficient_scope`, ... as the server has it."""
    header: str | None = None
    """All `WWW-Authenticate` headers, joined by commas and cut to `MAX_HEADER_LEN`."""

    @property
    def wants_more_scopes(self) -> bool:
        """True if the token is good, but does not allow this request."""
        return self.status == _FORBIDDEN and self.error == "insufficient_scope"


def challenge_in(response: Responded) -> Challenge:
    """The challenge of a 401 or 403, of which nothing but the head is read. Never raises.

    The SDK takes the first text that looks like a parameter, be it in another scheme's or a longer name.
    """
    header = ", ".join(response.headers.get_list("www-authenticate"))[:MAX_HEADER_LEN]
    bearer: dict[str, str] = {}
    others: dict[str, str] = {}
    parameters = others
    for part in _PART.finditer(header):
        if (scheme := part["scheme"]) is not None:
            parameters = bearer if scheme.lower() == "bearer" else others
            continue
        value = part["plain"] if part["quoted"] is None else re.sub(r"\\(.)", r"\1", part["quoted"])
        parameters.setdefault(part["name"].lower(), value)
    return Challenge(
        status=response.status_code,
        scope=clean_scope(bearer.get("scope", "")) or None,
        resource_metadata=bearer.get("resource_metadata") or others.get("resource_metadata"),
        error=bearer.get("error"),
        header=header or None,
    )


def clean_scope(scope: str) -> str:
    """A list of scopes as RFC 6749 3.3 has it: printable words of ASCII with a space between two. Bounded."""
    clean = " ".join(word for word in scope.split() if word.isascii() and word.isprintable())
    return clean if len(clean) <= MAX_SCOPES_LEN else clean[: MAX_SCOPES_LEN + 1].rpartition(" ")[0]
