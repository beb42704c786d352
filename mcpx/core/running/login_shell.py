"""The variables that the person's login shell sets, as desktop editors ask for them.

The shell is started as an interactive login shell, because version managers write into the files of either
kind; if that gives nothing, as a login shell alone. It is given what a login gives (HOME, USER, the sockets
of the session) and nothing else of this process, so that the answer is the same whoever started MCPX. Its
start-up files may print, read, fail or hang: the variables are taken from between two marks, standard input
is empty, and at the limit the process group is killed.

Standard library only; blocks.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Final, NamedTuple

from mcpx.core.running.bounded import LEAVE_TIMEOUT_S, OutOfBounds, end, read, running
from mcpx.core.system.environment import FOLDERS, LOCALE, LOGINS
from mcpx.core.system.users import entry_of_user

INTERACTIVE_TIMEOUT_S: Final = 6.0  # version managers and prompts take one or two
LOGIN_TIMEOUT_S: Final = 4.0
ANSWER_TIMEOUT_S: Final = INTERACTIVE_TIMEOUT_S + LOGIN_TIMEOUT_S + 3 * LEAVE_TIMEOUT_S
"""Until `ask` has answered at the latest: both attempts, the end of each, and a busy machine."""
MAX_OUTPUT_BYTES: Final = 2 << 20  # what its start-up files print, with the variables
RESOLVING: Final = "MCPX_RESOLVING_ENVIRONMENT"
"""Set while the shell is asked, so that start-up files can leave out what is for people."""
LOGIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"  # as login(1) sets it
_SESSION: Final = frozenset({*LOCALE, *FOLDERS, *(name for login in LOGINS for name in login.names)})
"""Variables that a login has before any start-up file."""
_OF_THE_SHELL: Final = frozenset({"_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", RESOLVING})
"""Variables that say something of the shell that was asked, not of the person."""
_NO_SHELLS: Final = frozenset({"false", "nologin", "true"})


class LoginShell(NamedTuple):
    """A shell, and the environment that it is started with."""

    path: str
    environ: tuple[tuple[str, str], ...]


class Answer(NamedTuple):
    """The variables that the shell has set; `problem` says why none are known, and is None if all is well."""

    variables: Mapping[str, str]
    problem: str | None = None


def find_login_shell(environ: Mapping[str, str]) -> LoginShell | None:
    """The login shell of this user, by `SHELL`, else by the password database; None if there is none."""
    entry = entry_of_user()
    shell = environ.get("SHELL") or (entry.pw_shell if entry else "")
    if not shell or PurePath(shell).name in _NO_SHELLS:
        return None
    given = {name: value for name, value in environ.items() if name in _SESSION}
    user = environ.get("USER") or environ.get("LOGNAME") or (entry.pw_name if entry else "")
    home = environ.get("HOME") or (entry.pw_dir if entry else "")
    login = {"HOME": home, "USER": user, "LOGNAME": user}
    given |= {name: value for name, value in login.items() if value}
    given |= {"SHELL": shell, "PATH": LOGIN_PATH, "TERM": "dumb", RESOLVING: "1"}
    return LoginShell(shell, tuple(sorted(given.items())))


def how_to_set(shell: str) -> str:
    """Return the way to set a variable for good in this shell, with `{}` for its name."""
    name = PurePath(shell).name
    if name == "fish":
        return "set -Ux {} VALUE"
    if name in {"csh", "tcsh"}:
        return "add to ~/.login: setenv {} VALUE"
    file = {"zsh": "~/.zprofile", "bash": "~/.bash_profile"}.get(name, "~/.profile")
    if name == "bash" and not os.path.exists(os.path.expanduser(file)):
        file = "~/.profile"  # bash reads the first of them alone
    return f"add to {file}: export {{}}=VALUE"


def ask(shell: LoginShell, answered: Callable[[Answer], None]) -> None:
    """Ask for its variables, and call `answered` once, with them or the problem; then end the shell.

    Never raises. Takes at most `ANSWER_TIMEOUT_S` to the answer.
    """
    problem = ""
    for flags, timeout_s in _attempts(shell.path):
        try:
            if _attempt(shell, flags, timeout_s, answered):
                return
            problem = problem or "ended without printing its variables"
        except OutOfBounds as limit:
            problem = problem or str(limit)
        except Exception as error:  # noqa: BLE001 - the boundary: somebody waits for an answer, whatever failed
            problem = f"cannot be run: {getattr(error, 'strerror', None) or error}"
            break
    answered(Answer({}, f"{shell.path} {problem}"))


def _attempt(
    shell: LoginShell, flags: list[str], timeout_s: float, answered: Callable[[Answer], None]
) -> bool:
    """Start the shell once, and pass on its variables before it has left; False if it has printed none."""
    mark = os.urandom(16).hex()
    with running([shell.path, *flags, _command(shell.path, mark)], dict(shell.environ)) as process:
        variables = _read(process, mark.encode(), timeout_s)
        if variables is None:
            return False
        answered(Answer(variables))
        with suppress(Exception):  # it has answered
            end(process)
        return True


def _attempts(shell: str) -> list[tuple[list[str], float]]:
    """The options for each attempt, and how long it may take."""
    if PurePath(shell).name in {"csh", "tcsh"}:  # -l goes with no other option
        return [(["-ic"], INTERACTIVE_TIMEOUT_S), (["-c"], LOGIN_TIMEOUT_S)]
    return [(["-l", "-i", "-c"], INTERACTIVE_TIMEOUT_S), (["-l", "-c"], LOGIN_TIMEOUT_S)]


def _command(shell: str, mark: str) -> str:
    """A command for any shell that prints its variables between two marks.

    The mark is written backwards, because a shell may print the command itself.
    """
    code = (
        f'import os,sys;m=b"{mark[::-1]}"[::-1];'
        'sys.stdout.buffer.write(m+bytes(1).join(k+b"="+v for k,v in os.environb.items())+m)'
    )
    external = "^" if PurePath(shell).name == "nu" else ""
    return f"{external}{shlex.quote(sys.executable)} -I -S -c '{code}'"


def _read(process: subprocess.Popen[bytes], mark: bytes, timeout_s: float) -> dict[str, str] | None:
    """The variables that the process prints; None if it ends before."""
    output = read(
        process,
        timeout_s=timeout_s,
        max_bytes=MAX_OUTPUT_BYTES,
        is_enough=lambda output: output.count(mark) > 1,
    )
    _, *found = output.split(mark, 2)
    return _decode(found[0]) if found[1:] else None  # between the marks, and after them


def _decode(block: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(each).partition("=") for each in block.split(b"\0"))
    # a function that bash has exported is code (bash(1))
    return {
        name: value
        for name, equals, value in pairs
        if equals and name not in _OF_THE_SHELL and not value.startswith("()")
    }
