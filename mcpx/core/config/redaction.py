"""The secrets of a server's entry, and texts without them.

Secret is every value of `env` and `headers` and every value of a `${VAR}` anywhere in the entry, of
`MIN_SECRET_LEN` characters or more; the secret and the private key in `auth`; and the password in a URL. A
`Redactor` replaces each by `***NAME***`, the name of the variable or header. It also knows the token behind
`Bearer`, the password in `Basic` and in the URL of a database, the lines of a key, and each of them escaped,
percent-encoded or in Base64.

Not secret: variables that identify the user and the folders (`HOME`, `PATH`), and headers that every client
sends (`Accept`). The texts of MCPX are redacted, and so are the errors of servers; their messages to clients,
which may have to name a path, for `named_secrets_of` alone. Results are not: they belong to the caller.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec

from mcpx.core.config.server_config import Http, OAuth, Placed, ServerConfig, Sse
from mcpx.core.config.strings import secrets_filled

MIN_SECRET_LEN: Final = 8  # characters; shorter ones occur in ordinary words too
HIDDEN_GENERATIONS: Final = 2  # of the tokens of one account
_ORDINARY_VARIABLES: Final = frozenset(
    {
        "HOME",
        "LANG",
        "LOGNAME",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHELL",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
    }
    | {f"LC_{name}" for name in ("ALL", "CTYPE")}
    | {f"XDG_{name}" for name in ("CACHE_HOME", "CONFIG_HOME", "DATA_HOME", "RUNTIME_DIR", "STATE_HOME")}
)
_ORDINARY_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "accept-language", "cache-control", "content-type", "origin", "user-agent"}
)
_SAYS_SECRET: Final = re.compile(
    r"(?i)(token|secret|pass(word|wd|phrase)?|pwd|credential|cookie|authorization|(api|access|\b|_)key)s?_?\d*$"
)
_ORDINARY_VALUE: Final = re.compile(r"[~.]{0,2}/.*|\w+://.*|(?:[\w-]+\.)+[a-z]{2,24}(?::\d+)?", re.ASCII)
"""Paths, addresses and host names."""
_END_OF_STRING: Final = re.compile(r'(?<!\\)"')
_NUMBER: Final = re.compile(rb"\x1a(\d{1,6})\x1a")

Secret = tuple[str, str]
"""The name of a secret, and its value."""


class Redactor:
    """Takes the secrets out of a text, those of `hide_values` too. A call takes time linear in the text."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        names: dict[str, str] = {}
        for name, value in secrets:
            for form in _forms(value):
                names.setdefault(form, f"***{name}***")
        longest_first = sorted(names, key=lambda form: (-len(form), form))  # one may be a part of another
        self._forms = [(form, names[form]) for form in longest_first]

    def __call__(self, text: str) -> str:
        """The text with `***NAME***` in the place of each secret."""
        for form, name in (*_hidden_forms, *self._forms) if _hidden_forms else self._forms:
            if form in text:
                text = text.replace(form, name)
        return text

    def data(self, value: Any) -> Any:
        """The same for plain JSON; what holds no secret comes back as it is."""
        if not self._forms and not _hidden_forms:
            return value
        written = msgspec.json.encode(value).decode()
        shown = self(written)
        if shown == written:
            return value
        try:
            return msgspec.json.decode(shown)
        except msgspec.DecodeError:  # it is in more than one string, or has a name with a quote in it
            return shown

    def raw(self, written: msgspec.Raw) -> msgspec.Raw:
        """The same for JSON as it came, which stays as it is but for the secrets; `{}` where that is none."""
        text = bytes(written).decode(errors="surrogateescape")
        shown = self(text)
        if shown == text:
            return written
        found = msgspec.Raw(shown.encode(errors="surrogateescape"))
        try:
            msgspec.json.decode(found)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.Raw(b"{}")
        return found

    def replace_by_numbers(self, written: bytes) -> bytes:
        """JSON with a number in the place of each secret, between characters that no JSON holds."""
        for form, name in _hidden_forms:
            written = written.replace(form.encode(), name.encode())
        for number, (form, _) in enumerate(self._forms):
            written = written.replace(form.encode(errors="surrogateescape"), b"\x1a%d\x1a" % number)
        return written

    def replace_numbers(self, written: bytes) -> bytes:
        """JSON with the secrets back in their places.

        Raises:
            IndexError: It was written with other secrets.
        """
        return _NUMBER.sub(
            lambda found: self._forms[int(found[1])][0].encode(errors="surrogateescape"), written
        )

    def __repr__(self) -> str:
        return f"Redactor({sorted({name for _, name in self._forms})})"


_hidden: Final[dict[str, list[dict[str, str]]]] = {}
"""By owner, of each generation the forms and what is shown in their place."""
_hidden_forms: list[Secret] = []


def hide_values(owner: str, values: dict[str, str | None]) -> None:
    """Have every redactor take out these secrets too, which came while MCPX runs: tokens.

    `values` are by name. The ones that the same owner gave before stay for a while: an error may still quote
    them. A form that would end a JSON string is none: a server could make each line of the log unreadable by
    a token such as `"event":`.
    """
    forms: dict[str, str] = {}
    for name, value in values.items():
        for form in _forms(value or ""):
            if _END_OF_STRING.search(form) is None:
                forms.setdefault(form, f"***{name}***")
    kept = [forms, *(each for each in _hidden.get(owner, ()) if each != forms)]
    _hidden[owner] = kept[:HIDDEN_GENERATIONS]
    names: dict[str, str] = {}
    for each in (each for generations in _hidden.values() for each in generations):
        for form, shown in each.items():
            names.setdefault(form, shown)
    _hidden_forms[:] = sorted(names.items(), key=lambda form: (-len(form[0]), form))


def redactor_of(*servers: ServerConfig) -> Redactor:
    """A redactor for the secrets of these servers."""
    return Redactor(secret for server in servers for secret in secrets_of(server))


def secrets_of(server: ServerConfig) -> list[Secret]:
    """The secrets of one entry by their names; a variable's own name comes before that of what it is in."""
    found = [each for each in server.variables.values if each[0] not in _ORDINARY_VARIABLES]
    known = {value for name, value in server.variables.values if name in _ORDINARY_VARIABLES}
    transport = server.transport
    program = transport.stdio if isinstance(transport, Placed) else transport.program
    for name, value in {} if program is None else program.env.items():
        if name not in _ORDINARY_VARIABLES and value not in known:
            found += [(name, value), *((name, part) for part in _in_url(value))]
    if not isinstance(transport, Http | Sse):
        return found
    for name, value in transport.headers.items():
        if name.lower() not in _ORDINARY_HEADERS:
            found += ((name, part) for part in _in_header(value))
    found += (("url", part) for part in _in_url(transport.url))
    if transport.auth is not None:
        found += _in_auth(transport.auth)
    return found


def named_secrets_of(server: ServerConfig) -> list[Secret]:
    """The secrets that a server's own messages must not hold: those whose names say so, and certain others.

    Certain are passwords in URLs, what was fetched, and references in fixed arguments; no other path.
    """
    transport, found = server.transport, secrets_of(server)
    texts = [value for _, value in found]
    if isinstance(transport, Http | Sse):
        texts.append(transport.url)
    certain = {*server.variables.fetched, *(each for text in texts for each in _passwords_in(text))}
    fixed = [secret for each in server.overrides.values() for secret in secrets_filled(each.fixed)]
    return fixed + [
        (name, value)
        for name, value in found
        if value in certain or (_SAYS_SECRET.search(name) and not _ORDINARY_VALUE.fullmatch(value))
    ]


class OwnMessages:
    """Takes secrets out of what a server says to clients of its own accord; `entry` is its entry, now."""

    def __init__(self, entry: Callable[[], ServerConfig]) -> None:
        self._entry = entry
        self._made: tuple[ServerConfig, Redactor] | None = None

    @property
    def redact(self) -> Redactor:
        """The redactor for `named_secrets_of`."""
        entry = self._entry()
        if self._made is None or self._made[0] is not entry:
            self._made = entry, Redactor(named_secrets_of(entry))
        return self._made[1]


def _in_auth(auth: OAuth) -> Iterator[Secret]:
    """The secret of a client, and the lines of its key but for those that frame it."""
    if auth.client_secret is not None:
        yield "client_secret", auth.client_secret
    for line in (auth.private_key or "").splitlines():
        if not line.startswith("-----"):
            yield "private_key", line


def _in_header(value: str) -> Iterator[str]:
    """The secret in a header: what follows the scheme, where there is one."""
    scheme, _, rest = value.strip().partition(" ")
    rest = rest.strip()
    if not scheme.isalpha() or len(rest) < MIN_SECRET_LEN:
        yield value
        return
    yield rest
    if scheme.lower() == "basic":
        with suppress(binascii.Error, UnicodeDecodeError):
            pair = base64.b64decode(rest, validate=True).decode()
            yield pair
            yield pair.partition(":")[2]


def _in_url(value: str) -> Iterator[str]:
    """The password in a URL, and the values of its query."""
    yield from _passwords_in(value)
    if "://" in value:
        with suppress(ValueError):
            yield from (each for _, each in parse_qsl(urlsplit(value).query))


def _passwords_in(url: str) -> Iterator[str]:
    """The password in a URL as it stands there, and as it is meant; none in any other value."""
    with suppress(ValueError):
        if "://" in url and (password := urlsplit(url).password):
            yield from (password, unquote(password))


def _forms(value: str) -> Iterator[str]:
    """The forms in which a secret may be repeated."""
    value = value.strip()
    lines = [line.strip() for line in value.splitlines()]
    for each in {value, *lines}:
        if len(each) < MIN_SECRET_LEN:
            continue
        data = each.encode(errors="surrogateescape")
        yield each
        yield json.dumps(each)[1:-1]
        yield json.dumps(each, ensure_ascii=False)[1:-1]
        yield repr(each)[1:-1]
        yield quote(data, safe="")
        yield quote(data)
        yield quote_plus(data)
        yield base64.b64encode(data).decode().rstrip("=")
        yield base64.urlsafe_b64encode(data).decode().rstrip("=")
