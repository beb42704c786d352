"""Which URIs may be sent to a server that did not list them. Pure.

A listed URI is always sent. Any other is sent only to a server with templates. It must have a scheme that
the server lists or templates, and may contain neither a control character nor a step up (`..` as a segment
of its path, also as `..;x` or in full width), whether plain or percent-encoded any number of times. Whether
the resource exists is for the server to say: results of tools link to resources that no list contains.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.templates import matches_any
from mcpx.core.catalog.uri_readings import decoded, same_letters
from mcpx.core.text import holds_controls

MAX_URI_CHARS: Final = 65_536
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,63}+(?=:)")  # possessive: it never goes back


class UriRejection(StrEnum):
    """Why a URI may not be sent. The value completes the sentence "has no resource URI: ..."."""

    TOO_LONG = f"it is longer than {MAX_URI_CHARS} characters"
    CONTROL_CHARACTERS = "it holds control characters"
    STEPS_UP = "it steps out of its folder"
    UNKNOWN_SCHEME = "no resource of that server has such a scheme"
    NOT_LISTED = ""
    """The URI is well formed, but is not in the list of a server that has no templates."""


def uri_rejection(uri: str, catalogue: Catalogue) -> UriRejection | None:
    """Why this URI may not be sent to that server; None where it may."""
    if uri in catalogue.resources:
        return None
    if len(uri) > MAX_URI_CHARS:
        return UriRejection.TOO_LONG
    plain = decoded(uri)
    if holds_controls(plain):
        return UriRejection.CONTROL_CHARACTERS
    if _steps_up(plain):
        return UriRejection.STEPS_UP
    if not catalogue.templates:
        return UriRejection.NOT_LISTED
    return None if _has_offered_scheme(uri, catalogue) else UriRejection.UNKNOWN_SCHEME


def is_offered(uri: str, catalogue: Catalogue) -> bool:
    """Whether the URI matches one of the server's templates."""
    return len(uri) <= MAX_URI_CHARS and matches_any((info.uri_template for info in catalogue.templates), uri)


def _has_offered_scheme(uri: str, catalogue: Catalogue) -> bool:
    scheme = _scheme(uri)
    if scheme is None:
        return is_offered(uri, catalogue)
    if any(_scheme(listed) == scheme for listed in catalogue.resources):
        return True
    templates = [info.uri_template for info in catalogue.templates]
    if any(_scheme(template) == scheme for template in templates):
        return True
    return matches_any((template for template in templates if _scheme(template) is None), uri)


def _scheme(uri: str) -> str | None:
    """The scheme in lower case; None where there is none, or a variable in its place."""
    found = _SCHEME.match(uri)
    return found[0].lower() if found else None


def _steps_up(plain: str) -> bool:
    path = re.split(r"[?#]", same_letters(plain), maxsplit=1)[0]
    return any(segment.partition(";")[0] == ".." for segment in re.split(r"[/\\]", path))
