"""`auth` as other clients write it, in MCPX's own words: for entries that were copied from their files.

Owns the other spellings of its keys: Cursor's `CLIENT_ID`, the `clientId` of most others, and what they have
beyond MCPX. Read by the parser of a configuration and by `mcpx import`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mcpx.core.config.auth import OAuth

AUTH_KEYS: Final = ("auth", "oauth")
"""The keys of an entry that hold it; the second is that of most other clients."""

_OWN: Final = {key.replace("_", ""): key for key in OAuth.__struct_fields__}
_OTHERS: Final = {
    "scope": "scopes",
    "oauthscopes": "scopes",
    "granttype": "grant",
    "tokenendpointauthmethod": "token_auth",
    "clientmetadataurl": "client_metadata_url",
}
_WELL_KNOWN: Final = re.compile(r"/\.well-known/(?:oauth-authorization-server|openid-configuration)")
_LOOPBACK_PORT: Final = re.compile(r"(?:http://)?(?:localhost|127\.0\.0\.1|\[::1\]):(\d{1,5})(?:/.*)?")
_UNUSED: Final = frozenset(
    {"audience", "audiences", "authorizationurl", "registrationurl", "tokenparamname", "tokenurl", "type"}
)
"""Keys of other clients that MCPX has no counterpart for: it takes from the server what they say."""


class Spelled(msgspec.Struct, frozen=True):
    """One key and its value in MCPX's words. `key` is None for one that has no counterpart."""

    key: str | None
    value: Any = None


def in_own_words(key: str, value: object) -> Spelled | None:
    """What a key inside `auth` means; None for one that no client is known to have."""
    plain = key.lower().replace("_", "").replace("-", "")
    if key == "enabled":
        return Spelled("enabled", value)
    if own := _OWN.get(plain) or _OTHERS.get(plain):
        return Spelled(own, value)
    if plain in _FROM_TEXT:
        own, convert = _FROM_TEXT[plain]
        found = convert(value) if isinstance(value, str) else None
        return Spelled(None if found is None else own, found)
    return Spelled(None) if plain in _UNUSED else None


def own_auth(given: Mapping[str, Any]) -> tuple[dict[str, Any] | bool, tuple[str, ...]]:
    """A whole `auth` object in MCPX's words, and the keys in it that are left out. For `mcpx import`."""
    found: dict[str, Any] = {}
    left_out: list[str] = []
    for key, value in given.items():
        spelled = in_own_words(str(key), value)
        if spelled is None or spelled.key is None or not _is_plain(spelled.value):
            left_out.append(str(key))
        elif value is not None:
            found[spelled.key] = spelled.value
    if found.pop("enabled", True) is False:
        return False, ()
    return found or True, tuple(left_out)


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, bool | int | str)


def _issuer(metadata_url: str) -> str | None:
    """The issuer whose metadata stands at that URL (RFC 8414, OpenID Connect Discovery)."""
    issuer, replaced = _WELL_KNOWN.subn("", metadata_url)
    return issuer.rstrip("/") if replaced == 1 else None


def _port(redirect_uri: str) -> int | None:
    """The port of a redirect address on this machine."""
    found = _LOOPBACK_PORT.fullmatch(redirect_uri)
    return int(found[1]) if found else None


_FROM_TEXT: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "authservermetadataurl": ("issuer", _issuer),
    "redirecturi": ("callback_port", _port),
    "callbackurl": ("callback_port", _port),
}
