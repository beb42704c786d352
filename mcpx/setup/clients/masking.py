"""Servers as they may be shown: commands, names and hosts, and `***` in the place of what may be a secret.

Masked are values of `env` and `headers`, passwords and queries of URLs, arguments that a flag or a name calls
secret, and whatever looks like a token. A reference such as `${TOKEN}` is shown, and so is a command that
MCPX would run: that is code, and a person has to see it whole before they agree to it. Pure.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mcpx.core.config.entry_auth import AUTH_KEYS
from mcpx.core.config.expand import secrets_in
from mcpx.core.config.servers import commands_in
from mcpx.core.text.jsonc import Node, parse

HIDDEN: Final = "***"
_REFERENCE: Final = re.compile(r"(?:[A-Za-z]+ )?\$\{(?:keychain:)?[\w.-]+(?::-)?\}")
_SECRET_NAME: Final = re.compile(
    r"token|secret|passw|pwd|api[-_]?key|access[-_]?key|private[-_]?key|auth|credential|bearer|cookie|session"
    r"|dsn|connection[-_]?string|signature",
    re.IGNORECASE,
)
_PAIR_FLAGS: Final = frozenset({"-e", "--env", "-H", "--header", "--headers"})
_PAIR: Final = re.compile(r"(?P<name>-{0,2}[\w.-]+)(?P<sign>\s*[=:]\s*)(?P<value>.+)", re.DOTALL)
_TOKEN: Final = re.compile(
    r"\b(?:(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|hf|npm|ntn|secret|lin_api|figd|pat|key"
    r"|shpat)[-_][\w-]{10,}|AKIA\w{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}(?:\.[\w-]+)*"
    r"|(?=(?:[A-Za-z_+=-]*+\d){3})(?=[\d_+=-]*+[A-Za-z])[\w+=-]{32,})"
)
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^/?#\s@\"]*@)?(?P<rest>[^?#\s\"]*)(?P<query>[?#][^\s\"]*)?"
)
_QUERY_PART: Final = re.compile(r"(?<=[?&#])(?P<name>[^=&#]*=)?(?P<value>[^&#]+)")
_VALUES: Final = frozenset({"env", "headers"})
_NO_SECRETS: Final = frozenset({"auth", "token_auth", "token_store"})
"""Keys of a configuration that are called as secrets are, and hold none."""


def commands_shown(entry: object) -> list[str]:
    """A line for each command that MCPX runs for an entry, whole, however and wherever it stands there."""
    return [f"runs: /bin/sh -c {shlex.quote(command)}" for command in commands_in(entry)]


def masked_text(text: str) -> str:
    """A text without passwords and queries of URLs, and without what looks like a token."""
    return _TOKEN.sub(HIDDEN, _URL.sub(_masked_url, text))


def masked_arguments(args: Sequence[str]) -> list[str]:
    """The arguments of a program, without those that are secrets."""
    shown: list[str] = []
    before = ""
    for arg in args:
        shown.append(_masked_argument(arg, before))
        before = arg
    return shown


def command_line(entry: Mapping[str, Any]) -> str:
    """Return a server's command with its arguments, or its URL, or both, in one line."""
    url = masked_text(str(entry["url"])) if "url" in entry else ""
    if "command" not in entry:
        return url
    words = masked_arguments([*str(entry.get("command", "")).split(" "), *map(str, entry.get("args", ()))])
    line = " ".join(word if word and not re.search(r"\s", word) else json.dumps(word) for word in words)
    return f"{line} at {url}" if url else line


def masked_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A server's entry as it may be shown."""
    shown = {key: masked_text(value) if isinstance(value, str) else value for key, value in entry.items()}
    if isinstance(command := entry.get("command"), str):
        shown["command"] = _masked_command(command)
    if isinstance(args := entry.get("args"), list):
        shown["args"] = masked_arguments([str(arg) for arg in args])
    for key in _VALUES & entry.keys():
        if isinstance(values := entry[key], Mapping):
            shown[key] = {name: masked_value(value) for name, value in values.items()}
    for key in (key for key in AUTH_KEYS if isinstance(entry.get(key), Mapping)):
        members = entry[key].items()
        shown[key] = {name: masked_value(each) if _is_secret(name) else each for name, each in members}
    return shown


def unmasked_entry(shown: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry that was shown masked and may have been edited, with what was masked as it is in `entry`.

    Raises:
        ValueError: Something is masked that is not in its place there; the text names it.
    """
    masked = masked_entry(entry)
    return {key: _unmasked(each, masked.get(key), entry.get(key), key) for key, each in shown.items()}


def _unmasked(shown: Any, masked: Any, original: Any, where: str) -> Any:
    if original is not None and shown == masked:
        return original
    if isinstance(shown, Mapping):
        before, after = (each if isinstance(each, Mapping) else {} for each in (masked, original))
        return {
            key: _unmasked(each, before.get(key), after.get(key), f"{where}.{key}")
            for key, each in shown.items()
        }
    if isinstance(shown, list):
        return [_of_list(shown, index, masked, original, where) for index in range(len(shown))]
    if isinstance(shown, str) and HIDDEN in shown:
        raise ValueError(f"{where} has {HIDDEN} in the place of a value; write the value, or a ${{NAME}}")
    return shown


def _of_list(shown: list[Any], index: int, masked: Any, original: Any, where: str) -> Any:
    """An item: the one that was shown so behind the same one, or in a list that begins alike.

    One of which more is shown than `***` may also have moved, if there was one such.
    """
    item = shown[index]
    before = masked if isinstance(masked, list) and isinstance(original, list) else []
    same = [at for at, each in enumerate(before) if each == item]
    behind = [at for at in same if before[max(0, at - 1) : at] == shown[max(0, index - 1) : index]]
    alike = [index] if index in same and before[:index] == shown[:index] else []
    moved = same if item != HIDDEN else []
    found = next((each[0] for each in (behind, alike, moved) if len(each) == 1), None)
    if found is None:
        return _unmasked(item, None, None, f"{where}[{index}]")
    return _unmasked(item, before[found], original[found], f"{where}[{index}]")


def _is_secret(key: str) -> bool:
    """Return True if a key is called as secrets are."""
    return key not in _NO_SECRETS and _SECRET_NAME.search(key) is not None


def holds_secrets(entry: Mapping[str, Any]) -> bool:
    """Return True if something in an entry would not be shown."""
    return masked_entry(entry) != entry


def masked_value(value: object) -> object:
    """A value of `env` or `headers`: only a reference to a variable is shown."""
    shown = value is None or value == "" or (isinstance(value, str) and _is_reference(value))
    return value if shown else HIDDEN


def _is_reference(value: str) -> bool:
    if _REFERENCE.fullmatch(value):
        return True
    found = list(secrets_in(value))
    return len(found) == 1 and value == f"${{cmd:{found[0].what}}}"


def masked_diff(before: bytes | None, after: bytes | None, name: str) -> str:
    """Return the change of a JSON file as a unified diff in which nothing secret is shown."""
    old, new = (masked_json(each or b"").splitlines() for each in (before, after))
    lines = difflib.unified_diff(old, new, name, name, lineterm="", n=2)
    return "\n".join(lines)


def masked_json(data: bytes) -> str:
    """The text of a configuration with its secrets masked in their places, comments too.

    Raises:
        JSONCError: It is not JSON.
    """
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
    if not text.strip():
        return ""
    masked, at = [], 0
    for node, value in _masks(parse(text), ""):
        lines = "\n" * text.count("\n", node.start, node.end)  # the others keep their places
        masked += [text[at : node.start], json.dumps(value, ensure_ascii=False), lines]
        at = node.end
    return masked_text("".join([*masked, text[at:]]))


def _masks(node: Node, key: str) -> Iterator[tuple[Node, object]]:
    """The values that are shown otherwise than they are, in the order of the text."""
    if key == "args" and node.items:
        args = [str(item.value) for item in node.items]
        yield from (
            (item, shown)
            for item, arg, shown in zip(node.items, args, masked_arguments(args), strict=True)
            if shown != arg
        )
        return
    for member in node.members:
        if key in _VALUES or (isinstance(member.node.value, str) and _is_secret(member.key)):
            if (shown := masked_value(member.node.value)) != member.node.value:
                yield member.node, shown
        else:
            yield from _masks(member.node, member.key)
    for item in node.items:
        yield from _masks(item, "")
    if isinstance(node.value, str):
        shown = _masked_command(node.value) if key == "command" else masked_text(node.value)
        if shown != node.value:
            yield node, shown


def _masked_command(command: str) -> str:
    """A command, which some write as a whole command line."""
    return " ".join(masked_arguments(command.split(" ")))


def _masked_argument(arg: str, before: str) -> str:
    if _REFERENCE.fullmatch(arg):
        return arg
    pair = _PAIR.fullmatch(arg)
    if (
        pair
        and "://" not in pair["sign"] + pair["value"][:2]
        and (before in _PAIR_FLAGS or _SECRET_NAME.search(pair["name"]))
    ):
        return f"{pair['name']}{pair['sign']}{masked_value(pair['value'])}"
    if (
        before.startswith("-")
        and "=" not in before
        and _SECRET_NAME.search(before)
        and not arg.startswith("-")
    ):
        return HIDDEN
    return masked_text(arg)


def _masked_url(found: re.Match[str]) -> str:
    user = f"{HIDDEN}@" if found["user"] else ""
    path = _TOKEN.sub(HIDDEN, found["rest"])
    query = _QUERY_PART.sub(  # a name, and its value where that is a reference
        lambda part: f"{part['name'] or ''}{masked_value(part['value'])}", found["query"] or ""
    )
    return f"{found['scheme']}{user}{path}{query}"
