"""Causes of an HTTP server that cannot be reached, in words for people. Pure.

`retry_after` reads the time that a server asks to wait before the next request (RFC 9110 10.2.3).
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol
from urllib.parse import urlsplit, urlunsplit

from mcpx.errors import leaves


class Responded(Protocol):
    """A response, as far as it is looked at here."""

    @property
    def headers(self) -> Mapping[str, str]: ...


MAX_RETRY_AFTER_LEN: Final = 64  # characters; a date has 29


def retry_after(response: Responded) -> float | None:
    """Return the time the server asks to wait, in seconds; RFC 9110 allows a number or a date."""
    value = response.headers.get("retry-after", "").strip()
    if len(value) > MAX_RETRY_AFTER_LEN:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max(0.0, round((at - datetime.now(UTC)).total_seconds(), 1))
    except (ValueError, OverflowError):
        return None


_MAX_CAUSES: Final = 10  # of an error, one behind the other
_UNKNOWN_ISSUER: Final = frozenset(
    {2, 18, 19, 20, 21}
)  # X509_V_ERR: self-signed, or of an authority unknown here
_ALERT: Final = "_ALERT_"  # in the name of an error that the other side has reported
_WANTS_CERTIFICATE: Final = 'wants a client certificate: give it "tls": {"cert": FILE, "key": FILE}'
REFUSALS: Final = {
    "CERTIFICATE_REQUIRED": f"it {_WANTS_CERTIFICATE}",
    "HANDSHAKE_FAILURE": f"it refuses the TLS handshake; perhaps it {_WANTS_CERTIFICATE}",
    **{
        name: f"it refuses the client certificate ({name.lower().replace('_', ' ')})"
        for name in (
            "ACCESS_DENIED",
            "BAD_CERTIFICATE",
            "CERTIFICATE_EXPIRED",
            "CERTIFICATE_REVOKED",
            "CERTIFICATE_UNKNOWN",
            "UNKNOWN_CA",
            "UNSUPPORTED_CERTIFICATE",
        )
    },
}
"""What ends a handshake for the sake of certificates. With TLS 1.3 it comes after the client's last word."""
OFFLINE: Final = "its name could not be resolved, or no network leads there: are you online?"
"""Why nothing at all is reached without a network; `mcpx doctor` says it once for all servers."""
_NO_NETWORK: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN})
_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
_NO_TLS: Final = frozenset(
    {"HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "WRONG_VERSION_NUMBER"}
)


def unreachable(url: str, error: BaseException) -> str:
    """Say that a connection to that URL failed, and why."""
    return f"the server cannot be reached: {shown_url(url)}: {why_unreachable(error)}"


def shown_url(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def why_unreachable(error: BaseException) -> str:
    """Return why a connection failed: what the system said of the last attempt, which the error may not
    repeat.
    """
    for each in causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return _untrusted(each)
        if isinstance(each, ssl.SSLError):
            return _without_tls(each)
        if isinstance(each, socket.gaierror) or getattr(each, "errno", None) in _NO_NETWORK:
            return OFFLINE
        if isinstance(each, OSError) and isinstance(each.errno, int) and each.errno > 0:
            return os.strerror(each.errno)
    return _ERRNO.sub("", str(error)) or type(error).__name__


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those behind it; of a group the first."""
    found: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if found is None:
            return
        leaf = next(leaves(found))
        yield leaf
        found = leaf.__cause__ or leaf.__context__


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    hint = '; name the certificate of its authority in "tls": {"ca": FILE}'
    return f"its certificate is not trusted: {error.verify_message}" + (
        hint if error.verify_code in _UNKNOWN_ISSUER else ""
    )


def _without_tls(error: ssl.SSLError) -> str:
    if error.reason in _NO_TLS:
        return "it does not speak TLS there; is its address one with http://?"
    reason = (error.reason or "the connection was closed").lower().replace("_", " ")
    return REFUSALS.get(alert_in(error), f"TLS failed: {reason}")


def alert_in(error: ssl.SSLError) -> str:
    """The name of what the server has reported; empty for an error of this side."""
    return (error.reason or "").partition(_ALERT)[2]
