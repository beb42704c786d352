"""`Environment`: the variables of the person, and the commands that are found with them.

The login shell is asked once for as long as this process lives, in a thread: `begin` has it start early, and
`person` waits for the answer. Asked `anew` (by a reload or a restart), it is asked once more.

Where both know a variable, the login shell's value counts; PATH is the login shell's, followed by what the
PATH of this process has beyond it. One that has all of the login shell's folders stays in its own order: it
is that of a terminal of the same person, who has put something before them (a virtual environment).

A daemon serves clients of several logins, and may have been started where nothing was set. So clients say
what their own environment has of the variables that every server is given (`ClientVariables`): what belongs
to a login is that of the client that attached last, and what is set nowhere else is likewise a client's. A
process that belongs to one client has the logins of that client and of no other (`Environment.of_client`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Final, NamedTuple

from mcpx.core.running.inherited import Inherit, chosen, is_key, without_password
from mcpx.core.running.login_shell import ANSWER_TIMEOUT_S, Answer, LoginShell, ask, find_login_shell
from mcpx.core.system.environment import CHILD_MARK, LOGINS, UNASKED, Login, as_written

OF_CLIENT: Final = "the client that attached last"
OF_OWN_CLIENT: Final = "its client"
OF_STARTER: Final = "the program that started MCPX"
_Said = tuple[tuple[str, str], ...]


class Inherited(NamedTuple):
    """Variables that a server is given, and the source of each."""

    variables: dict[str, str]
    sources: dict[str, str]

    def shown(self) -> list[dict[str, str]]:
        """Return each with its source, as it may be shown: without keys, and without passwords in URLs."""
        return [
            {"name": name, "value": "***" if is_key(name) else without_password(value), "source": source}
            for (name, value), source in zip(self.variables.items(), self.sources.values(), strict=True)
        ]


class Environment:
    """Variables, and where they came from. Immutable.

    Any two are equal: what the variables mean for a server is in its transport, and in what `find` finds.
    """

    __slots__ = ("_client", "_of_clients", "_of_shell", "is_of_person", "problem", "shell", "variables")

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        shell: str | None = None,
        problem: str | None = None,
        is_of_person: bool = True,
        of_shell: Collection[str] = (),
        of_clients: Collection[str] = (),
        client: str = OF_CLIENT,
    ) -> None:
        self.variables = variables
        self._of_shell, self._of_clients, self._client = of_shell, of_clients, client
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
            return OF_STARTER
        if self.problem is not None:
            return f"{OF_STARTER}; the login shell {self.problem}"
        return f"the login shell {self.shell}"

    def find(self, command: str, *, path: str | None = None, folder: str | None = None) -> str | None:
        """The file that `command` runs; None if there is none that can be run.

        `path` is a PATH that counts in place of this one, `folder` is where a relative command starts.
        """
        if os.sep in command:
            command = os.path.join(folder or os.curdir, command)
        return shutil.which(command, path=self.path if path is None else path)

    def inherited(self, inherit: Inherit = (), own: Collection[str] = ()) -> Inherited:
        """The variables that a server is given with that setting, and the source of each, for people.

        `own` are the names that its entry sets: those count in place of these, in whatever letters.
        """
        owned = {name.upper() for name in own}
        found = chosen(self.variables, inherit)
        variables = {name: value for name, value in found.items() if name.upper() not in owned}
        return Inherited(variables, {name: self._source_of(name) for name in variables})

    def _source_of(self, name: str) -> str:
        if name in self._of_clients:
            return self._client
        return f"the login shell {self.shell}" if name in self._of_shell else OF_STARTER

    def with_clients(self, clients: ClientVariables) -> Environment:
        """Return this environment with what the clients add to it."""
        variables = clients.merged_with(self.variables)
        return self if variables == self.variables else self._with(variables, OF_CLIENT)

    def of_client(self, said: Mapping[str, str]) -> Environment:
        """Return this environment as it is for the client that has said these variables of its own.

        Each login is the client's: where it has none, what the login shell sets counts, and nobody else's.
        """
        said = usable(said)
        variables = dict(self.variables)
        for login in LOGINS:
            kept = self._of_shell if not _has(said, login) else ()
            for name in login.names:
                if name not in kept:
                    variables.pop(name, None)
                if _has(said, login) and name in said:
                    variables[name] = said[name]
        return self._with({**said, **variables}, OF_OWN_CLIENT)

    def _with(self, variables: Mapping[str, str], client: str) -> Environment:
        return Environment(
            variables,
            shell=self.shell,
            problem=self.problem,
            is_of_person=self.is_of_person,
            of_shell=self._of_shell,
            of_clients={name for name, value in variables.items() if self.variables.get(name) != value},
            client=client,
        )

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
    return Environment(variables, shell=shell.path, of_shell=answer.variables.keys())


def own(environ: Mapping[str, str] = os.environ) -> Environment:
    """The environment of this process alone."""
    variables = {name: value for name, value in as_written(environ).items() if name != CHILD_MARK}
    return Environment(variables, is_of_person=False)


def usable(said: Mapping[str, str]) -> dict[str, str]:
    """Return what a client has said, without variables that no server is given."""
    return {name: said[name] for name in UNASKED if name in said and "\0" not in said[name]}


class ClientVariables:
    """The variables that attached clients have said: those of a login of the last that is there."""

    def __init__(self) -> None:
        self._said: dict[int, _Said] = {}
        self._alike: dict[_Said, dict[int, None]] = {}  # the clients that have said the same, in their order
        self._numbers = count(1)
        self._left: dict[str, str] = {}  # of the last that has left, for when nobody is there
        self._logins: dict[Login, dict[str, str]] = {}  # of the one that counts, also when it has left

    def attach(self, variables: Mapping[str, str]) -> int:
        """Take in the variables of a client, but for those that no server is given; return its number."""
        number = next(self._numbers)
        said = self._said[number] = tuple(usable(variables).items())
        self._alike.setdefault(said, {})[number] = None
        self._choose()
        return number

    def leave(self, number: int) -> None:
        """Note that a client has left."""
        alike = self._alike[said := self._said.pop(number)]
        del alike[number]
        if not alike:
            del self._alike[said]
        self._left = dict(said)
        self._choose()

    def _attached(self) -> list[dict[str, str]]:
        """Return what the clients have said, each thing once, that of the last to come at the end."""
        last = sorted((next(reversed(numbers)), said) for said, numbers in self._alike.items())
        return [dict(said) for _, said in last]

    def _choose(self) -> None:
        attached = self._attached()
        for login in LOGINS:
            if having := [each for each in attached if _has(each, login)]:
                self._logins[login] = {name: having[-1][name] for name in login.names if name in having[-1]}

    def are_gone(self, given: Mapping[str, str]) -> bool:
        """True if a login that a server was started with is another than that of each attached client."""
        return any(
            _has(given, login)
            and login in self._logins
            and not any(_equal(given, each, login) for each in self._attached())
            for login in LOGINS
        )

    def merged_with(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """Return these variables with those of clients: where one is missing, and where it is of a login."""
        of_logins = {name for login in self._logins for name in login.names}
        merged = {name: value for name, value in variables.items() if name not in of_logins}
        said = (each for client in self._attached() or [self._left] for each in client.items())
        rest = {name: value for name, value in said if name not in of_logins}
        for login in self._logins.values():
            rest |= login
        return rest | merged


def _has(variables: Mapping[str, str], login: Login) -> bool:
    return any(variables.get(name) for name in login.known_by)


def _equal(some: Mapping[str, str], others: Mapping[str, str], login: Login) -> bool:
    return all(some.get(name) == others.get(name) for name in login.known_by)


class InForce:
    """The environment in which one hub starts its servers; without one, it is that of this process.

    What runs inside `entered` finds it by `in_force`, and so do the tasks and threads that are begun there. A
    callback of the event loop has the context of whoever has registered it, so each incarnation enters anew.
    """

    def __init__(self, environment: Environment | None = None) -> None:
        self.environment = environment
        self.clients = ClientVariables()

    def value(self, said: Mapping[str, str] | None = None) -> Environment:
        """Return the environment, with what clients add to it; or the one client that has `said` that."""
        environment = own() if self.environment is None else self.environment
        return environment.with_clients(self.clients) if said is None else environment.of_client(said)

    @contextmanager
    def entered(self, said: Mapping[str, str] | None = None) -> Iterator[None]:
        """Have it found by `in_force`, as it is for all or for one client."""
        before = _current.set((self, said))
        try:
            yield
        finally:
            _current.reset(before)


_of_process: Final = InForce()  # for what runs in no hub: the first processes of a daemon, the keychain
_current: Final[ContextVar[tuple[InForce, Mapping[str, str] | None]]] = ContextVar(
    "environment in force", default=(_of_process, None)
)


def put_in_force(environment: Environment | None, clients: ClientVariables | None = None) -> None:
    """Have what runs in no hub use this environment from now on; None stands for that of this process.

    `clients` are those whose variables count for it, too.
    """
    _of_process.environment = environment
    if clients is not None:
        _of_process.clients = clients


def with_clients(environment: Environment) -> Environment:
    """Return an environment with what the clients of this process add to it."""
    return environment.with_clients(_of_process.clients)


def in_force() -> Environment:
    """The environment that servers are started in."""
    environment, said = _current.get()
    return environment.value(said)


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
