"""Secrets that stand outside the configuration: `${keychain:NAME}` and `${cmd:COMMAND}`.

Each is fetched once for as long as this process lives, whether it was had or not, unless it is wanted anew: a
keychain or a password manager may ask the person for each. Commands, and the program that looks into
the keychain, run with the variables of the person, side by side, without standard input, and are killed with
their process group at the limit. What they print is in no error and no log.

Standard library only; blocks.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, Literal, NamedTuple

from mcpx.core.running import keychain
from mcpx.core.running.bounded import OutOfBounds, run
from mcpx.core.running.person import Environment
from mcpx.core.text import quoted

TIMEOUT_S: Final = 25.0  # a password manager waits for a finger; less than a start of the daemon may take
MAX_AT_ONCE: Final = 8
MAX_SECRET_BYTES: Final = 64 << 10
MAX_PROGRAM_CHARS: Final = 80  # of a command in an error


class Reference(NamedTuple):
    """The place of a secret: its name in the keychain, or a command that prints it."""

    kind: Literal["keychain", "cmd"]
    what: str


class SecretProblem(Exception):
    """A secret that cannot be had, in words for people; never its value. `remedy` is what to do about it."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.remedy = remedy


_known: Final[dict[Reference, str | SecretProblem]] = {}
_fetching: Final[dict[Reference, threading.Event]] = {}  # by some thread, which sets it when that is over
_lock: Final = threading.Lock()


def fetch(
    references: Iterable[Reference], environment: Environment, *, anew: Collection[Reference] = ()
) -> None:
    """Fetch those of these that have not been, or are to be fetched `anew`, side by side.

    What another thread is fetching is waited for. Until there is a new value, the old one stands.
    """
    wanted = [each for each in dict.fromkeys(references) if each in anew or each not in _known]
    if not wanted:
        return
    over = threading.Event()
    with _lock:
        of_others = [_fetching[each] for each in wanted if each in _fetching]
        own = [each for each in wanted if each not in _fetching]
        _fetching.update(dict.fromkeys(own, over))
    try:
        _fetch(own, environment)
    finally:
        with _lock:
            for each in own:
                del _fetching[each]
        over.set()
    for event in of_others:
        event.wait(TIMEOUT_S)


def _fetch(references: Collection[Reference], environment: Environment) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - few configurations hold secrets

    names = [each.what for each in references if each.kind == "keychain"]
    tasks: list[Callable[[], None]] = [
        partial(_run, each, environment) for each in references if each.kind == "cmd"
    ]
    if names:
        tasks.append(partial(_look_up, names, environment))
    with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
        for done in [threads.submit(task) for task in tasks]:
            done.result()


def shown(reference: Reference) -> str:
    """A secret as a configuration names it; of a command the beginning, for its arguments may be secrets."""
    if reference.kind == "keychain":
        return f"${{keychain:{reference.what}}}"
    program, *arguments = reference.what.split(None, 1) or [""]
    return f"${{cmd:{program[:MAX_PROGRAM_CHARS]}{' ...' if arguments else ''}}}"


def secret(reference: Reference) -> str:
    """A secret that was fetched.

    Raises:
        SecretProblem: It was not to be had.
    """
    found = _known.get(reference, SecretProblem(f"{reference.kind}: it was not asked for"))
    if isinstance(found, SecretProblem):
        raise found
    return found


def secret_of_keychain(reference: Reference) -> str | None:
    """A secret that was fetched from the keychain; None for a command, which is not run.

    Raises:
        SecretProblem: It was not to be had.
    """
    return secret(reference) if reference.kind == "keychain" else None


# --- commands


def _run(reference: Reference, environment: Environment) -> None:
    """Run a command, and note what it prints."""
    value = problem = ""
    command = ["/bin/sh", "-c", reference.what]
    try:
        output, code = run(command, environment.variables, timeout_s=TIMEOUT_S, max_bytes=MAX_SECRET_BYTES)
        value = os.fsdecode(output).rstrip("\r\n")
        if code != 0:
            problem = f"ended with exit code {code}" if code else "did not end"
        elif not value or "\0" in value:
            problem = "printed nothing that can be used"
    except OutOfBounds as limit:
        problem = str(limit)
    except (OSError, ValueError) as error:  # too many open files, or a null character in it
        problem = f"cannot be run: {getattr(error, 'strerror', None) or error}"
    text = f"the command {_shown(reference.what)} {problem}"
    _known[reference] = SecretProblem(text, "try it in a terminal") if problem else value


def _shown(command: str) -> str:
    """The beginning of a command, for an error: its arguments may be secrets."""
    program, *arguments = command.split(None, 1) or [""]
    return quoted(program[:MAX_PROGRAM_CHARS] + (" ..." if arguments else ""))


# --- the keychain


def _look_up(names: list[str], environment: Environment) -> None:
    """Look names up, and note what is found."""
    problem, found = "", dict[str, str | None]()
    try:
        found = keychain.ask("get", names, environment)
    except keychain.KeychainError as error:
        problem = str(error)
    for name in names:
        if value := found.get(name):
            _known[Reference("keychain", name)] = value
        else:
            text = problem or f"the keychain holds no {name}"
            remedy = "" if problem else f"mcpx secret set {shlex.quote(name)}"
            _known[Reference("keychain", name)] = SecretProblem(text, remedy)
