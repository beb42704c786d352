"""Which URIs may be sent to a server that did not list them. Pure.

A listed URI is as good as its server says. Any other is sent only to a server with templates, must have a
scheme that the server lists or templates, and may hold no control character and no step up (`..` as a part of
its path), both plain or percent-encoded, however often. Whether the resource exists is the server's to say:
tools give links to resources that stand in no list.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from mcpx.catalog.model import Catalogue
from mcpx.catalog.templates import any_fits
from mcpx.text import holds_controls

LONGEST: Final = 65_536  # characters of a URI that is looked at
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,63}+(?=:)")  # possessive: it never goes back
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


def is_offered(uri: str, catalogue: Catalogue) -> bool:
    """Whether the URI fits one of the server's templates."""
    return len(uri) <= LONGEST and any_fits((info.uri_template for info in catalogue.templates), uri)


def _is_of_an_offered_scheme(uri: str, catalogue: Catalogue) -> bool:
    scheme = _scheme(uri)
    if scheme is None:
        return is_offered(uri, catalogue)
    if any(_scheme(listed) == scheme for listed in catalogue.resources):
        return True
    templates = [info.uri_template for info in catalogue.templates]
    if any(_scheme(template) == scheme for template in templates):
        return True
    return any_fits((template for template in templates if _scheme(template) is None), uri)


def _scheme(uri: str) -> str | None:
    """The scheme in small letters; None where there is none, or a variable in its place."""
    found = _SCHEME.match(uri)
    return found[0].lower() if found else None


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
