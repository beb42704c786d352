"""MCPX's own entry in a client's file: written in the client's form, and recognised in any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

from mcpx.setup.clients.rows import Form

GOOSE_TIMEOUT_S: Final = 300
_COMMANDS: Final = ("command", "cmd")


def write_entry(
    form: Form,
    command: str,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    name: str = "mcpx",
) -> dict[str, Any]:
    """The entry of a stdio server in a client's form; `name` is in it where the form has it inside."""
    return _WRITERS[form](name, command, list(args), dict(env or {}))


def starts_mcpx(entry: object) -> bool:
    """Whether an entry, of whatever form, is MCPX itself: it runs `mcpx attach` or `mcpx serve`."""
    if not isinstance(entry, Mapping):
        return False
    texts = [part for word in command_words(entry) if isinstance(word, str) for part in word.split()]
    if not any(word in {"attach", "serve"} for word in texts):
        return False
    return any(_base(word) == "mcpx" for word in texts)


def command_words(entry: Mapping[str, Any]) -> list[Any]:
    """What an entry, of whatever form, starts: its command, and its arguments."""
    command: Any = next((entry[key] for key in _COMMANDS if key in entry), None)
    args = entry.get("args")
    if isinstance(command, Mapping):  # Zed's older form
        command, args = command.get("path"), command.get("args")
    return [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]


def _base(word: str) -> str:
    """The last part of a path of either kind, without `.exe`."""
    name = PureWindowsPath(word).name if "\\" in word else PurePosixPath(word).name
    return name.lower().removesuffix(".exe")


def _plain(_: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"command": command, "args": args, **({"env": env} if env else {})}


def _typed(name: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(name, command, args, env)}


def _copilot(name: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"type": "local", **_plain(name, command, args, env), "tools": ["*"]}


def _zed(_: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"source": "custom", "command": command, "args": args, "env": env}


def _opencode(_: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    environment = {"environment": env} if env else {}
    return {"type": "local", "command": [command, *args], **environment, "enabled": True}


def _goose(name: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    start = {"type": "stdio", "cmd": command, "args": args, "envs": env}
    return {"name": name, "enabled": True, **start, "timeout": GOOSE_TIMEOUT_S}


def _continue(name: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"name": name, **_plain(name, command, args, env)}


_WRITERS: Final[dict[Form, Callable[[str, str, list[str], dict[str, str]], dict[str, Any]]]] = {
    "plain": _plain,
    "typed": _typed,
    "copilot": _copilot,
    "zed": _zed,
    "opencode": _opencode,
    "goose": _goose,
    "continue": _continue,
    "codex": _plain,
}
