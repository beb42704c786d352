"""What the browser shows at the end of a sign-in: small pages, without scripts, that load nothing."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Final

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>{title}</title>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS: Final = (
    "Content-Type: text/html; charset=utf-8",
    "Cache-Control: no-store",
    f"Content-Security-Policy: {_POLICY}",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
)


def page(title: str, text: str, status: HTTPStatus = HTTPStatus.OK, *headers: str) -> bytes:
    """A whole response with a title and one paragraph, which are plain text."""
    body = _PAGE.format(title=escape(title), text=escape(text)).encode("utf-8", "replace")
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        *_HEADERS,
        *headers,
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def ended_page(name: str, problem: str | None) -> bytes:
    """The page of a sign-in that has ended: at a server of that name, with a problem or without."""
    if problem is None:
        return page("Signed in", f"MCPX is signed in to {name}. You can close this page.")
    return page("Not signed in", f"MCPX is not signed in to {name}: {problem}. You can close this page.")


def refusal_page(status: HTTPStatus, *headers: str) -> bytes:
    """The page for a request that belongs to no sign-in."""
    text = "This is where a browser returns to after a sign-in. None waits for this request."
    return page("Nothing to do here", text, status, *headers)
