"""URIs that may be sent to a server that did not list them, and the forms that rules are held against. Pure.

A listed URI is always sent, and so is one that an entry of another list names. Any other is sent only to a
server with templates or skills. It must have a scheme that the server lists or templates, or that of its
skills, and may contain neither a control character nor a step up (`..` as a segment of its path, also as
`..;x` or in full width), whether plain or percent-encoded any number of times. Whether the resource exists is
for the server to say: results of tools link to resources that no list contains.

A rule is held against every form in which a program may read a URI. Servers take URIs apart with parsers that
differ: some drop tabs and line ends, stop at a NUL, take a backslash for a slash, decode twice, cut `;x` off
a segment, or do not look at the host of a `file:` URI; file systems take letters for the same in either case,
or in full width. A rule that denies something is compared with every form here, so it denies more than it
says rather than less.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Final
from unicodedata import category, normalize
from urllib.parse import unquote

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.templates import matches_any
from mcpx.core.text import holds_controls

MAX_DECODINGS: Final = 4  # `%25252e` is a dot for a server that decodes three times
_USUAL_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_HOST_IS_KNOWN: Final = frozenset({"file", *_USUAL_PORTS})
"""Schemes of which `canonical` knows what is the host."""
_SLASHES: Final = "/\\"
_DOT: Final = re.compile(r"%2e", re.IGNORECASE)
_EMPTY: Final = re.compile(r"//+")
_OWN_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+(?=:)")
_PLAIN: Final = re.compile(r"[a-z][a-z0-9+-]*+://(?:[a-z][a-z0-9-]*+)?/(?:[\w~-]++[./]?)*+", re.ASCII)
_SKIPPED: Final = re.compile(r"[\x00-\x20\x7f-\xa0]+")
_OVERLONG: Final = re.compile(r"%([cC][01])%([89abAB][0-9a-fA-F])")
_WIDE: Final = re.compile(r"%[uU]([0-9a-fA-F]{4})")
_DRIVE: Final = re.compile(r"^/+([A-Za-z])\|(?=/|$)")
_DOTS: Final = str.maketrans("\u3002\uff0e\uff61", "...")


def decoded(uri: str) -> str:
    """A URI without its percent-encoding, and that of its percent-encoding."""
    *_, last = _decodings(uri)
    return last


def _decodings(uri: str) -> Iterator[str]:
    """A URI as it is, decoded once, and so on; the last one holds no percent-encoding."""
    for _ in range(MAX_DECODINGS):
        yield uri
        plain = unquote(_OVERLONG.sub(_two_bytes, _WIDE.sub(lambda found: chr(int(found[1], 16)), uri)))
        if plain == uri:
            return
        uri = plain
    yield uri


def _two_bytes(found: re.Match[str]) -> str:
    """An ASCII character that was encoded in two bytes, as no encoder may."""
    return chr((int(found[1], 16) & 0x1F) << 6 | int(found[2], 16) & 0x3F)


def readings(uri: str) -> set[str]:
    """The forms of a URI, all in lower case."""
    if _PLAIN.fullmatch(uri):
        return {uri.lower(), canonical(uri).lower(), uri.lower().rstrip("/"), _with_host(uri).lower()}
    found: set[str] = set()
    for each in _decodings(uri):
        plain = same_letters(each)
        for text in {each, plain, plain.partition("\0")[0], _SKIPPED.sub("", plain), plain.strip("\0 ")}:
            for full in {text, _rooted(text), _with_host(text)}:
                found |= {full, *(canonical(full, steps) for steps in _STEPS)}
    return {each.casefold() for each in found | {each.rstrip("/") for each in found}}


def _with_host(uri: str) -> str:
    """A URI with what is first in it as its host: some readers do not count the slashes before it."""
    found = _OWN_SCHEME.match(uri)
    if found is None or found[0].lower() in _HOST_IS_KNOWN:
        return uri
    return f"{found[0]}://{uri[found.end() + 1 :].lstrip(_SLASHES)}"


def _rooted(text: str) -> str:
    """A reference without a scheme as a path from the root, which some readers take it for."""
    return text if _OWN_SCHEME.match(text) or text[:1] in _SLASHES else f"/{text}"


def read_liberally(uri: str) -> str:
    """A URI as the most liberal reader would take it, its case as it is."""
    return canonical(_SKIPPED.sub("", same_letters(decoded(uri))), steps_of_cut)


def same_letters(text: str) -> str:
    """The text with each letter in the one of its forms that all have: not full-width, composed, seen."""
    if text.isascii():
        return text
    shown = "".join(letter for letter in text if category(letter) != "Cf")
    return normalize("NFKC", shown)


def steps_resolved(path: str) -> str:
    """A path without empty segments, `.` and `..`."""
    return _resolved(path, [segment for segment in path.split("/") if segment])


def steps_of_cut(path: str) -> str:
    """The same without what follows a `;` in a segment, and without its last dots and spaces."""
    return _resolved(path, [each for segment in path.split("/") if (each := _cut(segment))])


def _steps_over_empty(path: str) -> str:
    """The same as browsers do it: `..` takes back an empty segment, too, and `%2e` is a dot."""
    return _resolved(path, _DOT.sub(".", path).split("/")[path.startswith("/") :])


def _resolved(path: str, segments: list[str]) -> str:
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    kept = [segment for segment in kept if segment]
    start = "/" if path.startswith("/") else ""
    end = "/" if path.endswith("/") and kept else ""
    return f"{start}{'/'.join(kept)}{end}"


def _not_resolved(path: str) -> str:
    """The same with its steps, for a reader to whom they are names, without empty segments."""
    return _EMPTY.sub("/", path)


_STEPS: Final[tuple[Callable[[str], str], ...]] = (
    steps_resolved,
    steps_of_cut,
    _steps_over_empty,
    _not_resolved,
)


def canonical(uri: str, steps: Callable[[str], str] = steps_resolved) -> str:
    """Scheme and host in lower case, no fragment, a path of which `steps` has made another.

    Without what makes no other resource of it: a user, a port that is the usual one, the host of a file.
    """
    found = _OWN_SCHEME.match(uri)
    rest = uri[found.end() + 1 :] if found else uri
    rest, question, query = rest.partition("#")[0].partition("?")
    rest, query = rest.replace("\\", "/"), f"{question}{query}" if query else ""
    scheme = found[0].lower() if found else "file"
    if found is None and not rest.startswith("/"):
        return steps(rest) + query
    host = ""
    if scheme in _USUAL_PORTS:
        host, slash, path = rest.lstrip("/").partition("/")
        rest = slash + path or "/"
    elif rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
    host = _canonical_host(scheme, host)
    if scheme == "file":
        rest = _DRIVE.sub(r"/\1:", rest if rest.startswith("/") else f"/{rest}")
    if not host and not rest.startswith("/"):
        return f"{scheme}:{steps(rest)}{query}"
    return f"{scheme}://{host}{steps(rest)}{query}"


def _canonical_host(scheme: str, authority: str) -> str:
    """The host with a port that is not the usual one; of a file none, as nearly every reader has it."""
    if scheme == "file":
        return ""
    host = authority.rpartition("@")[2].lower().translate(_DOTS)
    name, colon, port = host.rpartition(":")
    if colon and (port.isdigit() or not port):
        host = name if not port or port.lstrip("0") == _USUAL_PORTS.get(scheme) else f"{name}:{int(port)}"
    return _address(host.rstrip("."))


def _address(host: str) -> str:
    """A host whose address is in the usual form: `0x7f.1` is `127.0.0.1`."""
    if host.startswith("["):
        with suppress(ValueError):
            return f"[{ipaddress.IPv6Address(host.partition(']')[0][1:])}]"
        return host
    parts = host.split(".")
    with suppress(ValueError, UnicodeError):
        *first, last = [int(part, _base(part)) for part in parts]
        if len(first) < 4 and all(each < 256 for each in first) and last < 256 ** (4 - len(first)):  # noqa: PLR2004 - of bytes
            return str(
                ipaddress.IPv4Address(sum(each << 8 * (3 - at) for at, each in enumerate(first)) + last)
            )
    with suppress(UnicodeError):
        return host if host.isascii() else host.encode("idna").decode()
    return host


def _base(number: str) -> int:
    if not number[:1].isdigit() or "_" in number:
        raise ValueError(number)
    if number.startswith(("0x", "0X")):
        return 16
    return 8 if number.startswith("0") and number != "0" else 10


def _cut(segment: str) -> str:
    segment = segment.partition(";")[0]
    return segment if segment in {".", ".."} else segment.rstrip(" .")


MAX_URI_CHARS: Final = 65_536
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,63}+(?=:)")  # possessive: it never goes back


class UriRejection(StrEnum):
    """Reasons not to send a URI. The value completes the sentence "has no resource URI: ..."."""

    TOO_LONG = f"it is longer than {MAX_URI_CHARS} characters"
    CONTROL_CHARACTERS = "it holds control characters"
    STEPS_UP = "it steps out of its folder"
    UNKNOWN_SCHEME = "no resource of that server has such a scheme"
    NOT_LISTED = ""
    """The URI is well formed, but is not in the list of a server that has no templates and no skills."""


def uri_rejection(uri: str, catalogue: Catalogue) -> UriRejection | None:
    """Return why this URI may not be sent to that server; None where it may."""
    if catalogue.lists(uri):
        return None
    if len(uri) > MAX_URI_CHARS:
        return UriRejection.TOO_LONG
    plain = decoded(uri)
    if holds_controls(plain):
        return UriRejection.CONTROL_CHARACTERS
    if _steps_up(plain):
        return UriRejection.STEPS_UP
    if not catalogue.templates and not catalogue.serves_skills:
        return UriRejection.NOT_LISTED
    return None if _has_offered_scheme(uri, catalogue) else UriRejection.UNKNOWN_SCHEME


def is_offered(uri: str, catalogue: Catalogue) -> bool:
    """Return True if the URI matches one of the server's templates."""
    return len(uri) <= MAX_URI_CHARS and matches_any((info.uri_template for info in catalogue.templates), uri)


def may_be_of_skill(uri: str, catalogue: Catalogue) -> bool:
    """Return True if the URI may be that of a skill, its folder or a file of it, listed or not."""
    schemes = {"skill", *(_scheme(skill.uri) for skill in catalogue.skills)}
    return catalogue.serves_skills and _scheme(uri) in schemes


def _has_offered_scheme(uri: str, catalogue: Catalogue) -> bool:
    scheme = _scheme(uri)
    if scheme is None:
        return is_offered(uri, catalogue)
    if any(_scheme(listed) == scheme for listed in catalogue.resources) or may_be_of_skill(uri, catalogue):
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
