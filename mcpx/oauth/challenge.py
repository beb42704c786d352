"""What a server says of authorization with a 401 or 403: its `WWW-Authenticate` (RFC 9110 11, RFC 6750 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import httpx2


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
    """All `WWW-Authenticate` headers, joined by commas and cut to a sane length."""

    @property
    def wants_more_scopes(self) -> bool:
        """Whether the token is good, but does not allow this request."""
        return self.status == 403 and self.error == "insufficient_scope"  # noqa: PLR2004 - HTTP's number


def challenge_in(response: httpx2.Response) -> Challenge:
    """The challenge of a 401 or 403, of which nothing but the head is read. Never raises."""
    return Challenge(status=response.status_code)
