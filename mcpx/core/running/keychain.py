"""The system's keychain, by way of `keyring`: what `mcpx secret` changes and `${keychain:NAME}` reads.

Secrets of configurations stand under the service `mcpx`. A keychain cannot be listed, so the names are kept
in the state folder, for `mcpx secret list`; a name in a configuration need not be there.

As a program (`python -m mcpx.core.running.keychain NAME...`) it prints `{"problem", "found"}` with the values
of these names: run by `mcpx.core.running.secrets`, and for no one else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import replace_file
from mcpx.errors import MCPXError
from mcpx.paths import state_folder

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

SERVICE: Final = "mcpx"
NOT_INSTALLED: Final = 'the keychain needs the package "keyring" beside MCPX: install mcpx-gateway[keychain]'
INSTEAD: Final = "use env_file or ${cmd:COMMAND} in its place"


class KeychainError(MCPXError):
    """The keychain cannot be used; the text says why and what to do."""


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
        _note({*names(), name})


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
        _note(set(names()) - {name})
    return is_there


def names() -> list[str]:
    """The names that were set here."""
    try:
        return sorted(str(each) for each in json.loads(_file().read_bytes()))
    except (OSError, ValueError, TypeError):  # there is none
        return []


def _note(names: set[str]) -> None:
    with suppress(OSError):  # it is for the list alone
        ensure_folder(_file().parent)
        replace_file(_file(), json.dumps(sorted(names)).encode())


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


def _main(wanted: list[str]) -> None:
    problem, found = "", {}
    try:
        found = {name: get(name) for name in wanted}
    except KeychainError as error:
        problem = str(error)
    sys.stdout.write(json.dumps({"problem": problem, "found": found}))


if __name__ == "__main__":
    _main(sys.argv[1:])
