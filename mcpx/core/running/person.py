"""`Environment`: the variables of the person, and the commands that are found with them.

The login shell is asked once for as long as this process lives, in a thread: `begin` has it start early, and
`person` waits for the answer. Asked `anew` (by a reload or a restart), it is asked once more.

Where both know a variable, the login shell's value counts; PATH is the login shell's, followed by what the
PATH of this process has beyond it. One that has all of the login shell's folders stays in its own order: it
is that of a terminal of the same person, who has put something before them (a virtual environment).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from mcpx.core.running.login_shell import ANSWER_TIMEOUT_S, Answer, LoginShell, ask, find_login_shell
from mcpx.core.system.environment import CHILD_MARK, as_written

INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The SDK's short list of harmless variables (`mcp.client.stdio`): all that a server is given unasked."""


class Environment:
    """Variables, and where they came from. Immutable.

    Any two are equal: what the variables mean for a server is in its transport, and in what `find` finds.
    """

    __slots__ = ("is_of_person", "problem", "shell", "variables")

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        shell: str | None = None,
        problem: str | None = None,
        is_of_person: bool = True,
    ) -> None:
        self.variables = variables
        self.is_of_person = is_of_person
        """Whether it was made by `person`, and not for a look at a configuration."""
        self.shell = shell
        """The login shell that was asked, if one was."""
        self.problem = problem
        """Why the login shell gave nothing, where it was asked and did not."""

    @property
    def path(self) -> str:
        """The folders that commands are looked for in, separated by colons."""
        return self.variables.get("PATH", os.defpath)

    @property
    def source(self) -> str:
        """The source of the variables, for people."""
        if self.shell is None:
            return "the program that started MCPX"
        if self.problem is not None:
            return f"the program that started MCPX; the login shell {self.problem}"
        return f"the login shell {self.shell}"

    def find(self, command: str, *, path: str | None = None, folder: str | None = None) -> str | None:
        """The file that `command` runs; None if there is none that can be run.

        `path` is a PATH that counts in place of this one, `folder` is where a relative command starts.
        """
        if os.sep in command:
            command = os.path.join(folder or os.curdir, command)
        return shutil.which(command, path=self.path if path is None else path)

    def inherited(self) -> dict[str, str]:
        """The variables that each server is given."""
        values = ((name, self.variables.get(name)) for name in INHERITED)
        # a function that bash has exported is code (bash(1))
        return {name: value for name, value in values if value is not None and not value.startswith("()")}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Environment)

    def __hash__(self) -> int:
        return hash(Environment)

    def __repr__(self) -> str:
        return f"Environment({len(self.variables)} variables of {self.source})"


class _Asked:
    """A shell that was asked: its answer, once it is there."""

    def __init__(self, shell: LoginShell) -> None:
        self._answer = Answer({}, f"{shell.path} has not answered")
        self._done = threading.Event()
        thread = threading.Thread(target=ask, args=(shell, self._take), name="login shell", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is to be had
            self._take(Answer({}, f"{shell.path} cannot be asked: {error}"))

    def _take(self, answer: Answer) -> None:
        self._answer = answer
        self._done.set()

    def wait(self) -> Answer:
        self._done.wait(ANSWER_TIMEOUT_S)
        return self._answer


_asked: Final[dict[LoginShell, _Asked]] = {}
_lock: Final = threading.Lock()


def begin(environ: Mapping[str, str] = os.environ, *, anew: bool = False) -> None:
    """Have the login shell asked, unless it has been, and do not wait for the answer."""
    if (shell := find_login_shell(environ)) is not None:
        _asking(shell, anew=anew)


def person(
    environ: Mapping[str, str] = os.environ, *, login_shell: bool = True, anew: bool = False
) -> Environment:
    """The environment of the person: of the login shell, then `environ`. Blocks until the shell has answered.

    Without `login_shell` it is that of `environ` alone, as it is for a user who has no login shell.
    """
    shell = find_login_shell(environ) if login_shell else None
    if shell is None:
        return Environment(own(environ).variables)
    answer = _asking(shell, anew=anew).wait()
    if answer.problem is not None:
        return Environment(own(environ).variables, shell=shell.path, problem=answer.problem)
    variables = {**own(environ).variables, **answer.variables}
    variables["PATH"] = _merged(answer.variables.get("PATH", ""), environ.get("PATH", ""))
    return Environment(variables, shell=shell.path)


def own(environ: Mapping[str, str] = os.environ) -> Environment:
    """The environment of this process alone."""
    variables = {name: value for name, value in as_written(environ).items() if name != CHILD_MARK}
    return Environment(variables, is_of_person=False)


class InForce:
    """The environment in which one hub starts its servers; without one, it is that of this process.

    What runs inside `entered` finds it by `in_force`, and so do the tasks and threads that are begun there. A
    callback of the event loop has the context of whoever has registered it, so each incarnation enters anew.
    """

    def __init__(self, environment: Environment | None = None) -> None:
        self.environment = environment

    def value(self) -> Environment:
        """Return the environment."""
        return own() if self.environment is None else self.environment

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have it found by `in_force`."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)


_of_process: Final = InForce()  # for what runs in no hub: the first processes of a daemon, the keychain
_current: Final[ContextVar[InForce]] = ContextVar("environment in force", default=_of_process)


def put_in_force(environment: Environment | None) -> None:
    """Have what runs in no hub use this environment from now on; None stands for that of this process."""
    _of_process.environment = environment


def in_force() -> Environment:
    """The environment that servers are started in."""
    return _current.get().value()


def _asking(shell: LoginShell, *, anew: bool) -> _Asked:
    with _lock:
        if anew or shell not in _asked:
            _asked[shell] = _Asked(shell)
        return _asked[shell]


def _merged(logins: str, own: str) -> str:
    """The folders of both PATHs, each once."""
    first, more = ([each for each in path.split(os.pathsep) if each] for path in (logins, own))
    ordered = more if set(first) <= set(more) else [*first, *more]
    return os.pathsep.join(dict.fromkeys(ordered))
