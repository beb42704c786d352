"""Which URIs may be sent to a server that did not list them. Pure.

A listed URI is as good as its server says. Any other is sent only to a server with templates, must have a
scheme that the server lists or templates, and may hold no control character and no step up (`..` as a part of
its path), both plain or percent-encoded, however often. Whether the resource exists is the server's to say:
tools give links to resources that stand in no list.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from mcpx.catalog.model import Catalogue
from mcpx.text import holds_controls

LONGEST: Final = 65_536  # characters; also what the SDK's matching takes
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_EXPRESSION: Final = re.compile(r"\{[^{}]*\}")
_DECODINGS: Final = 4  # `%25252e` is a dot too, for somebody who decodes three times


def problem_with(uri: str, catalogue: Catalogue) -> str | None:
    """Why this URI is not for that server, as the end of a sentence; None where it may be sent.

    The empty text says that nothing is wrong with it, but that the server does not offer it.
    """
    if uri in catalogue.resources:
        return None
    if len(uri) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    plain = _decoded(uri)
    if holds_controls(plain):
        return "it holds control characters"
    if _steps_up(plain):
        return "it steps out of its folder"
    if not catalogue.templates:
        return ""
    return (
        None if _is_of_an_offered_scheme(uri, catalogue) else "no resource of that server has such a scheme"
    )


def fits(template: str, uri: str) -> bool:
    """Whether `uri` is an expansion of the RFC 6570 template.

    Exact for what the SDK can take back; of the rest (an exploded query, for one) the fixed parts decide.
    """
    pattern = _pattern(template)
    if isinstance(pattern, UriTemplate):
        return pattern.match(uri) is not None
    return len(uri) <= LONGEST and pattern.fullmatch(uri) is not None


def _is_of_an_offered_scheme(uri: str, catalogue: Catalogue) -> bool:
    scheme = _scheme(uri)
    if scheme is None:
        return any(fits(template.uri_template, uri) for template in catalogue.templates)
    if any(_scheme(listed) == scheme for listed in catalogue.resources):
        return True
    return any(
        _scheme(template.uri_template) == scheme
        or (_scheme(template.uri_template) is None and fits(template.uri_template, uri))
        for template in catalogue.templates
    )


def _scheme(uri: str) -> str | None:
    """The scheme in small letters; None where there is none, or a variable in its place."""
    found = _SCHEME.match(uri)
    return found[0].lower() if found else None


@lru_cache(maxsize=1024)
def _pattern(template: str) -> UriTemplate | re.Pattern[str]:
    try:
        return UriTemplate.parse(template)
    except InvalidUriTemplate:
        return re.compile(".*".join(map(re.escape, _EXPRESSION.split(template))), re.DOTALL)


def _decoded(uri: str) -> str:
    for _ in range(_DECODINGS):
        plain = unquote(uri)
        if plain == uri:
            break
        uri = plain
    return uri


def _steps_up(plain: str) -> bool:
    path = re.split(r"[?#]", plain, maxsplit=1)[0]
    return ".." in re.split(r"[/\\]", path)
