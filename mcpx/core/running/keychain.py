"""The system's keychain, by way of `keyring`: for `mcpx secret`, `${keychain:NAME}` and sign-ins.

Secrets of configurations stand under the service `mcpx`. A keychain cannot be listed, so the names are kept
in the state folder, for `mcpx secret list`; a name in a configuration need not be there.

`ask` has a program of its own use it, for a bounded time: the libraries are large, and a locked keychain may
wait for a person. That program is this module. It reads a request from standard input, for a secret is in no
command line and no variable, which other processes can see, and prints `{"problem", "found"}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Final, Literal

from mcpx.core.running.bounded import OutOfBounds, run
from mcpx.core.running.person import Environment
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import replace_file
from mcpx.core.system.environment import loads_code
from mcpx.errors import MCPXError
from mcpx.paths import state_folder

SERVICE: Final = "mcpx"
TIMEOUT_S: Final = 25.0  # for one use: a person may have to unlock it
_PROGRAM: Final = (sys.executable, "-P", "-m", "mcpx.core.running.keychain")
NOT_INSTALLED: Final = 'the keychain needs the package "keyring" beside MCPX: install mcpx-gateway[keychain]'
INSTEAD: Final = "use env_file or ${cmd:COMMAND} in its place"


class KeychainError(MCPXError):
    """The keychain cannot be used; the text says why and what to do."""


def ask(
    do: Literal["get", "put", "remove"],
    names: Sequence[str],
    environment: Environment,
    *,
    service: str = SERVICE,
    value: str = "",
) -> dict[str, str | None]:
    """Have a program of its own use the keychain once; return what it has under the names to get.

    Raises:
        KeychainError: It cannot be used, or does not answer in time.
    """
    request = json.dumps({"do": do, "names": names, "service": service, "value": value})
    variables = {
        name: each
        for name, each in environment.variables.items()
        if not loads_code(name) or name.startswith("PYTHON_KEYRING")
    }
    found: dict[str, str | None] = {}
    try:
        answer = json.loads(run(_PROGRAM, variables, timeout_s=TIMEOUT_S, sent=request.encode()).output)
        problem, found = answer["problem"], answer["found"]
    except OutOfBounds as limit:
        problem = f"the keychain {limit}"
    except (OSError, ValueError, KeyError, TypeError):
        problem = "the keychain cannot be used"
    if problem:
        raise KeychainError(problem)
    return found


def get(name: str, service: str = SERVICE) -> str | None:
    """The secret of that name; None if there is none.

    Raises:
        KeychainError: The keychain cannot be used.
    """
    with _translating():
        found: str | None = _keyring().get_password(service, name)
    return found


def put(name: str, value: str, service: str = SERVICE) -> None:
    """Keep a secret under that name, in place of another. Names of another service are not noted.

    Raises:
        KeychainError: The keychain cannot be used.
    """
    with _translating():
        _keyring().set_password(service, name, value)
    if service == SERVICE:
        _note(names() | {name: datetime.now(UTC).isoformat(timespec="seconds")})


def remove(name: str, service: str = SERVICE) -> bool:
    """Remove the secret of that name; whether there was one.

    Raises:
        KeychainError: The keychain cannot be used.
    """
    is_there = get(name, service) is not None
    with _translating():
        if is_there:
            _keyring().delete_password(service, name)
    if service == SERVICE and name in names():
        _note({each: when for each, when in names().items() if each != name})
    return is_there


def names() -> dict[str, str]:
    """The names that were set here, and when (ISO 8601); empty where an older MCPX has not noted that."""
    try:
        found = json.loads(_file().read_bytes())
    except (OSError, ValueError):  # there is none
        return {}
    if not isinstance(found, dict):
        found = dict.fromkeys(map(str, found), "") if isinstance(found, list) else {}
    return {name: str(when) for name, when in sorted(found.items())}


def _note(names: dict[str, str]) -> None:
    with suppress(OSError):  # it is for the list alone
        ensure_folder(_file().parent)
        replace_file(_file(), json.dumps(names).encode())


def _file() -> Path:
    return state_folder() / "secret-names.json"


def _keyring() -> ModuleType:
    try:
        import keyring  # noqa: PLC0415 - an extra, and large
    except ImportError:
        raise KeychainError(NOT_INSTALLED) from None
    return keyring


@contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the boundary: a back end may raise anything
        raise _translated(error) from None


def _translated(error: Exception) -> KeychainError:
    """The error for what a back end has raised, which may be anything. It shows nothing of a secret."""
    if isinstance(error, KeychainError):
        return error
    errors = _keyring().errors
    if isinstance(error, errors.NoKeyringError):
        return KeychainError(f"this machine has no keychain that keyring can use; {INSTEAD}")
    if isinstance(error, errors.KeyringLocked):
        return KeychainError("the keychain is locked: unlock it")
    return KeychainError(f"the keychain cannot be used ({type(error).__name__}); {INSTEAD}")


def _main() -> None:
    asked, problem, found = json.load(sys.stdin), "", {}
    service = asked["service"]
    try:
        for name in asked["names"]:
            match asked["do"]:
                case "get":
                    found[name] = get(name, service)
                case "put":
                    put(name, asked["value"], service)
                case _:
                    remove(name, service)
    except KeychainError as error:
        problem = str(error)
    sys.stdout.write(json.dumps({"problem": problem, "found": found}))


if __name__ == "__main__":
    _main()
