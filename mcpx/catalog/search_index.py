"""The search index of one server: in which of its entries each word stands, and what that is worth.

Used by `mcpx.catalog.search` alone. An index is kept with the catalogue that it is made from, so that a
server is read once for each listing, and never again because another one changed. It depends on nothing
else: words are weighed against a fixed length, so that the indices of several servers can be searched as one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from mcpx.catalog.model import Catalogue, PromptInfo, ResourceInfo, ServerInfo, TemplateInfo, ToolInfo
from mcpx.catalog.words import words

Entry = ToolInfo | ResourceInfo | TemplateInfo | PromptInfo

NAME_WEIGHT: Final = 3.0
SERVER_WEIGHT: Final = 2.0
TEXT_WEIGHT: Final = 1.0
PARAMETER_WEIGHT: Final = 0.5
PARAMETER_TEXT_WEIGHT: Final = 0.2
MAX_TEXT_LEN: Final = 2000  # characters of a description, and of all descriptions of a tool's parameters
MAX_TOPIC_LEN: Final = 300  # characters of a description that say what it is about
K1: Final = 1.2  # how soon a repeated word stops counting
B: Final = 0.75  # how much long texts are held back
MEAN_LEN: Final = 40.0  # weighted words of a usual entry


class ServerIndex:
    """The words of one server's catalogue."""

    def __init__(self, server: str, catalogue: Catalogue) -> None:
        self.entries = tuple(entries_of(catalogue))
        self.impacts: dict[str, dict[int, float]] = defaultdict(dict)
        """By word and number of the entry, BM25's weight of the word there."""
        self.names: dict[str, list[int]] = defaultdict(list)
        """The numbers of the entries by name, as the words of the name."""
        self.name = words(server)
        self.topic: Counter[str] = Counter()
        """How often the server as a whole has a word: once for each entry, and more for its own name."""
        for word in self.name:
            self.topic[word] += 3
        for number, entry in enumerate(self.entries):
            self._read(number, entry)
        self.topic_len = self.topic.total()

    def _read(self, number: int, entry: Entry) -> None:
        weights: dict[str, float] = defaultdict(float)
        name = words(entry.name)
        self.names[" ".join(name)].append(number)
        text = f"{entry.title or ''} {entry.description or ''}"
        topic = words(text[:MAX_TOPIC_LEN])
        self.topic.update({*name, *topic})
        for word in name:
            weights[word] += NAME_WEIGHT
        for word in self.name:
            weights[word] += SERVER_WEIGHT
        for word in words(text[:MAX_TEXT_LEN]):
            weights[word] += TEXT_WEIGHT
        for weight, extra in _further(entry):
            for word in words(extra):
                weights[word] += weight
        held_back = K1 * (1 - B + B * sum(weights.values()) / MEAN_LEN)
        for word, weight in weights.items():
            self.impacts[word][number] = weight * (K1 + 1) / (weight + held_back)


def index_of(server: ServerInfo) -> ServerIndex | None:
    """The index of the server's last catalogue, made when it is first searched; None before it has listed."""
    if server.catalogue is None:
        return None
    kept: dict[str, ServerIndex] = server.catalogue.__dict__
    if "search" not in kept:
        kept["search"] = ServerIndex(server.name, server.catalogue)
    return kept["search"]


def entries_of(catalogue: Catalogue) -> Iterator[Entry]:
    """All that a server offers, in the order of its listings."""
    yield from catalogue.tools.values()
    yield from catalogue.resources.values()
    yield from catalogue.templates
    yield from catalogue.prompts


def _further(entry: Entry) -> Iterator[tuple[float, str]]:
    """What else stands in an entry, with its weight."""
    if isinstance(entry, ToolInfo):
        given = entry.input_schema.get("properties")
        properties = given if isinstance(given, dict) else {}
        yield PARAMETER_WEIGHT, " ".join(properties)[:MAX_TEXT_LEN]
        texts = (str(each.get("description", "")) for each in properties.values() if isinstance(each, dict))
        yield PARAMETER_TEXT_WEIGHT, " ".join(texts)[:MAX_TEXT_LEN]
    elif isinstance(entry, ResourceInfo):
        yield TEXT_WEIGHT, entry.uri[:MAX_TEXT_LEN]
    elif isinstance(entry, TemplateInfo):
        yield TEXT_WEIGHT, entry.uri_template[:MAX_TEXT_LEN]
    else:
        arguments = (argument for argument in entry.arguments or () if isinstance(argument, dict))
        names = (str(argument.get("name", "")) for argument in arguments)
        yield PARAMETER_WEIGHT, " ".join(names)[:MAX_TEXT_LEN]
