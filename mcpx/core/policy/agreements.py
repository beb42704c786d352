"""Agreements to the servers that files of projects name: what a person is shown, and has said.

A file that comes with a repository is somebody else's words, so a person is shown what it would start, and
agrees to just that: each entry by its digest (`mcpx.core.config.project_entries`). They are asked by
`mcpx approve --project` in a terminal, on the daemon's page, or by their client (`mcpx.core.calls`), in the
same words. An entry that says something else is another one, and is asked about anew; one that was refused
for good is not asked about again by clients, and can still be agreed to in a terminal.

`Agreements` keeps what was said in one private file, which all MCPX of this user share: it is read again when
it has changed, and written under a lock. Its methods block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec
import structlog

from mcpx.core.catalog.model import JSON, as_list
from mcpx.core.config.project_entries import CLAUDE, ProjectEntry, ProjectServers
from mcpx.core.config.strings import URL_KEYS
from mcpx.core.policy.approval_form import answer_in, choice_of, schema
from mcpx.core.running.inherited import is_key, without_password
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import ForeignFileError, read_own_file, replace_file
from mcpx.core.system.environment import loads_code
from mcpx.core.system.locks import locked
from mcpx.core.text import one_line, quoted, shown_server

log = structlog.get_logger()
STORE: Final = "projects.json"
MAX_STORE_BYTES: Final = 4 << 20
MAX_SAID: Final = 256  # entries of one project; the oldest is forgotten
LOCK_TIMEOUT_S: Final = 5.0
ASKED: Final = "May MCPX start these servers?"
BECAUSE: Final = "Files of the folder name them. They run with your rights, for clients in this folder alone."
MAX_FORM_CHARS: Final = 8000  # a person would not read more in a client, and nothing is left out
Said = Literal["yes", "no"]
"""The word of a person that is kept; they are not asked about an entry again, unless it changes."""
CHOICES: Final = {"yes": "Start them", "not_now": "Not now", "no": "No, and do not ask again"}
"""The answers of a person, and their titles; "not now" is not kept."""
_PLAIN_WORD: Final = re.compile(r"[\w@%+=:,./${}-]+", re.ASCII)
_REFERENCES: Final = re.compile(r"\$\{[^{}]*\}")


class Agreements:
    """The words of a person about entries of projects, in a file of that folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / STORE
        self._said: dict[str, dict[str, Said]] = {}  # by project and digest, the latest last
        self._seen: object = None
        self.look()

    def look(self) -> bool:
        """Read the file again if it has changed; return True if it has."""
        try:
            found = self._file.stat()
            seen: object = found.st_ino, found.st_size, found.st_mtime_ns
        except OSError:
            seen = None
        if seen == self._seen:
            return False
        self._seen, self._said = seen, {}
        try:
            self._said = self._read()
        except OSError as error:
            log.warning("projects.unreadable", file=str(self._file), reason=str(error))
        return True

    def _read(self) -> dict[str, dict[str, Said]]:
        try:
            data = read_own_file(self._file, MAX_STORE_BYTES)
            return msgspec.json.decode(data, type=dict[str, dict[str, Said]])
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise ForeignFileError(self._file, f"not as MCPX has written it ({error})") from None

    def said(self, project: str, entry: ProjectEntry) -> Said | None:
        """The word of a person about an entry of a project; None if they have said nothing, or not now."""
        return self._said.get(project, {}).get(entry.digest)

    def keep(self, found: ProjectServers, word: Said) -> None:
        """Keep what a person has said to these servers.

        Raises:
            OSError: It cannot be written, or what is there cannot be read.
        """
        ensure_folder(self._file.parent)
        with locked(self._file.with_suffix(".lock"), timeout_s=LOCK_TIMEOUT_S):
            said = self._read()
            own = said.pop(found.project, {})
            for entry in found.entries.values():
                own.pop(entry.digest, None)
                own[entry.digest] = word
            said[found.project] = dict(list(own.items())[-MAX_SAID:])
            replace_file(self._file, msgspec.json.encode(said))
        self.look()


# --- for a person


def shown(found: ProjectServers) -> list[JSON]:
    """`{name, file, starts | connects, with, own}` for each server, on printable lines.

    `starts` is its command line, `connects` its address. `with` are its folder, its variables and headers:
    variables with their values as written, but for those that are keys by their names, headers with the
    variables of the user that they hold. `own` are the files of the folder that the command line names: they
    may change without another question.
    """
    return [_shown(found.project, name, entry) for name, entry in found.entries.items()]


def _shown(project: str, name: str, entry: ProjectEntry) -> JSON:
    given = entry.given
    words = [str(given.get("command", "")), *map(str, as_list(given.get("args")))]
    own = entry.file.endswith(CLAUDE)
    said: JSON = {
        "name": shown_server(name),
        "file": f"~/{CLAUDE}" if own else one_line(os.path.relpath(entry.file, project)),
    }
    address = next((str(given[key]) for key in URL_KEYS if key in given), "")
    if given.get("command"):
        said["starts"] = one_line(" ".join(map(_quoted, words)))
    else:
        said["connects"] = one_line(address)
    said["with"] = [one_line(line) for line in _more(given, address)]
    said["own"] = [one_line(each) for each in _own_files(project, given, words)]
    return said


def _quoted(word: str) -> str:
    return word if _PLAIN_WORD.fullmatch(word) else quoted(word)


def _more(given: JSON, address: str) -> Iterator[str]:
    if given.get("command") and address:
        yield f"reached at: {address}"
    if given.get("cwd"):
        yield f"folder: {_quoted(str(given['cwd']))}"
    env, headers = given.get("env"), given.get("headers")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        yield f"variable: {_quoted(name)}={_value(name, value)}"
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        held = ", ".join(_REFERENCES.findall(str(value)))
        yield f"header: {_quoted(name)}" + (f" with {held}" if held else "")


def _value(name: str, value: Any) -> str:
    """The value of a variable as written, unless it is a key by its name; a reference is none."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if is_key(name) and not loads_code(name) and not _REFERENCES.fullmatch(text):
        return "***"
    return _quoted(without_password(text))


def _own_files(project: str, given: JSON, words: list[str]) -> Iterator[str]:
    folder = os.path.join(project, str(given.get("cwd") or ""))
    for word in words:
        path = os.path.normpath(os.path.join(folder, word))
        try:
            if word and path.startswith(f"{project}/") and os.path.isfile(path):
                yield os.path.relpath(path, project)
        except ValueError:  # a name that no file can have
            continue


def server_lines(each: JSON) -> Iterator[str]:
    """One of them in the words of a form or a terminal, without its name."""
    yield f"starts: {each['starts']}" if "starts" in each else f"connects to: {each['connects']}"
    yield from each["with"]
    if each["own"]:
        yield f"of this folder, and may change without another question: {', '.join(each['own'])}"


def form(found: ProjectServers) -> JSON | None:
    """The parameters of the elicitation; None where there is too much to read."""
    lines = [ASKED, "", f"Folder: {one_line(found.project)}"]
    for each in shown(found):
        lines += [f"{each['name']} ({each['file']})", *(f"  {line}" for line in server_lines(each))]
    message = "\n".join([*lines, "", BECAUSE])
    if len(message) > MAX_FORM_CHARS:
        return None
    return {"message": message, "requestedSchema": schema(CHOICES, "May they be started?")}


def read_word(responses: bytes | msgspec.Raw) -> Said | None:
    """The word of a person among the responses of their client; None for whatever is neither yes nor no."""
    answer = answer_in(responses)
    choice = None if answer is None else choice_of(answer)
    return choice if choice in get_args(Said) else None
