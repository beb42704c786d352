"""`auth` and `tls` of a server's entry: read, expanded, and checked against the rest of the entry.

Owns what contradicts itself there. `auth` may be spelled as other clients do: Cursor's `CLIENT_ID`, the
`clientId` of most others, and what they have beyond MCPX. An unknown key is a mistake in `auth`, and noted in
`oauth`, where other clients have more of them.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, get_args

import msgspec

from mcpx.core.config.certificates import CertificateProblem, certificate_problem, read_pem
from mcpx.core.config.document import LocatedError, Location, as_object, is_comment, quote, unknown_key
from mcpx.core.config.server_config import SCOPE, CallbackHost, Grant, OAuth, Obstacle, Tls, TokenAuth
from mcpx.core.config.settings import convert, fields, own_keys
from mcpx.core.config.strings import Problem, Strings
from mcpx.core.config.urls import bad_credential_url, split_url
from mcpx.core.text import holds_controls, kind_of
from mcpx.core.text.jsonc import JSONObject

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
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "grant": get_args(Grant),
    "token_auth": get_args(TokenAuth),
    "callback_host": get_args(CallbackHost),
}


class Spelled(msgspec.Struct, frozen=True):
    """One key and its value in MCPX's words. `key` is None for one that has no counterpart."""

    key: str | None
    value: Any = None


def in_own_words(key: str, value: object) -> Spelled | None:
    """Return a key inside `auth` in MCPX's words; None for one that no client is known to have."""
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


# --- reading


ALGORITHMS: Final = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA")
"""Of signatures with a private key (RFC 7518, RFC 8037)."""


class EntryAuth:
    """Reads the two keys of one entry. Mistakes, remarks and obstacles go where those of its strings go."""

    def __init__(self, strings: Strings) -> None:
        self._strings, self._context = strings, strings.context
        self._entry, self._at, self._notices = strings.entry, strings.at, strings.notices

    # --- auth

    def auth(self, headers: Collection[str]) -> OAuth | None:
        """Return the sign-in; None where the entry wants none. `headers` are those of the entry."""
        given = [key for key in AUTH_KEYS if self._entry.get(key) is not None]
        if not given:
            return OAuth()
        found: OAuth | None = OAuth()
        with self._notices.gathering():
            at = self._at.key(given[0])
            if len(given) > 1:
                raise self._at.name(given[1]).error(
                    f"both {quote(given[0])} and {quote(given[1])}: one is enough"
                )
            found = self._read_auth(self._entry[given[0]], at, strict=given[0] == "auth")
            if found is not None and any(name.lower() == "authorization" for name in headers):
                raise at.error('contradicts the header "Authorization": a server gets one or the other')
        return found

    def _read_auth(self, value: Any, at: Location, *, strict: bool) -> OAuth | None:
        if isinstance(value, bool) or value in ("oauth", "none"):
            return OAuth() if value in (True, "oauth") else None
        if not isinstance(value, JSONObject):
            hint = '; a token belongs into "headers"' if isinstance(value, str) else ""
            expected = 'an object, "oauth", "none", true or false'
            raise at.error(f"expected {expected}, got {kind_of(value)}{hint}")
        given = self._own_members(as_object(value, at), at, strict=strict)
        enabled, place = given.pop("enabled", (True, at))
        if not convert(enabled, bool, place):
            return None
        before = len(self._notices.mistakes)
        found: dict[str, Any] = {}
        for key, (each, place) in given.items():
            with self._notices.gathering():
                found[key] = self._member(key, each, place)
        auth = OAuth(**found)
        if len(self._notices.mistakes) == before:
            self._notices.mistakes += _contradictions(auth, given.keys(), at)
            if auth.grant == "client_credentials" and auth.callback_port:
                self._notices.add(given["callback_port"][1], "has no effect: no person signs in")
        return auth

    def _own_members(
        self, value: JSONObject, at: Location, *, strict: bool
    ) -> dict[str, tuple[Any, Location]]:
        """The members by MCPX's names for them; unknown ones are noted."""
        given: dict[str, tuple[Any, Location]] = {}
        for name, each in value.items():
            spelled = in_own_words(name, each)
            if is_comment(name) or (spelled is not None and each is None):
                continue
            if spelled is None and strict:
                self._notices.mistakes.append(unknown_key(name, OAuth.__struct_fields__, at))
            elif spelled is None or spelled.key is None:
                self._notices.unused([name], at, known=OAuth.__struct_fields__ if spelled is None else ())
            elif spelled.key in given:
                twice = f"{quote(name)} says again what {quote(str(given[spelled.key][1].steps[-1]))} says"
                self._notices.mistakes.append(at.name(name).error(twice))
            else:
                given[spelled.key] = spelled.value, at.key(name)
        return given

    def _member(self, key: str, value: Any, at: Location) -> Any:
        """One value of `auth`, as `OAuth` has it."""
        if key == "scopes":
            return tuple(self._scopes(value, at))
        wanted = fields(OAuth)[key].type
        if key in _WORDS and isinstance(value, str):
            return self._strings.expanded(value, at, _one_of(_WORDS[key]))
        found = convert(value, wanted, at)
        if not isinstance(found, str):
            return found
        if key == "private_key":
            return self._private_key(found, at)
        return self._strings.expanded(found, at, _PROBLEMS.get(key, _unfit))

    def _scopes(self, value: Any, at: Location) -> Iterator[str]:
        """The scopes of a list, or of one string between whose scopes are spaces."""
        whole = isinstance(value, str)
        given: Iterable[tuple[str, Location]] = (
            [(value, at)]
            if whole
            else [(each, at.item(n)) for n, each in enumerate(convert(value, tuple[str, ...], at))]
        )
        for each, place in given:
            yield from self._strings.expanded(each, place, _bad_scopes).split()

    def _private_key(self, written: str, at: Location) -> str:
        """The PEM text of a key, which may be in a file."""
        text = self._strings.expanded(written, at, _empty)
        if not text or "${" in text:  # a variable that has no value, or a secret that is not fetched
            return text
        try:
            return _usable_key(text if "-----BEGIN" in text else self._key_in_file(text))
        except CertificateProblem as problem:
            self._strings.obstacles.append(_of_file(str(problem), at))
            return text

    def _key_in_file(self, path: str) -> str:
        """The PEM text in a file. The path is in no error: it may be the key itself, in another form."""
        file = self._context.path(path)
        if not os.path.isfile(file):
            raise CertificateProblem("private_key", "neither the PEM text of a key nor the path of a file")
        return read_pem("private_key", file, shown="the file of the private key")

    # --- tls

    def tls(self, url: str) -> Tls | None:
        """The certificates of the entry, by the absolute paths of their files; None without `tls`."""
        if self._entry.get("tls") is None:
            return None
        at, found, as_written = self._at.key("tls"), dict[str, str](), dict[str, str]()
        with self._notices.gathering():
            given = own_keys(self._entry["tls"], Tls, at, self._notices)
            for key in (key for key in fields(Tls) if given.get(key) is not None):
                with self._notices.gathering():
                    written = convert(given[key], fields(Tls)[key].type, at.key(key))
                    path = self._strings.expanded(written, at.key(key), _bad_path)
                    found[key] = path if "${" in path else self._context.path(path)
                    as_written[found[key]] = written if "${" in written else found[key]
            if "key" in given and "cert" not in given:
                raise at.error('"key" without "cert": the certificate is missing')
        if url[:5].lower() == "http:":
            self._notices.add(at, "has no effect on a server that is reached by http://")
        tls = Tls(**found)
        if not any("${" in path for path in found.values()) and (problem := certificate_problem(tls)):
            text = str(problem)
            for path, written in as_written.items():  # what a variable holds may be no path, but the key
                text = text.replace(path, written)
            self._strings.obstacles.append(_of_file(text, at.key(problem.key)))
        return tls


def _of_file(problem: str, at: Location) -> Obstacle:
    """The obstacle of a file of certificates or keys, whose path may be a secret."""
    return Obstacle(problem, at, str(at.steps[-1]), "put a file there that can be used")


def _contradictions(auth: OAuth, given: Collection[str], at: Location) -> list[LocatedError]:
    """Return what cannot be meant, or cannot work."""
    secret, key = auth.client_secret is not None, auth.private_key is not None
    for_client = next((name for name in ("client_secret", "private_key") if name in given), None)
    found = []
    if auth.client_id is None and auth.grant == "client_credentials":
        found.append('"grant": "client_credentials" needs a "client_id"')
    elif auth.client_id is None and for_client:
        found.append(f'{quote(for_client)} without "client_id": whose is it?')
    if auth.client_id is not None and auth.client_metadata_url is not None:
        found.append('both "client_id" and "client_metadata_url": a client has one of them')
    if secret and key:
        found.append('both "client_secret" and "private_key": a client shows one of them')
    if auth.grant == "client_credentials" and not (secret or key):
        found.append('"grant": "client_credentials" needs a "client_secret" or a "private_key"')
    method = auth.token_auth
    if method is not None and method in _WORDS["token_auth"] and (method == "none") is secret:
        found.append(f'"token_auth": {quote(method)} {"with" if secret else "without"} "client_secret"')
    return [at.error(each) for each in found]


# --- what is wrong with a string


def _one_of(words: Collection[str]) -> Problem:
    return lambda text: None if text in words else f"expected one of {', '.join(map(quote, words))}"


def _empty(text: str) -> str | None:
    return None if text.strip() else "expected a string, got an empty one"


def _unfit(text: str) -> str | None:
    return "the string holds a control character" if holds_controls(text) else _empty(text)


def _bad_path(text: str) -> str | None:
    return "expected the path of a file, got what should be in it" if "-----BEGIN" in text else _unfit(text)


def _bad_scopes(text: str) -> str | None:
    return None if all(map(SCOPE.fullmatch, text.split())) else "expected scopes without odd characters"


def _bad_metadata_url(text: str) -> str | None:
    parts = None if bad_credential_url(text) else split_url(text)
    fits = parts is not None and parts.scheme == "https" and parts.path not in ("", "/")
    return None if fits else "expected a URL that starts with https:// and has a path"


def _usable_key(pem: str) -> str:
    """The PEM text of a private key without a passphrase."""
    if "PRIVATE KEY-----" not in pem:
        raise CertificateProblem("private_key", "this holds no private key")
    if "ENCRYPTED" in pem:
        raise CertificateProblem("private_key", "the private key has a passphrase; give one without")
    return pem


_PROBLEMS: Final[Mapping[str, Problem]] = {
    "algorithm": lambda text: None if text in ALGORITHMS else f"expected one of {', '.join(ALGORITHMS)}",
    "client_metadata_url": _bad_metadata_url,
    "issuer": bad_credential_url,
}
