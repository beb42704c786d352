"""The strings of a server's entry, with their variables expanded.

Owns the keys of an entry that are not settings, and the rule for what comes out of a string: what is wrong as
written is a mistake, what is wrong only after expansion (a variable that is not set, or that holds nonsense)
is a reason to disable that server. Used by `mcpx.core.config.servers`; the keys also by the schema.
"""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mcpx.core.config.document import ConfigNotices, Location, as_object, quote
from mcpx.core.config.env_files import EnvFileProblem, read_env_file
from mcpx.core.config.expand import Values, expand
from mcpx.core.config.per_server import NonEmpty, doc
from mcpx.core.config.projects import PROJECT_KEYS, with_project
from mcpx.core.config.server_config import Filled, OAuth, Obstacle, Override, Tls
from mcpx.core.config.settings import convert, fields, is_text, read_members
from mcpx.core.config.urls import with_port
from mcpx.core.text.jsonc import JSONObject

UNPARSED: Final = "a ${...} that names no variable stays as written; $${ says so on purpose"
Problem = Callable[[str], str | None]
"""Says what is wrong with a string, without showing it; `None` for a good one."""

ENV_FILE_KEYS: Final = ("env_file", "envFile")
URL_KEYS: Final = ("url", "serverUrl", "httpUrl")
TYPE_KEYS: Final = ("type", "transport")
TYPES: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
"""The transports by the words of this and of other clients for them."""

_NAMES: Final = {
    "env": ("an environment variable", "[^=]+"),
    "headers": ("a header", "[A-Za-z0-9!#$%&'*+.^_`|~-]+"),
}
"""For the objects of strings: what a name in it names, and the pattern that it must match."""


def _named(key: str) -> Meta:
    return Meta(pattern=f"^(?:{_NAMES[key][1]})$")


Url = Annotated[NonEmpty, Meta(extra_json_schema={"pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://|\$\{"})]
TypeWord = Annotated[
    str, Meta(extra_json_schema={"enum": [*TYPES]}), doc("How the server is reached; may be left out.")
]


class EntryKeys(msgspec.Struct, rename="camel"):
    """The keys of a server's entry that are not settings: their types and meanings. It has no instances."""

    command: Annotated[
        NonEmpty,
        doc(
            "The program of a stdio server; beside a url, the program that MCPX starts and that listens"
            " there. `~` at the start is the home folder."
        ),
    ]
    args: Annotated[tuple[str, ...], doc("Arguments of the program.")]
    env: Annotated[
        dict[Annotated[str, _named("env")], str | float | None],
        doc("Environment variables of the program, in addition to the inherited ones."),
    ]
    env_file: Annotated[
        str | tuple[NonEmpty, ...],
        doc(
            "A file, or a list of files, in the form of .env: environment variables of the program, and a"
            " source for ${VAR} in this entry. Variables in env take precedence."
        ),
    ] = msgspec.field(name="env_file")
    env_file_of_editors: Annotated[str | tuple[NonEmpty, ...], doc("Another client's name for env_file.")] = (
        msgspec.field(name="envFile")
    )
    cwd: Annotated[
        NonEmpty, doc("Working folder of the program; a relative one starts at this file's folder.")
    ]
    url: Annotated[
        Url, doc("Address of an HTTP server. Without a type, SSE is used if its path ends in /sse.")
    ]
    server_url: Annotated[Url, doc("Another client's name for url.")]
    http_url: Annotated[Url, doc("Another client's name for url.")]
    headers: Annotated[dict[Annotated[str, _named("headers")], str], doc("Headers of every request.")]
    auth: Annotated[
        OAuth | Literal["oauth", "none"] | bool,
        doc(
            "How MCPX signs in if the server requires it. Most servers need nothing here; false and none:"
            " MCPX does not sign in."
        ),
    ]
    oauth: Annotated[dict[str, Any] | bool, doc("Another client's name for auth.")]
    tls: Annotated[Tls, doc("Certificates for the connection to an https server.")]
    type: TypeWord
    transport: TypeWord
    project: Annotated[
        NonEmpty,
        doc(
            "The folder of a project: only clients that work there see the server, and it runs there. `~`"
            " at the start is the home folder."
        ),
    ]
    mcpx: Annotated[
        bool,
        doc(
            "Set this if the entry leads to another MCPX: each of its servers becomes a server here, with a"
            " separate session, under its own name or with the prefix as."
        ),
    ]
    prefix: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$"),
        doc("With mcpx: a prefix for the names of its servers; lab makes browser lab/browser."),
    ] = msgspec.field(name="as")
    aliases: Annotated[
        tuple[NonEmpty, ...],
        doc("Other names that calls, rules, profiles and commands can use. Only the main name is shown."),
    ]
    overrides: Annotated[
        dict[NonEmpty, Override],
        doc("By the server's tool names, the changed form in which clients see each tool."),
    ]
    disabled: Annotated[bool, doc("True switches the server off: it stays listed, but is never started.")]
    enabled: Annotated[bool, doc("False is the same as disabled: true.")]


def read_key(entry: JSONObject, key: str, at: Location) -> Any:
    """The value at a key of an entry, which is there, by the type that `EntryKeys` gives it.

    Raises:
        LocatedError: It is of another type.
    """
    return convert(entry[key], fields(EntryKeys)[key].type, at.key(key))


_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # as the protocol wants it


def checked_override(given: Override, at: Location, values: Values, notices: ConfigNotices) -> Override:
    """An override with the references in its fixed arguments expanded.

    Raises:
        LocatedError: Its parts contradict each other, or its name is none.
    """
    if given.name is not None and _TOOL_NAME.fullmatch(given.name) is None:
        raise at.key("name").error("the name of a tool has up to 128 letters, digits, _, - and .")
    for one, other in (("defaults", "fixed"), ("hidden", "fixed"), ("defaults", "hidden")):
        for name in getattr(given, one):
            if name in getattr(given, other):
                raise at.key(one).error(f"{quote(name)} stands in {other} as well; it can have one of them")

    if not given.fixed:
        return given
    return replace(given, fixed=_filled(given.fixed, at.key("fixed"), values, notices))


def _filled(value: Any, at: Location, values: Values, notices: ConfigNotices) -> Any:
    """A fixed value with each string that holds references as a `Filled`."""
    if isinstance(value, dict):
        return {name: _filled(each, at.key(name), values, notices) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, at.item(index), values, notices) for index, each in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    done = expand(value, values)
    if done.unparsed:
        notices.add(at, UNPARSED)
    for problem in done.problems:
        notices.add(at, f"{problem}; clients have no such tool until it is there")
    return Filled(done.text, done.used, "; ".join(map(str, done.problems)))


def secrets_filled(value: Any) -> list[tuple[str, str]]:
    """The names and values of all references in fixed arguments."""
    if isinstance(value, Filled):
        return [*value.secrets]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [secret for each in members for secret in secrets_filled(each)]


class ExpansionContext(msgspec.Struct, frozen=True):
    """The surroundings of an entry: the values of references, and the folder of the file."""

    values: Values
    folder: str

    def at_home(self, path: str) -> str:
        """A path in which `~` at the start is the home folder."""
        return self.values.home + path[1:] if path == "~" or path.startswith("~/") else path

    def path(self, written: str) -> str:
        """An absolute path: a relative one starts at the file's folder, unless it begins with the project."""
        if written.startswith("${project"):
            return written
        return os.path.normpath(os.path.join(self.folder, self.at_home(written)))


def _nothing(_: str) -> None:
    """Finds nothing wrong."""


class Strings:
    """Reads and expands the strings of one entry.

    `obstacles` gathers why the server cannot be used, `variables` which were used, with their values,
    `fetched` the values that came from a keychain or a command. What is
    wrong as written goes to the mistakes of `notices`, and is left out or empty in what is returned.
    """

    def __init__(
        self, entry: JSONObject, at: Location, context: ExpansionContext, notices: ConfigNotices
    ) -> None:
        self.obstacles: list[Obstacle] = []
        self.variables: list[tuple[str, str]] = []
        self.fetched: set[str] = set()
        self.names_project = False
        """True if the project of a client is named in what was read."""
        self.entry, self.at, self.context, self.notices = entry, at, context, notices
        has_both = "command" in entry and any(key in entry for key in URL_KEYS)
        self._values = replace(context.values, picks_port=has_both)

    def env_files(self) -> dict[str, str]:
        """The variables of the files that the entry names; from now on they count for references, too."""
        found: dict[str, str] = {}
        for key in (key for key in ENV_FILE_KEYS if key in self.entry):
            at = self.at.key(key)
            with self.notices.gathering():
                given = read_key(self.entry, key, self.at)
                for each in (given,) if isinstance(given, str) else given:
                    try:
                        found |= read_env_file(each, at, self._values, self.context.folder, self.notices)
                    except EnvFileProblem as problem:
                        self.obstacles.append(Obstacle(str(problem), at, problem.missing, problem.remedy))
                    self._values = replace(self._values, environ={**self._values.environ, **found})
        return found

    def text(self, key: str, problem: Problem) -> str:
        """The string at `key`, which is there."""
        with self.notices.gathering():
            return self.expanded(read_key(self.entry, key, self.at), self.at.key(key), problem)
        return ""

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings at `key`, empty when absent or null."""
        found: list[str] = []
        given = self.entry.get(key)
        if given is not None and not isinstance(given, list):
            with self.notices.gathering():
                read_key(self.entry, key, self.at)
            return ()
        for index, each in enumerate(given or ()):
            at = self.at.key(key).item(index)
            with self.notices.gathering():
                found.append(self.expanded(convert(each, str, at), at))
        return tuple(found)

    def named(self, key: str, problem: Problem = _nothing) -> dict[str, str]:
        """The object of strings at `key`, empty when absent or null. Called with `env` or `headers`.

        In `env` a number stands for its digits and `null` for a variable that is left out, as in VS Code.
        """
        found: dict[str, str] = {}
        what, pattern = _NAMES[key]
        given, at = JSONObject([]), self.at.key(key)
        with self.notices.gathering():
            given = as_object(given if self.entry.get(key) is None else self.entry[key], at)
        for name, value in given.items():
            with self.notices.gathering():
                if not re.fullmatch(pattern, name) or not is_text(name):
                    raise at.name(name).error(f"{quote(name)} cannot be the name of {what}")
                if key == "env" and value is None:
                    continue
                number = isinstance(value, int | float) and not isinstance(value, bool)
                written = json.dumps(value) if number and key == "env" else convert(value, str, at.key(name))
                found[name] = self.expanded(written, at.key(name), problem)
        return found

    def overrides(self) -> dict[str, Override]:
        """The overrides of the entry's tools."""
        found: dict[str, Override] = {}
        if self.entry.get("overrides") is None:
            return found
        at = self.at.key("overrides")
        with self.notices.gathering():
            for name, given in read_members(self.entry["overrides"], Override, at, self.notices).items():
                with self.notices.gathering():
                    found[name] = checked_override(given, at.key(name), self._values, self.notices)
                    self.variables += secrets_filled(found[name].fixed)
        return found

    def expanded(self, written: str, at: Location, problem: Problem = _nothing) -> str:
        """A string of the entry with its variables expanded.

        Raises:
            LocatedError: It is wrong as written.
        """
        if "${" not in written:
            if wrong := problem(written):
                raise at.error(wrong)
            return written
        done = expand(written, self._values)
        self.variables += done.used
        self.fetched.update(done.fetched)
        if done.names_project:
            self._note_project(at)
        if done.unparsed:
            self.notices.add(at, UNPARSED)
        whole = with_port(with_project(done.text, "/project"), 1)
        wrong = None if done.problems or done.deferred else problem(whole)
        self.obstacles += [
            Obstacle(each.problem, at, each.name, each.remedy, "used in {}") for each in done.problems
        ]
        if wrong:
            names = ", ".join(name for name, _ in done.used)
            remedy = f"correct the value of {names}"
            self.obstacles.append(Obstacle(wrong, at, names, remedy, "in {}, after expansion"))
        return done.text

    def _note_project(self, at: Location) -> None:
        """Note that the project is named, or that it cannot be in this place."""
        key = str(at.steps[len(self.at.steps)])
        self.names_project = True
        if key not in PROJECT_KEYS:
            problem = "the project of a client is known in cwd, args, env and url only"
            self.obstacles.append(Obstacle(problem, at, remedy=f"write a path in place of it in {key}"))
