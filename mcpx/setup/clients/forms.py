"""The forms in which clients write a server: MCPX's own entry written in each, and theirs read from each.

Entries are read to the form that most clients share: `command`, `args`, `env`, `envFile` and `cwd`, or
`url`, `headers` and `oauth`; `type`, `disabled` and `enabled`. `tls`, `connect_timeout` and `call_timeout`
are MCPX's. Other keys stay as they are. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from mcpx.core.config.per_server import YEAR_S
from mcpx.setup.clients.rows import Form
from mcpx.setup.clients.variables import NotImportedError, OwnText, Variables, variable

GOOSE_TIMEOUT_S: Final = 300

Given = dict[str, Any]
_Kind = TypeVar("_Kind", dict[str, Any], list[Any])


# --- MCPX's own entry


def write_entry(
    form: Form,
    command: str,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    name: str = "mcpx",
) -> dict[str, Any]:
    """Return the entry of a stdio server in a client's form; `name` is in it where the form has it inside."""
    words, given = list(args), dict(env or {})
    plain = {"command": command, "args": words, **({"env": given} if given else {})}
    match form:
        case "typed":
            return {"type": "stdio", **plain}
        case "copilot":
            return {"type": "local", **plain, "tools": ["*"]}
        case "continue":
            return {"name": name, **plain}
        case "zed":
            return {"source": "custom", "command": command, "args": words, "env": given}
        case "opencode":
            environment = {"environment": given} if given else {}
            return {"type": "local", "command": [command, *words], **environment, "enabled": True}
        case "goose":
            start = {"type": "stdio", "cmd": command, "args": words, "envs": given}
            return {"name": name, "enabled": True, **start, "timeout": GOOSE_TIMEOUT_S}
        case _:
            return plain


# --- the clients' entries


def shared_form(form: Form, given: Mapping[str, Any], variables: Variables) -> Given:
    """Return an entry in the shared form, a copy.

    Raises:
        NotImportedError: It is nothing that MCPX can run.
    """
    reader = _READERS.get(form)
    return reader(dict(given), variables) if reader else dict(given)


def _copilot(given: Given, _: Variables) -> Given:
    if given.get("tools") == ["*"]:
        del given["tools"]
    return given


def _zed(given: Given, _: Variables) -> Given:
    if given.get("source") == "extension" or ("settings" in given and not {"command", "url"} & {*given}):
        raise NotImportedError("an extension of Zed starts it")
    given.pop("source", None)
    if isinstance(given.get("command"), Mapping):
        command = given.pop("command")
        given |= {"command" if key == "path" else key: value for key, value in command.items()}
    return given


def _opencode(given: Given, _: Variables) -> Given:
    _rename(given, environment="env")
    _seconds(given, "timeout", "connect_timeout", 0.001)
    return given


def _goose(given: Given, variables: Variables) -> Given:
    kind = given.get("type", "stdio")
    if kind not in ("stdio", "sse", "streamable_http"):
        raise NotImportedError("a part of Goose, not a server of its own")
    for key in ("name", "description", "display_name", "bundled"):
        given.pop(key, None)
    _rename(given, cmd="command", envs="env", uri="url")
    env = _take(given, "env", dict)
    for name in map(str, _take(given, "env_keys", list)):
        env.setdefault(name, variables.reference(name, f"Goose keeps {name} in its keychain"))
    if "url" not in given:
        return {**given, **({"env": env} if env else {})}
    headers = {
        key: _with_values(value, env, variables) for key, value in _take(given, "headers", dict).items()
    }
    return {**given, **({"headers": headers} if headers else {})}


def _with_values(text: object, env: Mapping[str, Any], variables: Variables) -> object:
    """Return a header with the values of the extension's own variables."""
    if not isinstance(text, str) or not env:
        return text
    names = "|".join(re.escape(name) for name in sorted(env, key=len, reverse=True))
    pieces = re.split(rf"\$\{{({names})\}}|\$({names})", text)
    done = ""
    for index, piece in enumerate(pieces):
        if piece is not None and index % 3:  # a name
            value = env[piece]
            done += variables(value if isinstance(value, OwnText) else str(value))
        elif piece is not None:
            done += variables(piece)
    return OwnText(done)


def _continue(given: Given, _: Variables) -> Given:
    if "uses" in given and not {"command", "url"} & {*given}:
        raise NotImportedError("a block of the Continue hub")
    for key in ("name", "serverName", "faviconUrl", "sourceFile"):
        given.pop(key, None)
    _seconds(given, "connectionTimeout", "connect_timeout", 0.001)
    tls: dict[str, Any] = {}
    for key, value in _take(given, "requestOptions", dict).items():
        if key == "caBundlePath" and isinstance(value, str):
            tls["ca"] = value
        elif key == "clientCertificate" and isinstance(value, Mapping):
            tls |= {name: value[name] for name in ("cert", "key") if name in value}
            given |= {f"requestOptions.{key}.{name}": value[name] for name in {*value} - {"cert", "key"}}
        else:
            given["headers" if key == "headers" else f"requestOptions.{key}"] = value
    return {**given, **({"tls": tls} if tls else {})}


def _codex(given: Given, _: Variables) -> Given:
    given.pop("name", None)
    _seconds(given, "startup_timeout_ms", "connect_timeout", 0.001)
    _seconds(given, "startup_timeout_sec", "connect_timeout", 1)
    _seconds(given, "tool_timeout_sec", "call_timeout", 1)
    env = _take(given, "env", dict)
    for each in _take(given, "env_vars", list):
        name = each.get("name") if isinstance(each, Mapping) else each
        env.setdefault(str(name), OwnText(f"{variable(str(name))[:-1]}:-}}"))
    headers = _take(given, "http_headers", dict)
    for header, named in _take(given, "env_http_headers", dict).items():
        headers[header] = variable(str(named))
    if token := given.pop("bearer_token_env_var", None):
        headers["Authorization"] = OwnText(f"Bearer {variable(str(token))}")
    if "url" in given and isinstance(given.get("scopes"), list):
        given["oauth"] = {**_take(given, "oauth", dict), "scopes": given.pop("scopes")}
    return {**given, **({"env": env} if env else {}), **({"headers": headers} if headers else {})}


def _take(given: Given, key: str, kind: type[_Kind]) -> _Kind:
    """Take the value at a key out of the entry; one of another kind stays, to be named."""
    return kind(given.pop(key)) if isinstance(given.get(key), kind) else kind()


def _rename(given: Given, **names: str) -> None:
    for theirs, ours in names.items():
        if theirs in given:
            given[ours] = given.pop(theirs)


def _seconds(given: Given, theirs: str, ours: str, unit: float) -> None:
    """Give a duration of theirs, a number of units of so many seconds, MCPX's name."""
    if (seconds := duration(given.get(theirs), unit)) is not None:
        del given[theirs]
        given[ours] = seconds


def duration(value: object, unit: float) -> float | None:
    """Return a number of units of so many seconds, in seconds; None if MCPX takes no such time limit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= YEAR_S / unit:
        return None
    seconds = round(value * unit, 3)
    return int(seconds) if seconds == int(seconds) else seconds


_READERS: Final[dict[Form, Callable[[Given, Variables], Given]]] = {
    "copilot": _copilot,
    "zed": _zed,
    "opencode": _opencode,
    "goose": _goose,
    "continue": _continue,
    "codex": _codex,
}
