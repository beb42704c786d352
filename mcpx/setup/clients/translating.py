"""One entry of a client's file as an entry of MCPX's configuration, and all that is lost on the way.

Nothing is dropped in silence: what MCPX has no counterpart for is a note, what must be done before the server
works is a need, what is no server is left out with the reason. No note holds a value of `env`, of a header or
of a URL. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mcpx.core.config.entry_auth import AUTH_KEYS, in_own_words
from mcpx.core.config.model import Settings
from mcpx.core.config.settings import is_text
from mcpx.core.config.strings import TYPES, URL_KEYS
from mcpx.core.config.urls import is_loopback
from mcpx.core.text import holds_controls
from mcpx.setup.clients.forms import Given, duration, shared_form
from mcpx.setup.clients.rows import Client
from mcpx.setup.clients.variables import NotImportedError, Variables

Inputs = Mapping[str, Mapping[str, Any]]

_KINDS: Final = {word.lower().replace("_", "-"): kind for word, kind in TYPES.items()}
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ASKING: Final = "the client asks before exec as a whole"
_SHOWING: Final = "MCPX offers all tools; profiles can show fewer"
_SIGNING_IN: Final = "MCPX signs in as the server says"
_OTHER_SIGN_INS: Final = ("authProviderType", "headersHelper")
"""Keys of clients that get credentials by other ways than the server's own."""
_MEANINGS: Final = {
    **dict.fromkeys(("autoApprove", "alwaysAllow", "trust", "default_tools_approval_mode"), _ASKING),
    **dict.fromkeys(
        (
            "disabledTools",
            "disabled_tools",
            "enabledTools",
            "enabled_tools",
            "includeTools",
            "excludeTools",
            "available_tools",
            "allowedTools",
            "tools",
        ),
        _SHOWING,
    ),
    **dict.fromkeys(("oauth_resource", "requiresOAuth", "authProviderType"), _SIGNING_IN),
}
"""Why the keys that many clients have are left out."""


class Server(msgspec.Struct, frozen=True):
    """A server of a client. `entry` is in MCPX's form.

    `needs` says what must be done before it works as it does in the client: until then it should stay there.
    """

    name: str
    entry: dict[str, Any]
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def translate(name: str, given: object, client: Client, inputs: Inputs | None = None) -> Server:
    """The server that an entry of a client's file is.

    Raises:
        NotImportedError: The entry is nothing that MCPX can run.
    """
    if not name.strip() or holds_controls(name):
        raise NotImportedError("its name cannot be that of a server")
    if not isinstance(given, Mapping):
        raise NotImportedError("it is not an object")
    variables = Variables(client, inputs or {})
    translation = _Translation(shared_form(client.form, given, variables), client, variables)
    entry = translation.entry()
    if not all(map(is_text, _texts_in(entry))):
        raise NotImportedError("a text in it holds a character that is no text")
    if variables.is_off:
        entry["disabled"] = True
    texts = [
        f"{text} is plain text to {client.title}, and stays that: it is written as ${text}"
        for text in variables.texts
    ]
    return Server(name, entry, (*translation.notes, *texts), tuple(dict.fromkeys(variables.needs)))


def _is_here(url: object) -> bool:
    """True if a URL is of this machine: then the command beside it is the program behind it."""
    try:
        return isinstance(url, str) and is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


class _Translation:
    """The work on one entry; `given` is in the shared form, and loses each key that is used."""

    def __init__(self, given: Given, client: Client, variables: Variables) -> None:
        self.notes: list[str] = []
        self._given, self._client, self._variables = given, client, variables

    def entry(self) -> dict[str, Any]:
        given = self._given
        kind = self._kind()
        urls = [key for key in reversed(URL_KEYS) if given.get(key)]
        has_command = bool(given.get("command"))
        starts = has_command and kind != "stdio" and bool(urls) and _is_here(given[urls[0]])
        if kind == "stdio" or (kind is None and has_command and not starts and "httpUrl" not in urls):
            entry = self._stdio()
        elif urls:
            entry = (self._stdio() if starts else {}) | self._remote(urls[0], kind)
        else:
            raise NotImportedError("it has neither a command nor a URL")
        self._switch(entry)
        self._durations(entry)
        self._remainder()
        return entry

    def _kind(self) -> str | None:
        """The transport that the entry names, in MCPX's words."""
        found = None
        for key in ("type", "transport", "transportType"):
            word = self._given.pop(key, None)
            if isinstance(word, str) and word not in ("", "remote"):
                found = _KINDS.get(word.lower().replace("_", "-"), word)
        if found not in (None, "stdio", "http", "sse"):
            raise NotImportedError("MCPX does not have its transport")
        return found

    def _stdio(self) -> dict[str, Any]:
        command, args = self._given.pop("command", None), self._given.pop("args", None)
        words = [
            *(command if isinstance(command, list) else [command]),
            *(args if isinstance(args, list) else []),
        ]
        if not all(isinstance(word, str | int | float) for word in words) or not (words and words[0]):
            raise NotImportedError("its command or its arguments are not text")
        if not isinstance(args, list | type(None)):
            raise NotImportedError("its arguments are no list")
        texts = [self._variables(_text(word)) for word in words]
        entry: dict[str, Any] = {"command": texts[0]}
        if texts[1:]:
            entry["args"] = texts[1:]
        if env := self._named("env", lambda name: "=" not in name and "\0" not in name):
            entry["env"] = env
        if files := self._env_files():
            entry["env_file"] = files[0] if len(files) == 1 else files
        if isinstance(cwd := self._given.get("cwd"), str):
            del self._given["cwd"]
            entry |= {"cwd": self._variables(cwd)} if cwd else {}
        paths = [("cwd", entry.get("cwd", "")), *(("env_file", file) for file in files)]
        if "cwd" not in entry:
            words = [("command", entry["command"]), *(("an argument", arg) for arg in entry.get("args", ()))]
            paths += [(what, word) for what, word in words if re.match(r"\.\.?(?:[/\\]|$)", word)]
        self._name_relative_paths(paths)
        return entry

    def _env_files(self) -> list[str]:
        """The files of variables, under the clients' key for them or MCPX's own."""
        for key in ("envFile", "env_file"):
            given = self._given.get(key)
            files = [given] if isinstance(given, str) else given
            if isinstance(files, list) and all(isinstance(file, str) for file in files):
                del self._given[key]
                return [self._variables(file) for file in files if file]
        return []

    def _name_relative_paths(self, paths: Iterable[tuple[str, str]]) -> None:
        """Say which paths start at the folder where the client is started, which MCPX does not know."""
        needs = [
            f"{what} is a path from where the client is started: write the whole path"
            for what, path in paths
            if path and not re.match(r"[/~\\]|\$\{|[A-Za-z]:", path)
        ]
        self._variables.needs += needs
        self._variables.is_off |= bool(needs)

    def _remote(self, key: str, kind: str | None) -> dict[str, Any]:
        url = self._given.pop(key)
        if not isinstance(url, str) or not re.match(r"https?://|\$|\{", url, re.IGNORECASE):
            raise NotImportedError("its URL does not start with http:// or https://")
        entry: dict[str, Any] = {"url": self._variables(url)}
        guessed = "sse" if re.sub(r"[?#].*", "", entry["url"]).rstrip("/").endswith("/sse") else "http"
        declared = "http" if key == "httpUrl" else kind
        if declared and declared != guessed:
            entry["type"] = declared
        if headers := self._named("headers", lambda name: _HEADER.fullmatch(name) is not None):
            entry["headers"] = headers
        self._sign_in(entry)
        tls = self._given.get("tls")
        if isinstance(tls, Mapping) and all(isinstance(path, str) for path in tls.values()):
            del self._given["tls"]
            entry["tls"] = {str(key): self._variables(path) for key, path in tls.items()}
            self._name_relative_paths([(f"tls.{key}", path) for key, path in entry["tls"].items()])
        return entry

    def _sign_in(self, entry: dict[str, Any]) -> None:
        """Take over how the client signs in, where that is not by a header that it sends anyway."""
        if self._given.get("authProviderType") == "dynamic_discovery":
            del self._given["authProviderType"]
        signs_in = {key: self._given.get(key) for key in AUTH_KEYS}
        keys = [
            key
            for key, value in signs_in.items()
            if isinstance(value, bool | Mapping) or value in ("oauth", "none")
        ]
        if not keys:
            return
        given = self._given[keys[0]]
        auth, left_out = (
            _own_auth(given) if isinstance(given, Mapping) else (given not in (False, "none"), ())
        )
        if auth is not False and any(name.lower() == "authorization" for name in entry.get("headers", ())):
            return
        del self._given[keys[0]]
        if isinstance(auth, dict):
            auth = {key: _rewritten(value, self._variables) for key, value in auth.items()}
        if auth is not True:
            entry["auth"] = auth
        if left_out:
            self.notes.append(f"left out of {keys[0]}: {', '.join(left_out)} ({_SIGNING_IN})")
        if isinstance(auth, dict) and auth.get("client_id") and auth.get("grant") != "client_credentials":
            port = auth.get("callback_port", Settings().login_port)
            self._variables.needs.append(
                f"MCPX signs in as its client: allow that to return to http://127.0.0.1:{port}/callback"
            )

    def _named(self, key: str, fits: Callable[[str], bool]) -> dict[str, str | None]:
        """The object of texts at `env` or `headers`."""
        given = self._given.pop(key, None) or {}
        if not isinstance(given, Mapping):
            self.notes.append(f"{key} is left out: it is not an object")
            return {}
        found: dict[str, str | None] = {}
        for name, value in given.items():
            if not name or not fits(str(name)) or isinstance(value, Mapping | list):
                self.notes.append(f"a name or value in {key} is left out: it cannot be one")
            elif value is None:
                found |= {str(name): None} if key == "env" else {}
            else:
                found[str(name)] = self._variables(_text(value))
        return found

    def _switch(self, entry: dict[str, Any]) -> None:
        """Take over whether the server is turned off."""
        for key, off in (("disabled", True), ("enabled", False)):
            if isinstance(value := self._given.get(key), bool):
                del self._given[key]
                if value is off:
                    entry["disabled"] = True

    def _durations(self, entry: dict[str, Any]) -> None:
        units = {"timeout": self._client.timeout_unit_s, "call_timeout": 1, "connect_timeout": 1}
        for key, unit in units.items():
            if (seconds := duration(self._given.get(key), unit)) is not None:
                del self._given[key]
                entry["call_timeout" if key == "timeout" else key] = seconds

    def _remainder(self) -> None:
        """Name the keys that are left, those of one meaning together."""
        meanings: dict[str, list[str]] = {}
        for key, value in self._given.items():
            if value not in (None, [], {}, "") and (value is not False or key not in _MEANINGS):
                meanings.setdefault(_MEANINGS.get(key, ""), []).append(key)
            if key in _OTHER_SIGN_INS and value:
                self._variables.needs.append(
                    "the client signs in to it in a way of its own: give it a header"
                )
        for meaning, keys in meanings.items():
            why = f" ({meaning})" if meaning else ""
            self.notes.append(f"left out: {', '.join(keys)}{why}")


def _own_auth(given: Mapping[str, Any]) -> tuple[dict[str, Any] | bool, tuple[str, ...]]:
    """Return a whole `auth` object in MCPX's words, and the keys in it that are left out."""
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


def _rewritten(value: Any, variables: Variables) -> Any:
    """A value, and the strings of a list, with their variables as MCPX writes them."""
    if isinstance(value, list):
        return [_rewritten(each, variables) for each in value]
    return variables(value) if isinstance(value, str) else value


def _texts_in(value: object) -> Iterator[str]:
    """All strings in a value, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value:
            yield from _texts_in(each)
        if isinstance(value, dict):
            yield from _texts_in(list(value.values()))


def _text(value: object) -> str:
    """A value that stands where text is meant: YAML's `on` and `8080` are no strings."""
    if isinstance(value, str):
        return value  # of its own class
    return str(value).lower() if isinstance(value, bool) else str(value)
