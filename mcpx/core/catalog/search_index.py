"""The search index of one server: in which of its entries each word stands, and what that is worth.

Used by `mcpx.core.catalog.search`, and by whoever has catalogues read in good time. An index is kept with the
catalogue that it is made from, so that a server is read once for each listing, and never again because
another one changed. It depends on nothing else: texts are weighed against a fixed length, so that the indices
of several servers can be searched as one. A long catalogue can be read in parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from mcpx.core.catalog.model import Catalogue, PromptInfo, ResourceInfo, SkillInfo, TemplateInfo, ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import groups_of, words

Entry = ToolInfo | ResourceInfo | TemplateInfo | PromptInfo | SkillInfo

MAX_TEXT_LEN: Final = 2000  # characters of a description, and of all descriptions of a tool's parameters
MAX_PARAMETERS: Final = 200  # of one tool or prompt
MAX_TOPIC_LEN: Final = 300  # characters of a description that say what it is about
_NAME, _SERVER, _TEXT, _PARAMETER, _PARAMETER_TEXT = 3.0, 2.0, 1.0, 0.5, 0.2  # what a word counts in a field
_TOPIC_NAME: Final = 3  # entries: what a word in the server's own name counts
_K1: Final = 1.2  # how soon a repeated word stops counting
_B: Final = 0.75  # how much long texts are held back
_USUAL_LEN: Final = 40.0  # weighted words of a usual entry


class Field(NamedTuple):
    """A text of an entry that is searched: which part of it, and what a word in it counts."""

    part: str
    weight: float
    text: str


class ServerIndex:
    """The words of one server's catalogue."""

    def __init__(self, server: str, catalogue: Catalogue) -> None:
        self.server, self.tools = server, catalogue.tools
        self.entries = tuple(_entries_of(catalogue))
        self.postings: dict[str, list[float]] = defaultdict(list)
        """By word: the number of an entry, what the word is worth in it (BM25), the next number, ..."""
        self.names: dict[str, list[int]] = defaultdict(list)
        """The numbers of the entries by name, as the words of the name."""
        self._name = words(server)
        self.name = " ".join(self._name)
        self.topic: Counter[str] = Counter()
        """How much the server as a whole is about a word: the number of entries that begin with it."""
        about = words(f"{catalogue.server_title or ''} {(catalogue.instructions or '')[:MAX_TOPIC_LEN]}")
        self.topic.update(_with_groups({*about, *self._name}))
        self.topic.update(dict.fromkeys(_with_groups(self._name), _TOPIC_NAME - 1))
        self._unread = enumerate(self.entries)
        self._shared: dict[float, float] = {}
        self.whole = False
        """Whether all entries have been read."""

    def tool_named(self, name: str) -> str | None:
        """The first tool of that name, as the words of the name."""
        entries = (self.entries[number] for number in self.names.get(name, ()))
        return next((entry.name for entry in entries if isinstance(entry, ToolInfo)), None)

    def read(self, chars: int | None = None) -> int:
        """Read on, all or until `chars` characters were read. Returns how many were."""
        done = 0
        for number, entry in self._unread:
            done += self._read(number, entry)
            if chars is not None and done >= chars:
                return done
        self.whole = True
        return done

    def _read(self, number: int, entry: Entry) -> int:
        fields = list(fields_of(entry))
        name, *texts = (words(field.text) for field in fields)
        topic = words(fields[1].text[:MAX_TOPIC_LEN])
        self.names[" ".join(name)].append(number)
        self.topic.update(_with_groups({*name, *topic}))
        weights: dict[str, float] = defaultdict(float)
        for field, found in zip(fields, (name, *texts), strict=True):
            for word in found:
                weights[word] += field.weight
        for word in self._name:
            weights[word] += _SERVER
        held_back = _K1 * (1 - _B + _B * sum(weights.values()) / _USUAL_LEN)
        for word, weight in list(weights.items()):
            for group in groups_of(word):
                weights[group] += weight
        for word, weight in weights.items():
            worth = round(weight * (_K1 + 1) / (weight + held_back), 2)
            self.postings[word] += (number, self._shared.setdefault(worth, worth))
        return sum(len(field.text) for field in fields)


def index_of(server: str, catalogue: Catalogue) -> ServerIndex:
    """The index that is kept with a catalogue, as far as it has been read."""
    kept: dict[str, ServerIndex] = catalogue.__dict__
    if "search" not in kept:
        kept["search"] = ServerIndex(server, catalogue)
    return kept["search"]


def read_index(server: ServerInfo) -> ServerIndex:
    """The whole index of a server that has listed; what has not been read of it is read now."""
    index = index_of(server.name, server.catalogue or Catalogue(generation=0))
    if not index.whole:
        index.read()
    return index


def indexed(servers: Iterable[ServerInfo], chars: int) -> list[ServerInfo]:
    """The servers whose indices are whole, after reading on by about `chars` characters at most."""
    found = []
    for server in servers:
        if server.catalogue is not None:
            index = index_of(server.name, server.catalogue)
            if not index.whole and chars > 0:
                chars -= index.read(chars)
            if index.whole:
                found.append(server)
    return found


def _with_groups(found: Iterable[str]) -> set[str]:
    return set(found).union(*map(groups_of, found))


def _entries_of(catalogue: Catalogue) -> Iterator[Entry]:
    yield from catalogue.tools.values()
    skills = {skill.uri for skill in catalogue.skills}
    yield from (item for uri, item in catalogue.resources.items() if uri not in skills)
    yield from catalogue.templates
    yield from catalogue.prompts
    yield from catalogue.skills


def fields_of(entry: Entry) -> Iterator[Field]:
    """The texts of an entry that are searched: its name, what it says of itself, and more."""
    yield Field("name", _NAME, entry.name[:MAX_TOPIC_LEN])
    title = entry.display_title if isinstance(entry, ToolInfo) else entry.title
    yield Field("description", _TEXT, f"{title or ''} {entry.description or ''}"[:MAX_TEXT_LEN])
    match entry:
        case ToolInfo():
            given = entry.input_schema.get("properties")
            properties = dict(islice(given.items(), MAX_PARAMETERS)) if isinstance(given, dict) else {}
            yield Field("parameters", _PARAMETER, " ".join(map(str, properties))[:MAX_TEXT_LEN])
            said = (each.get("description") for each in properties.values() if isinstance(each, dict))
            described = " ".join(text for text in said if isinstance(text, str))
            yield Field("parameters", _PARAMETER_TEXT, described[:MAX_TEXT_LEN])
        case ResourceInfo() | SkillInfo():
            yield Field("address", _TEXT, entry.uri[:MAX_TEXT_LEN])
        case TemplateInfo():
            yield Field("address", _TEXT, entry.uri_template[:MAX_TEXT_LEN])
        case _:
            arguments = islice(entry.arguments or (), MAX_PARAMETERS)
            names = (each.get("name") for each in arguments if isinstance(each, dict))
            named = " ".join(name for name in names if isinstance(name, str))
            yield Field("parameters", _PARAMETER, named[:MAX_TEXT_LEN])
