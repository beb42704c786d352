"""`Document`: one file that is edited in place, JSON with comments, TOML or YAML by one interface.

Owns what is common: bytes and text (UTF-8, UTF-16 with a byte order mark, which stays), and the check that
the file afterwards holds exactly what was meant; where it does not, the document stays as it was, and the
edit is an error. Everything that was not named stays: comments, order, indentation, line ends. Pure. The
library of a syntax is imported when a file of that syntax is edited.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, Literal, Protocol

from mcpx.core.text.jsonc import BOM
from mcpx.setup.documents import DocumentError, value_at

Syntax = Literal["json", "toml", "yaml"]

Path = Sequence[str | int]
"""The keys from the outermost object inwards; a number is the index of an item of a list."""

_EMPTY: Final = {"json": "{}\n", "toml": "", "yaml": ""}


class _Editor(Protocol):
    """The edits of a syntax, on text; each raises `DocumentError`."""

    def read(self, text: str) -> Any: ...

    def set_value(self, text: str, path: Path, value: Any) -> str: ...

    def append_item(self, text: str, path: Path, value: Any) -> str: ...

    def remove_value(self, text: str, path: Path) -> str: ...


class Document:
    """A file while it is edited: `value` is what it holds as plain Python, `data` its bytes.

    Raises:
        DocumentError: The file is not understood.
    """

    def __init__(self, data: bytes, syntax: Syntax) -> None:
        editor: Any = import_module(f"mcpx.setup.documents.{syntax}_edits")
        self._editor: _Editor = editor
        self._text, self._encoding = _decoded(data, syntax)
        self.value = self._editor.read(self._text)
        self.data = data

    def set(self, path: Path, value: Any) -> None:
        """Replace the value at a path, or add it behind its siblings with the objects above it.

        Raises:
            DocumentError: The path leads through something that is no object.
        """
        meant = _with(self.value, path, value)
        if not _equal(self.value, meant):
            self._take(_set(self._editor, self._text, path, value_at(self.value, path), value), [meant])

    def append(self, path: Path, value: Any) -> None:
        """Add one more item at the end of the list at a path, which is made if there is none.

        Raises:
            DocumentError: Something else than a list is there.
        """
        items = value_at(self.value, path)
        if not isinstance(items, list | None):
            raise DocumentError(f"{'.'.join(map(str, path)) or 'the whole file'} is not a list")
        meant = _with(self.value, path, [*(items or ()), value])
        self._take(self._editor.append_item(self._text, path, value), [meant])

    def rename(self, path: Path, key: str) -> None:
        """Give the member at a path another key, in the place that it has. Of JSON alone.

        Raises:
            DocumentError: The object has such a key already, or this is another syntax.
        """
        parent = value_at(self.value, path[:-1])
        if not _has(self.value, path) or key in parent or not hasattr(self._editor, "rename_key"):
            raise DocumentError(f"{path[-1]} cannot be renamed")
        renamed = {key if each == path[-1] else each: value for each, value in parent.items()}
        meant = _with(self.value, path[:-1], renamed)
        self._take(self._editor.rename_key(self._text, path, key), [meant])

    def remove(self, path: Path) -> None:
        """Remove the member or item at a path, if there is one.

        Raises:
            DocumentError: It cannot be taken out of the text.
        """
        if not _has(self.value, path):
            return
        edited, meant = self._editor.remove_value(self._text, path), [_without(self.value, path)]
        while len(path) > 1 and not value_at(meant[-1], path := path[:-1]):
            meant.append(_without(self.value, path))  # a table of TOML is gone with the last one inside it
        self._take(edited, meant)

    def _take(self, text: str, meant: list[Any]) -> None:
        """Go on with an edited text, if it holds what was meant, in one of its forms."""
        value: Any = None
        with suppress(DocumentError):
            value = self._editor.read(text)
        if not any(_equal(value, each) for each in meant):
            raise DocumentError("this file is written in a way that cannot be edited safely; edit it by hand")
        self._text, self.value = text, value
        self.data = (BOM + text if self._encoding.startswith("utf-16") else text).encode(self._encoding)


def read(data: bytes, syntax: Syntax) -> Any:
    """Return the value of a file as plain Python; an empty file is an empty object.

    Raises:
        DocumentError: The file is not understood.
    """
    return Document(data, syntax).value


def _set(editor: _Editor, text: str, path: Path, before: Any, value: Any) -> str:
    """The text with another value at a path; an object changes key by key, so that its comments stay."""
    if not (value and before and isinstance(value, dict) and isinstance(before, dict)):
        return editor.set_value(text, path, value)
    for key, each in value.items():
        if key not in before or not _equal(before[key], each):
            text = _set(editor, text, (*path, key), before.get(key), each)
    for key in before.keys() - value.keys():
        text = editor.remove_value(text, (*path, key))
    return text


def _decoded(data: bytes, syntax: Syntax) -> tuple[str, str]:
    """The text of a file, and its encoding; the mark at the start is the encoding's, not the text's."""
    utf_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(data[:2])
    encoding = utf_16 or ("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8")
    try:
        text = data.decode(encoding).removeprefix(BOM)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise DocumentError("this is not text in UTF-8", line, column) from None
    return (text if text.strip() else text + _EMPTY[syntax]), encoding


def _has(value: Any, path: Path) -> bool:
    """Return True if there is a value at a path, which has a step at least."""
    parent = value_at(value, path[:-1])
    step = path[-1]
    if isinstance(step, int):
        return isinstance(parent, list) and 0 <= step < len(parent)
    return isinstance(parent, dict) and step in parent


def _with(value: Any, path: Path, new: Any) -> Any:
    """A value with another one at a path."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, str) and isinstance(value, dict | None):
        return {**(value or {}), step: _with((value or {}).get(step), rest, new)}
    if isinstance(step, int) and isinstance(value, list) and 0 <= step < len(value):
        return [*value[:step], _with(value[step], rest, new), *value[step + 1 :]]
    expected = "an object" if isinstance(step, str) else f"a list with an item {step}"
    raise DocumentError(f"{step} cannot be set: what is above it is not {expected}")


def _without(value: Any, path: Path) -> Any:
    """A value without what is at a path, which is there."""
    step, rest = path[0], path[1:]
    if rest:
        return _with(value, (step,), _without(value[step], rest))
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key != step}
    return [each for index, each in enumerate(value) if index != step]


def _equal(one: Any, other: Any) -> bool:
    """Return True if two values are the same as JSON: `True` is not `1`, the order of keys does not count."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
