"""The answer that a browser brings back from a sign-in: read from its address, and judged.

Nothing of it is believed before its state and its issuer are checked (`code_in`).
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from mcpx.core.text import one_line
from mcpx.oauth.errors import Problem, SignInError

MAX_QUOTE_LEN: Final = 200  # characters of a text of the authorization server's in a message
_PROBLEMS: Final = {
    "server_error": Problem.UNREACHABLE,
    "temporarily_unavailable": Problem.UNREACHABLE,
    "unauthorized_client": Problem.CLIENT_REFUSED,
    "invalid_client": Problem.CLIENT_REFUSED,
}
HINTS: Final = {
    "invalid_scope": "; other scopes can be asked for with --scopes, or set as `scopes` in its `auth`",
    "invalid_target": '; `"resource": false` in its `auth` asks for a token without naming the server',
}
"""What to do about an error of an authorization server."""


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


def callback_in(query: str) -> Callback | None:
    """The answer that a query holds; None for one that is none, or names something twice."""
    try:
        pairs = parse_qsl(query, max_num_fields=32, errors="strict")
    except ValueError:
        return None
    found = [(name, value) for name, value in pairs if name in Callback.__struct_fields__]
    values = dict(found)
    if len(values) != len(found) or ("code" in values) == ("error" in values):
        return None
    return Callback(**values)


def pasted(address: str) -> Callback | None:
    """The answer in the address that a browser came back to: all of it, or its query alone."""
    text = address.strip().strip("<>\"'")
    try:
        query = urlsplit(text).query or text.lstrip("?")
    except ValueError:
        return None
    return callback_in(query)


def code_in(callback: Callback, *, state: str, issuer: str, names_issuer: bool) -> str:
    """The code of an authorization response to the request with this `state`.

    Nothing of a response is believed before its state and issuer are checked, its error neither. Issuers are
    compared as strings (RFC 9207 2.4); `names_issuer` says whether the server always gives its own.

    Raises:
        SignInError: `STATE_MISMATCH`, `WRONG_ISSUER`, `CODE_REFUSED` without a code, and `DENIED`,
            `CLIENT_REFUSED` or `UNREACHABLE` for an error.
    """
    if callback.state is None or not secrets.compare_digest(callback.state.encode(), state.encode()):
        text = "the browser came back from another sign-in than the one that waits: refused; sign in again"
        raise SignInError(Problem.STATE_MISMATCH, text)
    if callback.iss is None and names_issuer:
        text = (
            f"the browser came back without the name of {issuer}, which always gives it; nothing was accepted"
        )
        raise SignInError(Problem.WRONG_ISSUER, text)
    if callback.iss is not None and callback.iss != issuer:
        other = one_line(callback.iss, MAX_QUOTE_LEN)
        text = f"the browser came back from {other}, not from {issuer}; nothing was accepted"
        raise SignInError(Problem.WRONG_ISSUER, text)
    if callback.error is not None:
        raise _refusal(callback.error, callback.error_description, issuer)
    if not callback.code:
        raise SignInError(
            Problem.CODE_REFUSED, f"the browser came back from {issuer} without a code: sign in again"
        )
    return callback.code


def _refusal(error: str, description: str | None, issuer: str) -> SignInError:
    said = one_line(error if not description else f"{error}: {description}", MAX_QUOTE_LEN)
    hint = HINTS.get(error, "")
    return SignInError(_PROBLEMS.get(error, Problem.DENIED), f"{issuer} did not sign you in: {said}{hint}")
