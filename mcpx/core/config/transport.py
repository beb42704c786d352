"""How a server is reached: the keys of its entry that say so, and the transport they make.

Owns the choice between stdio, Streamable HTTP and SSE, with the words that other clients use for them, and
the checks on headers.
"""

from __future__ import annotations

import re
from typing import Final

from mcpx.core.config.auth_spellings import AUTH_KEYS
from mcpx.core.config.document import LocatedError, Location, quote
from mcpx.core.config.entry_auth import EntryAuth
from mcpx.core.config.model import Http, Obstacle, Sse, Stdio, Transport, Variables
from mcpx.core.config.notices import ConfigNotices, similar
from mcpx.core.config.strings import TYPE_KEYS, TYPES, URL_KEYS, ExpansionContext, Strings, read_key
from mcpx.core.config.urls import bad_url, is_confidential
from mcpx.core.documents.jsonc import JSONObject


def _plain(word: str) -> str:
    """The word without what people get wrong in it: case, `_` and `-`."""
    return word.lower().replace("_", "").replace("-", "")


_PLAIN_TYPES: Final = {_plain(word): kind for word, kind in TYPES.items()}

_STDIO_ONLY: Final = ("args", "env", "cwd")
_REMOTE_ONLY: Final = ("headers", "tls", *AUTH_KEYS)
_BAD_HEADER: Final = re.compile(r"[^\t\x20-\x7e]")


def read_transport(
    entry: JSONObject, at: Location, context: ExpansionContext, notices: ConfigNotices
) -> tuple[Transport, tuple[Obstacle, ...], Variables]:
    """The transport of an entry, the obstacles to its use, and the variables that it holds.

    Raises:
        LocatedError: No way to reach the server is given, or two. What else is wrong is gathered.
    """
    declared = None
    with notices.gathering():
        declared = _declared(entry, at)
    url_key = _url_key(entry, at)
    if "command" in entry and url_key:
        raise at.error(f'both "command" and {quote(url_key)}: a server has one or the other')
    if "command" not in entry and not url_key:
        raise _neither(entry, at)
    needed = "command" if declared == "stdio" else "url"
    if declared and (needed == "command") is not ("command" in entry):
        raise at.error(
            f'type "{declared}" needs {quote(needed)}, but the entry has {quote(url_key or "command")}'
        )
    if isinstance(entry.get("command"), list):
        hint = 'only its first item belongs here, the others in "args"'
        raise at.key("command").error(f"expected a string, got an array; {hint}")
    strings = Strings(entry, at, context, notices)
    unfit = _STDIO_ONLY if url_key else _REMOTE_ONLY
    reached_by = "a URL" if url_key else "a command"
    for key in (key for key in unfit if key in entry):
        notices.add(at.key(key), f"has no effect on a server that is reached by {reached_by}")
    files = strings.env_files()
    if url_key:
        sign_in = EntryAuth(entry, at, strings, context, notices)
        transport: Transport = _remote(strings, url_key, declared, sign_in)
    else:
        transport = _stdio(strings, entry, context, files)
    if isinstance(transport, Http | Sse) and not is_confidential(transport.url):
        _note_what_is_unencrypted(transport, entry, at, notices)
    variables = Variables(tuple(dict.fromkeys(strings.variables)))
    return transport, tuple(dict.fromkeys(strings.obstacles)), variables


def _note_what_is_unencrypted(
    transport: Http | Sse, entry: JSONObject, at: Location, notices: ConfigNotices
) -> None:
    if transport.headers:
        notices.add(at.key("headers"), "sent unencrypted to another machine; use https:// if they are secret")
    for auth in (key for key in AUTH_KEYS if key in entry and transport.auth is not None):
        notices.add(at.key(auth), "no sign-in goes unencrypted to another machine; use https://")


def _declared(entry: JSONObject, at: Location) -> str | None:
    """The transport that the entry names: `stdio`, `http`, `sse` or `None`."""
    found = None
    for key in (key for key in TYPE_KEYS if key in entry):
        word = read_key(entry, key, at)
        kind = _PLAIN_TYPES.get(_plain(word))
        if kind is None:
            raise at.key(key).error(_unknown_type(word))
        if found not in (None, kind):
            raise at.key(key).error(f'"{kind}" contradicts the type "{found}" of the same entry')
        found = kind
    return found


def _unknown_type(word: str) -> str:
    meant = similar(word, TYPES)
    guess = f"; did you mean {quote(meant)}?" if meant else ""
    return f'unknown transport {quote(word)}, expected "stdio", "http" or "sse"{guess}'


def _url_key(entry: JSONObject, at: Location) -> str | None:
    given = [key for key in URL_KEYS if key in entry]
    if len(given) > 1:
        raise at.error(f"both {quote(given[0])} and {quote(given[1])}: a server has one address")
    return given[0] if given else None


def _neither(entry: JSONObject, at: Location) -> LocatedError:
    for key in entry:
        if (meant := similar(key, ("command", "url"))) is not None:
            hint = f"did you mean {quote(meant)} where it says {quote(key)}?"
            return at.name(key).error(f'neither "command" nor "url"; {hint}')
    return at.error('neither "command" nor "url": MCPX cannot know how to reach this server')


def _stdio(strings: Strings, entry: JSONObject, context: ExpansionContext, files: dict[str, str]) -> Stdio:
    strings.variables += files.items()
    return Stdio(
        command=context.at_home(strings.text("command", _empty)),
        args=strings.texts("args"),
        env=files | strings.named("env"),
        cwd=None if entry.get("cwd") is None else context.path(strings.text("cwd", _empty)),
    )


def _remote(strings: Strings, url_key: str, declared: str | None, sign_in: EntryAuth) -> Http | Sse:
    url = strings.text(url_key, bad_url)
    headers = {name: value.strip() for name, value in strings.named("headers", _bad_header).items()}
    guessed = "sse" if url_key != "httpUrl" and _ends_in_sse(url) else "http"
    kind = Sse if (declared or guessed) == "sse" else Http
    return kind(url=url, headers=headers, auth=sign_in.auth(headers), tls=sign_in.tls(url))


def _empty(text: str) -> str | None:
    return None if text else "expected a string, got an empty one"


def _ends_in_sse(url: str) -> bool:
    return url.split("?", 1)[0].split("#", 1)[0].rstrip("/").endswith("/sse")


def _bad_header(value: str) -> str | None:
    wrong = _BAD_HEADER.search(value.strip())
    return "a header can hold printable ASCII only, and no line break" if wrong else None
