"""One entry of a server's lists, as it came, made into the catalogue's struct: pure.

What the official clients take is taken. What an entry needs (its name or URI, its schema, texts that are
texts) must be as the protocol says, else the entry is `Odd`; what only adorns it (icons, annotations, a size)
is dropped where it is not. Members that are null count as absent, unknown ones are ignored. Texts are cut at
`TEXT_MOST` characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from mcpx.catalog.model import JSON, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo, present

TEXT_MOST: Final = 64 * 1024  # characters of a description, a title or the instructions
NAME_MOST: Final = 128  # characters; the protocol advises no more
SIZE_MOST: Final = 2**53  # bytes; what claims to be larger says nothing
URI_MOST: Final = 8192  # characters
ENTRY_MOST: Final = 4 * 1024 * 1024  # bytes of an entry without what was cut off its texts
ENTRY_VALUES_MOST: Final = 200_000  # JSON values in an entry
DEPTH_MOST: Final = 250  # levels of JSON in an entry; the Python SDK takes no more

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\[\s\S])*+"')
_CUT: Final = ("description", "title")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_THEMES: Final = frozenset({"light", "dark"})
_ROLES: Final = frozenset({"user", "assistant"})


class Odd(ValueError):  # noqa: N818 - a condition
    """An entry cannot be used. The text says why, and goes on from "left out:"."""


def decoded(entry: bytes) -> JSON:
    """The entry. Raises Odd."""
    if len(entry) > ENTRY_MOST and _size_without_texts(entry) > ENTRY_MOST:
        raise Odd(f"it has {len(entry):,} bytes; MCPX takes {ENTRY_MOST:,}")
    if values_in(entry) > ENTRY_VALUES_MOST:
        raise Odd(f"it has over {ENTRY_VALUES_MOST:,} JSON values in it")
    try:
        value = _loads(entry)
    except RecursionError:
        raise Odd(f"it is nested over {DEPTH_MOST} levels deep") from None
    except ValueError as error:
        raise Odd(f"it cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise Odd("it is not an object")
    if _may_be_deep(entry) and _is_deep(value):
        raise Odd(f"it is nested over {DEPTH_MOST} levels deep")
    return value


def values_in(entry: bytes) -> int:
    """How many JSON values it has at most; exactly, but for keys and for what is far too many."""
    most = _punctuation(entry)
    if most <= ENTRY_VALUES_MOST or entry.count(b'"') - entry.count(b'\\"') > 4 * ENTRY_VALUES_MOST:
        return most
    return _punctuation(_STRING.sub(b"", entry))  # there may be prose in it


def _punctuation(entry: bytes) -> int:
    return 1 + entry.count(b",") + entry.count(b"[") + entry.count(b"{")


def _loads(entry: bytes) -> Any:
    try:
        return msgspec.json.decode(entry)
    except msgspec.DecodeError:  # a number beyond all floats, for one
        return json.loads(entry)


def _may_be_deep(entry: bytes) -> bool:
    return entry.count(b"[") + entry.count(b"{") > DEPTH_MOST


def _is_deep(value: JSON) -> bool:
    level: list[Any] = [value]
    for _ in range(DEPTH_MOST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(outer: Any) -> Iterator[Any]:
    values = outer.values() if isinstance(outer, dict) else outer
    return (value for value in values if isinstance(value, dict | list) and value)


def _size_without_texts(entry: bytes) -> int:
    """Its size in bytes but for the texts that are going to be cut."""
    try:
        members = msgspec.json.decode(entry, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return len(entry)
    return len(entry) - sum(len(memoryview(members[key])) for key in _CUT if key in members)


class _Named(msgspec.Struct):
    name: Any = None
    uri: Any = None
    uri_template: Any = msgspec.field(default=None, name="uriTemplate")


def name_of(entry: bytes, number: int) -> str:
    """What an entry that cannot be used is called: by its own words, else by its place in the list."""
    try:
        named = msgspec.json.decode(entry, type=_Named)
    except (msgspec.DecodeError, RecursionError):
        named = _Named()
    words = (named.name, named.uri, named.uri_template)
    return next((word for word in words if isinstance(word, str) and word), f"entry {number}")


class Reader:
    """Reads the members of one entry; `cuts` says what was too long in it."""

    def __init__(self, entry: JSON) -> None:
        self.entry = entry
        self.cuts: list[str] = []

    def text(self, key: str) -> str | None:
        """A text to be shown, cut; None where there is none. Raises Odd."""
        value = self.entry.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise Odd(f"its {key} is not a text")
        if len(value) <= TEXT_MOST:
            return value
        self.cuts.append(f"its {key} was cut: {TEXT_MOST:,} of {len(value):,} characters are kept")
        return value[:TEXT_MOST]

    def key(self, key: str, most: int) -> str:
        """A text that names the entry, and so must be whole. Raises Odd."""
        value = self.entry.get(key)
        if not isinstance(value, str):
            raise Odd(f"it has no {key}" if value is None else f"its {key} is not a text")
        if len(value) > most:
            raise Odd(f"its {key} has {len(value):,} characters; MCPX takes {most:,}")
        return value

    def label(self) -> str:
        """A name that is only shown. Raises Odd."""
        value = self.entry.get("name")
        if not isinstance(value, str):
            raise Odd("it has no name" if value is None else "its name is not a text")
        if len(value) > NAME_MOST:
            self.cuts.append(f"its name was cut: {NAME_MOST} of {len(value):,} characters are kept")
        return value[:NAME_MOST]

    def object(self, key: str) -> JSON | None:
        """An object, None where there is none. Raises Odd."""
        value = self.entry.get(key)
        if value is not None and not isinstance(value, dict):
            raise Odd(f"its {key} is not an object")
        return value

    def size(self) -> int | None:
        """A size in bytes."""
        value: Any = self.entry.get("size")
        return int(value) if _is_number(value) and 0 <= value <= SIZE_MOST else None

    def meta(self) -> JSON | None:
        """`_meta`, where there is something in it."""
        value = self.entry.get("_meta")
        return value if isinstance(value, dict) and value else None

    def icons(self) -> list[JSON] | None:
        """The icons that can be shown."""
        value = self.entry.get("icons")
        return [icon for each in value if (icon := _icon(each))] if isinstance(value, list) else None


def tool(server: str, read: Reader) -> ToolInfo:
    """A tool. Any object is a schema. Raises Odd."""
    name = read.key("name", NAME_MOST)
    schema = read.object("inputSchema")
    if schema is None:
        raise Odd("it has no inputSchema")
    annotations = _hints(read.entry.get("annotations"))
    title = read.text("title")
    return ToolInfo(
        server_name=server,
        name=name,
        input_schema=schema,
        description=read.text("description"),
        title=title or (annotations or {}).get("title"),
        output_schema=read.object("outputSchema"),
        annotations=annotations,
        icons=read.icons(),
        meta=read.meta(),
    )


def resource(server: str, read: Reader) -> ResourceInfo:
    """A resource. Raises Odd."""
    return ResourceInfo(
        server_name=server,
        uri=read.key("uri", URI_MOST),
        name=read.label(),
        description=read.text("description"),
        mime_type=read.text("mimeType"),
        size=read.size(),
        title=read.text("title"),
        annotations=_annotations(read.entry.get("annotations")),
        icons=read.icons(),
        meta=read.meta(),
    )


def template(server: str, read: Reader) -> TemplateInfo:
    """A resource template. Raises Odd."""
    return TemplateInfo(
        server_name=server,
        uri_template=read.key("uriTemplate", URI_MOST),
        name=read.label(),
        description=read.text("description"),
        mime_type=read.text("mimeType"),
        title=read.text("title"),
        annotations=_annotations(read.entry.get("annotations")),
        icons=read.icons(),
        meta=read.meta(),
    )


def prompt(server: str, read: Reader) -> PromptInfo:
    """A prompt. Raises Odd."""
    return PromptInfo(
        server_name=server,
        name=read.key("name", NAME_MOST),
        description=read.text("description"),
        title=read.text("title"),
        arguments=_arguments(read.entry.get("arguments"), read.cuts),
        icons=read.icons(),
        meta=read.meta(),
    )


def _arguments(value: Any, cuts: list[str]) -> list[JSON] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise Odd("its arguments are not a list")
    return [_argument(each, cuts) for each in value]


def _argument(value: Any, cuts: list[str]) -> JSON:
    if not isinstance(value, dict):
        raise Odd("an argument of it is not an object")
    read = Reader(value)
    texts = {"name": read.key("name", TEXT_MOST), "title": read.text("title")}
    texts["description"] = read.text("description")
    cuts += [cut.replace("its", "an argument's", 1) for cut in read.cuts]
    required = value.get("required")
    known = {**value, **texts, "required": required if isinstance(required, bool) else None}
    return present(**known)


def _icon(value: Any) -> JSON | None:
    if not isinstance(value, dict) or not isinstance(value.get("src"), str):
        return None
    sizes = value.get("sizes")
    if isinstance(sizes, str):  # as in web pages, and in early drafts of the protocol
        sizes = sizes.split()
    return _sound(
        {**value, "sizes": sizes},
        mimeType=_is_text,
        sizes=_is_list_of(lambda each: isinstance(each, str)),
        theme=_is_list_member(_THEMES),
    )


def _hints(value: Any) -> JSON | None:
    """What a tool says of its behaviour: a hint that is no truth value is none."""
    if not isinstance(value, dict):
        return None
    return _sound(value, title=_is_text, **dict.fromkeys(_HINTS, lambda each: isinstance(each, bool)))


def _annotations(value: Any) -> JSON | None:
    if not isinstance(value, dict):
        return None
    return _sound(
        value,
        audience=_is_list_of(_is_list_member(_ROLES)),
        priority=lambda each: _is_number(each) and 0 <= each <= 1,
        lastModified=_is_text,
    )


def _sound(members: JSON, **tests: Callable[[Any], bool]) -> JSON:
    """The members without those that are null or fail their test."""
    return present(**{key: each for key, each in members.items() if key not in tests or tests[key](each)})


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_MOST


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _is_list_member(names: frozenset[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names
