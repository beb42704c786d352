"""The files of `static/`, read once each, when they are first asked for.

`index.html` is the page itself, whatever the view. Its policy allows scripts, styles and fonts of the
page's own, and no others; the import map, which has to stand within the file, by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
_IMPORT_MAP: Final = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
_NAME: Final = re.compile(r"(?:[a-z0-9-]+/)*[a-z0-9.-]+\.(css|mjs|svg|woff2)")


async def index(_request: Request) -> Response:
    """The page."""
    return Response(
        _read("index.html"), media_type=_TYPES["html"], headers={"content-security-policy": _policy()}
    )


async def file(request: Request) -> Response:
    """One of its files."""
    name = request.path_params["name"]
    kind = _NAME.fullmatch(name)
    if kind is None:
        return PlainTextResponse("Not found\n", 404)
    try:
        content = _read(name)
    except OSError:  # there is none, or none can have such a name
        return PlainTextResponse("Not found\n", 404)
    return Response(content, media_type=_TYPES[kind[1]])


@cache
def _read(name: str) -> bytes:
    return (files("mcpx.page") / "static" / name).read_bytes()


@cache
def _policy() -> str:
    found = _IMPORT_MAP.search(_read("index.html").decode())
    digest = base64.b64encode(hashlib.sha256(found[1].encode() if found else b"").digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data: blob:; font-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
