"""What a browser brings back from a sign-in, and how it is asked for. Imports no protocol and no network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the authorization response (RFC 6749 4.1.2, RFC 9207): a code, or an error."""

    code: str | None = None
    state: str | None = None
    iss: str | None = None
    error: str | None = None
    error_description: str | None = None

    def __repr__(self) -> str:
        return f"Callback(error={self.error!r})"


AskPerson = Callable[[str], Awaitable[Callback]]
"""Shows a person the URL of the authorization request, and returns what the browser comes back with.

It is called once per sign-in, and may raise `SignInError` (`TIMED_OUT`, `CANCELLED`), which ends the sign-in
with that error.
"""
