"""The answers of an authorization server: a code, tokens, a refusal for good, or a failure for now. Pure.

Of the answer that a browser brings back nothing is believed before its state and its issuer are checked
(`code_in`). A refusal is told by the error codes of RFC 6749 5.2 and RFC 7591 3.2.2, and a text of the
server's is quoted without secrets. What some servers write in their own way (scopes in an array, an empty
refresh token) is put right, and what is kept of them is bounded.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Iterator
from typing import Final, TypeGuard
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx2
import msgspec

from mcpx.core.text import one_line
from mcpx.core.wire.unreachable import retry_after
from mcpx.oauth.addresses import shown_origin
from mcpx.oauth.challenge import clean_scope
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import JSON

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


# --- from endpoints

MAX_CLIENT_ID_LEN: Final = 2048  # characters; it is part of a URL
MAX_LIFETIME_S: Final = 10 * 365 * 86_400  # of a token; a longer one is renewed then
MAX_WAIT_S: Final = 999_999_999.0  # that a server may ask for
_FORM: Final = "application/x-www-form-urlencoded"
_SECRETS: Final = frozenset(
    {"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "token"}
)
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_VISIBLE: Final = re.compile(r"[\x20-\x7e]+")  # what RFC 6749 has client ids, secrets and refresh tokens of
_SUCCESS: Final = frozenset({200, 201})
_REFUSAL: Final = frozenset({400, 401})
_UNAUTHORIZED: Final = 401
_PROPERTIES_REFUSED: Final = frozenset({400, 422})
_MOVED: Final = frozenset({301, 302, 303, 307, 308, 404, 405, 410})
_FOR_NOW: Final = frozenset({"temporarily_unavailable", "server_error", "slow_down"})
_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})
MAX_NAME_CHARS: Final = 100
MAX_ID_TOKEN_CHARS: Final = 65_536
_CLAIMS: Final = ("preferred_username", "email", "name", "sub")
_JWT_PARTS: Final = 3


class EndpointMoved(SignInError):
    """There is no token endpoint where it was: the metadata that name it may be old."""


class ClientMetadataRefused(SignInError):
    """A client with these properties is not registered, but perhaps one with others."""


def tokens_in(response: httpx2.Response, *, refused: Problem, what: str) -> JSON:
    """The answer of a token endpoint, in the form of RFC 6749 5.1.

    Args:
        response: The answer, with its request.
        refused: The problem if the server does not take what it was given.
        what: What that is, for the error.

    Raises:
        SignInError: `refused`; `CLIENT_REFUSED` for the client; `UNREACHABLE` for a failure for now.
    """
    answer, origin = json_object(response) or {}, shown_origin(response.request.url)
    if response.status_code in _SUCCESS and _is_token(answer.get("access_token")):
        return _normal(answer, origin)
    code = answer.get("error") if isinstance(answer.get("error"), str) else None
    said = _quoted(response, answer)
    refusal = response.status_code in _REFUSAL or (code is not None and response.is_client_error)
    refusal = refusal or (response.is_success and code is not None)
    if not refusal or code in _FOR_NOW or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        text = f"{origin} gives no token now: {said}"
        kind = EndpointMoved if response.status_code in _MOVED else SignInError
        raise kind(Problem.UNREACHABLE, text, retry_after_s=retry_after_s(response))
    if code in _CLIENT or (code is None and response.status_code == _UNAUTHORIZED):
        raise SignInError(Problem.CLIENT_REFUSED, f"{origin} does not take MCPX as a client: {said}")
    raise SignInError(refused, f"{origin} does not take {what}: {said}{HINTS.get(code or '', '')}")


def check_registration(response: httpx2.Response) -> JSON:
    """Return the answer to a registration, and refuse one that registers nothing.

    Raises:
        SignInError: `REGISTRATION_REFUSED`, or `UNREACHABLE` for a failure for now.
    """
    answer, origin = json_object(response) or {}, shown_origin(response.request.url)
    if response.status_code in _SUCCESS and _is_client(answer):
        return answer
    said = _quoted(response, answer)
    if response.is_server_error or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        text = f"{origin} registers no clients now: {said}"
        raise SignInError(Problem.UNREACHABLE, text, retry_after_s=retry_after_s(response))
    text = (
        f"{origin} does not register MCPX as a client: {said}; register one there yourself, and"
        " put its client_id (and client_secret) into `auth` of the server"
    )
    kind = ClientMetadataRefused if response.status_code in _PROPERTIES_REFUSED else SignInError
    raise kind(Problem.REGISTRATION_REFUSED, text)


def as_for_now(error: SignInError) -> SignInError:
    """The error of a token request to an endpoint that was good before: no usable answer is for now.

    Somebody else answers in its place, as in a hotel's network, where each name leads to an address nearby.
    """
    if error.problem in {Problem.METADATA_REFUSED, Problem.INSECURE}:
        return SignInError(Problem.UNREACHABLE, str(error), retry_after_s=error.retry_after_s)
    return error


def retry_after_s(response: httpx2.Response) -> float | None:
    """The time that a server asks to wait, in seconds; None if it does not say, or beyond all measure."""
    seconds = retry_after(response)
    return None if seconds is None or seconds > MAX_WAIT_S else seconds


def _normal(answer: JSON, origin: str) -> JSON:
    """Write tokens in one form: without what is empty or unreadable."""
    kind = answer.get("token_type")
    if isinstance(kind, str) and kind and kind.lower() != "bearer":
        text = f"{origin} gives tokens of a kind that MCPX cannot use: {one_line(kind, MAX_QUOTE_LEN)}"
        raise SignInError(Problem.GRANT_REFUSED, text)
    normal: JSON = {"access_token": answer["access_token"], "token_type": "Bearer"}
    scope = answer.get("scope")
    if isinstance(scope, list):
        scope = " ".join(each for each in scope if isinstance(each, str))
    if isinstance(scope, str) and (clean := clean_scope(scope)):
        normal["scope"] = clean
    if _is_visible(refresh_token := answer.get("refresh_token")):
        normal["refresh_token"] = refresh_token
    try:
        seconds = min(int(float(answer.get("expires_in", 0))), MAX_LIFETIME_S)
    except (TypeError, ValueError, OverflowError):
        seconds = 0
    if seconds > 0:
        normal["expires_in"] = seconds
    return normal


def _is_token(value: object) -> bool:
    """Return True if it can stand in a header (RFC 6750 2.1); an error about another would quote it."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def _is_visible(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _VISIBLE.fullmatch(value) is not None


def _is_client(answer: JSON) -> bool:
    """Return True if a registration gives a client that can be kept and shown again."""
    client_id, secret = answer.get("client_id"), answer.get("client_secret")
    return (
        _is_visible(client_id) and len(client_id) <= MAX_CLIENT_ID_LEN and (not secret or _is_visible(secret))
    )


def json_object(response: httpx2.Response) -> JSON | None:
    """The JSON object of an answer, which can be written again; None for anything else."""
    try:
        found = json.loads(response.content)  # which takes an Infinity, as some servers write one
        msgspec.json.encode(found)  # which takes no lone surrogates
    except (ValueError, OverflowError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _quoted(response: httpx2.Response, answer: JSON) -> str:
    """Quote a server's refusal, without the secrets of the request."""
    parts = [each for key in ("error", "error_description") if isinstance(each := answer.get(key), str)]
    text = one_line(": ".join(parts), MAX_QUOTE_LEN) if parts else ""
    status = f"HTTP {response.status_code}"
    if not text or any(secret in ": ".join(parts) for secret in _secrets_of(response.request)):
        return status
    return f"{text} ({status})"


def _secrets_of(request: httpx2.Request) -> Iterator[str]:
    if str(request.headers.get("content-type", "")).startswith(_FORM):  # the others have no form
        for name, value in parse_qsl(request.content.decode(errors="replace")):
            if name in _SECRETS:
                yield value
    scheme, _, credentials = str(request.headers.get("authorization", "")).partition(" ")
    if scheme.lower() == "basic":
        yield unquote(base64.b64decode(credentials).decode(errors="replace").partition(":")[2]) or credentials


# The name of the account that a person has signed in with, where the authorization server tells it: in the
# id token that may come with an access token, or at the userinfo endpoint (OpenID Connect Core 5.3). It is
# what a person is shown, and decides nothing, so the id token, which came from the token endpoint itself, is
# read without its signature.


def name_with_tokens(response: httpx2.Response) -> str | None:
    """The name in the id token of a token endpoint's answer; None where there is none that can be read."""
    token = (json_object(response) or {}).get("id_token")
    if not isinstance(token, str) or len(token) > MAX_ID_TOKEN_CHARS or token.count(".") != _JWT_PARTS - 1:
        return None
    payload = token.split(".")[1]
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, binascii.Error, ValueError):
        return None
    return name_in(claims)


def name_in(claims: object) -> str | None:
    """The claim that says most to a person, as text that can be shown."""
    if not isinstance(claims, dict):
        return None
    texts = (each for key in _CLAIMS if isinstance(each := claims.get(key), str))
    return next(filter(None, (one_line(each, MAX_NAME_CHARS).strip() for each in texts)), None)
