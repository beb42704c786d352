"""MCPX put into a client's file, and taken out of it: the content that the file is to have.

Where MCPX is in the file already, under whatever name, that entry is brought up to date and keeps its name,
its options and what the person has set beside them. It is taken out byte for byte as it was put in, where
the file is as MCPX left it: the journal has each change that MCPX made in it, and they are taken back one by
one, the last first, until the file is one without MCPX. Where the file was changed since, members of MCPX
alone are taken out. A file that is not understood is refused. The same holds for the file in which a client
keeps its rules for MCPX (`approvals`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Final, Literal

import msgspec

from mcpx.core.config.entries import command_words
from mcpx.setup.changes import Change, ChangeError, State, obstacle, read_file, real_path, undone
from mcpx.setup.changes.undoing import take_back
from mcpx.setup.clients.approvals import approvals_file, rules_in, without_rules
from mcpx.setup.clients.forms import write_entry
from mcpx.setup.clients.launching import NAME, Launch, is_same_command
from mcpx.setup.clients.reading import ClientFile, of_folders, read_servers, servers_key
from mcpx.setup.clients.rows import Client
from mcpx.setup.documents import DocumentError, value_at
from mcpx.setup.documents.editing import Document, Syntax

UNINSTALL: Final = "uninstall"
"""The command by which a change that takes MCPX out is known in the journal."""
_NEW_CONTINUE: Final = b"name: My assistant\nversion: 1.0.0\nschema: v1\n"
_ENVIRONMENTS: Final = frozenset({"env", "envs", "environment"})
_STARTS: Final = frozenset({"command", "cmd", "args"})
_REQUIRED: Final = frozenset({"type", "source"})

Path = tuple[str | int, ...]


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a client's file; `before` and `after` are its contents, None where there is none.

    `entries` are MCPX's own, by name, as they are to be. `adopted` are servers that are taken out of it, by
    their names there: their names in MCPX. Where it is `refused`, `problem` says why.
    """

    file: ClientFile
    outcome: Literal["added", "updated", "present", "refused"]
    key: tuple[str, ...]
    before: bytes | None
    after: bytes | None
    entries: dict[str, dict[str, Any]] = {}
    replaced: dict[str, dict[str, Any]] = {}
    """The entries of MCPX that are brought up to date, as they were."""
    adopted: dict[str, str] = {}
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """True if the file would be another one."""
        return self.outcome in {"added", "updated"}


def plan_install(
    file: ClientFile, data: bytes | None, launch: Launch, adopted: Mapping[str, str] | None = None
) -> Installation:
    """Plan to put MCPX into the file of a client, and to take `adopted` servers out of it."""
    if file.client.windows is not None:
        launch = launch.through_wsl(file.client.windows)
    try:
        return _Planner(file, data).plan(launch, dict(adopted or {}))
    except DocumentError as error:
        return refusal(file, data, str(error))


def _places(document: Any, key: Sequence[str]) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The entries at a key of a client's file, by name: the path of each, and the entry."""
    value = value_at(document, key)
    if isinstance(value, list):
        listed = [(index, each) for index, each in enumerate(value) if isinstance(each, Mapping)]
        return {str(each.get("name")): ((*key, index), dict(each)) for index, each in listed}
    if not isinstance(value, Mapping):
        return {}
    return {name: ((*key, name), dict(each)) for name, each in value.items() if isinstance(each, Mapping)}


def _remove_entries(document: Document, client: Client, names: Iterable[str]) -> None:
    """Take the entries of these names out of a client's file, those for single folders by theirs."""
    folders: dict[str, Path] = {each.name: each.path for each in of_folders(client, document.value)}
    for name in names:
        place = _places(document.value, servers_key(client, document.value)).get(name)
        if (path := folders.get(name) if place is None else place[0]) is not None:
            document.remove(path)


def refusal(file: ClientFile, data: bytes | None, problem: str) -> Installation:
    """A file that stays as it is, with the reason."""
    key = file.client.key
    return Installation(file=file, outcome="refused", key=key, before=data, after=data, problem=problem)


class _Planner:
    """The work on one file."""

    def __init__(self, file: ClientFile, data: bytes | None) -> None:
        self.file = file
        self.form = file.client.form
        self.before = data
        is_new = self.form == "continue" and not (data or b"").strip()
        self.document = Document(_NEW_CONTINUE if is_new else data or b"", file.client.syntax)
        self.key = servers_key(file.client, self.document.value)
        self.entries = _places(self.document.value, self.key)

    def plan(self, launch: Launch, adopted: dict[str, str]) -> Installation:
        """The whole plan."""
        found = read_servers(self.file, self.document.data)
        if found.problem is not None:
            return refusal(self.file, self.before, found.problem)
        where = ".".join(self.key)
        if not found.own and NAME in self.entries:
            problem = f"{where}.{NAME} is not MCPX's own: rename it there, or take it out"
            return refusal(self.file, self.before, problem)
        notes = list(launch.notes)
        for name in found.own:
            given = configuration_of(self.entries[name][1])
            if adopted and given not in {None, launch.config, launch.serves}:
                problem = f"{where}.{name} uses another configuration; to adopt into it: --config {given}"
                return refusal(self.file, self.before, problem)
            if given is not None and launch.config is None:
                notes.append(f"{name} keeps its configuration, {given}")
            if self.entries[name][1].get("disabled") is True:
                notes.append(f"{name} is disabled there, and stays so")
        entries = {name: self._update(name, launch) for name in found.own} or {NAME: self._add(launch)}
        replaced = {
            name: self.entries[name][1] for name in found.own if self.entries[name][1] != entries[name]
        }
        _remove_entries(self.document, self.file.client, adopted)
        return Installation(
            file=self.file,
            outcome="added" if not found.own else "updated" if replaced or adopted else "present",
            key=self.key,
            before=self.before,
            after=self.document.data if replaced or adopted or not found.own else self.before,
            entries=entries,
            replaced=replaced,
            adopted=adopted,
            notes=tuple(notes),
        )

    def _add(self, launch: Launch) -> dict[str, Any]:
        entry = write_entry(self.form, launch.command, launch.args(), launch.env, name=NAME)
        if self.form == "continue":
            self.document.append(self.key, entry)
        else:
            self.document.set((*self.key, NAME), entry)
        return entry

    def _update(self, name: str, launch: Launch) -> dict[str, Any]:
        """Bring an entry of MCPX up to date, member by member, so that its comments stay."""
        path, old = self.entries[name]
        options = [word for pair in _pairs(_words(old)) if pair[0] != "--config" for word in pair]
        if launch.config is None and (given := configuration_of(old)) is not None:
            options = ["--config", given, *options]
        launch = _as_it_is(old, launch)
        wanted = write_entry(self.form, launch.command, launch.args(tuple(options)), launch.env, name=name)
        entry = {**old}
        for key, own in wanted.items():
            value = own
            if key in _ENVIRONMENTS:
                kept = old.get(key)
                value = {**(kept if isinstance(kept, Mapping) else {}), **own}
                if not value and key not in old:
                    continue
            elif key not in _STARTS and (key in old or key not in _REQUIRED):
                continue
            if old.get(key) != value:
                entry[key] = value
                self.document.set((*path, key), value)
        return entry


def _as_it_is(entry: Mapping[str, Any], launch: Launch) -> Launch:
    """The launch by the path that an entry has, where that leads to the same program: it is in order."""
    command = next(iter(command_words(entry)), None)
    is_same = (
        isinstance(command, str)
        and PurePath(command).is_absolute()
        and not launch.prefix
        and is_same_command(command, launch.command)
    )
    return msgspec.structs.replace(launch, command=command) if is_same else launch


def configuration_of(entry: Mapping[str, Any]) -> str | None:
    """The configuration that an entry of MCPX names; None if it takes the usual one."""
    return next((value for option, value in _pairs(_words(entry)) if option == "--config"), None)


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    """Every option with its value, as `mcpx attach` reads them."""
    pairs = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            pairs.append(("--config", word))
        else:
            pairs.append((option, value if equals else next(rest, "")))
    return pairs


def _words(entry: Mapping[str, Any]) -> list[str]:
    """Return the words of an entry of MCPX behind `attach` or `serve`."""
    texts = [str(word) for word in command_words(entry)]
    start = next((index for index, word in enumerate(texts) if word in {"attach", "serve"}), len(texts))
    return texts[start + 1 :]


# --- taken out


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a client's file; `before` and `after` are its contents, None where there is none.

    It is `restored` byte for byte or `edited`; where it is `refused`, `problem` says why.
    """

    file: ClientFile
    outcome: Literal["restored", "edited", "absent", "refused"]
    before: bytes | None
    after: bytes | None
    names: tuple[str, ...] = ()
    """Under which MCPX is in the file."""
    rules: tuple[str, ...] = ()
    """The rules of the client for MCPX that are in the file, in words."""
    folders: tuple[str, ...] = ()
    """Which MCPX created for the file."""
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def syntax(self) -> Syntax:
        """The syntax of the file, of servers or of rules."""
        approvals = self.file.client.approvals
        return approvals.syntax if self.rules and approvals else self.file.client.syntax


def plan_uninstall(file: ClientFile, history: Sequence[Change]) -> Removal:
    """Plan to take MCPX out of the file of a client."""
    try:
        data = read_file(file.path)
    except ChangeError as error:
        return Removal(file=file, outcome="refused", before=None, after=None, problem=str(error))
    found = read_servers(file, data or b"")
    if data is None or not (found.own or (found.problem is not None and b"mcpx" in data)):
        return Removal(file=file, outcome="absent", before=data, after=data)
    refused = partial(Removal, file=file, outcome="refused", before=data, after=data)
    if (problem := obstacle(file.path)) is not None:
        return refused(problem=problem)

    def has_mcpx(contents: bytes) -> bool:
        now = read_servers(file, contents)
        return now.problem is not None or bool(now.own)  # it may be, where the file is not understood

    walk = _Walk(file.path, file.client.syntax, data, has_mcpx)
    walk.back(history)
    if walk.contents is not None and walk.has_mcpx():
        now = read_servers(file, walk.contents)
        if now.problem is not None:
            return refused(problem=now.problem)
        try:
            document = Document(walk.contents, file.client.syntax)
            _remove_entries(document, file.client, now.own)
            walk.contents = document.data
        except DocumentError as error:
            return refused(problem=str(error))
        walk.is_exact = False
    return walk.removal(file, names=found.own)


def plan_withdrawal(
    file: ClientFile, names: Sequence[str], history: Sequence[Change], environ: Mapping[str, str] = os.environ
) -> Removal | None:
    """Plan to take the rules for MCPX out of a client whose file has, or had, MCPX under these names.

    None where they are in no other file than that one, or nowhere.
    """
    approvals, place = file.client.approvals, approvals_file(file, environ)
    if approvals is None or place is None or real_path(place.path) == real_path(file.path):
        return None
    try:
        data = read_file(place.path)
    except ChangeError as error:
        return Removal(file=place, outcome="refused", before=None, after=None, problem=str(error))
    if data is None or not (rules := rules_in(data, approvals, names)):
        return None
    if (problem := obstacle(place.path)) is not None:
        return Removal(file=place, outcome="refused", before=data, after=data, problem=problem)
    walk = _Walk(place.path, approvals.syntax, data, lambda found: bool(rules_in(found, approvals, names)))
    walk.back(history)
    if walk.contents is not None and walk.has_mcpx():
        walk.contents, walk.is_exact = without_rules(walk.contents, approvals, names), False
    return walk.removal(place, rules=rules)


class _Walk:
    """Back through the changes of one file; `has` says whether contents have what is to be taken out."""

    def __init__(self, path: PurePath, syntax: Syntax, contents: bytes, has: Callable[[bytes], bool]) -> None:
        self._path = path
        self._syntax = syntax
        self._has = has
        self._found = contents
        self.contents: bytes | None = contents
        self.is_exact = True
        self.folders: tuple[str, ...] = ()
        self.notes: list[str] = []

    def removal(self, file: ClientFile, *, names: Sequence[str] = (), rules: Sequence[str] = ()) -> Removal:
        """The change from what was found to where the walk has come."""
        return Removal(
            file=file,
            outcome="restored" if self.is_exact else "edited",
            before=self._found,
            after=self.contents,
            names=tuple(names),
            rules=tuple(rules),
            folders=self.folders if self.contents is None else (),
            notes=tuple(self.notes),
        )

    def has_mcpx(self) -> bool:
        """Return True if there is anything to be taken out still."""
        return self.contents is not None and self._has(self.contents)

    def back(self, history: Sequence[Change]) -> None:
        """Take back changes until MCPX is not in the file, or one cannot be taken back."""
        target = str(real_path(self._path))
        gone = undone(history)
        for change in reversed(history):
            index = next((i for i, each in enumerate(change.files) if each.target == target), None)
            if index is None or change.state is not State.DONE or change.undoes or change.id in gone:
                continue
            if change.command.split()[:1] == [UNINSTALL] or not self.has_mcpx():
                return
            try:
                if not self._back_before(change, index):
                    return
            except ChangeError as error:
                self.notes.append(str(error))
                return

    def _back_before(self, change: Change, index: int) -> bool:
        """Take one change back, if it can be."""
        before, after = change.before(index), change.after(index)
        if self.contents == after:
            self.contents = before
            if before is None:
                self.folders = change.files[index].created_folders
            return True
        if self.contents is None:
            return False
        merged = take_back(before, after, self.contents, self._syntax)
        if merged is None:
            return False
        self.contents, self.is_exact = merged.contents, False
        self.notes += merged.notes
        return True
