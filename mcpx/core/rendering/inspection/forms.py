"""The forms in which one tool is shown to the model, by the settings in force. Pure.

Input schemas are TypeScript types, or JSON Schema where types are turned off. What was made of a tool is kept
with it for as long as it is listed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.signatures import first_sentence, line_parts
from mcpx.core.rendering.tokens import estimate
from mcpx.core.rendering.typescript import MAX_CONVERTED_CHARS, SchemaConverter, outweighs, too_large
from mcpx.core.text import cut, paragraphs, visible

MIN_WHOLE_TOKENS: Final = 12  # of a tool in a listing, with the names of its fields
_MAX_LISTED_CHARS: Final = 16_384  # of one schema among others
_MAX_LISTED_JSON_CHARS: Final = 32_768  # of the JSON Schema that it is made from
_SUMMARY_LEN: Final = 100
_SIGNATURE_LEN: Final = 1_000
_CHARS_PER_TOKEN: Final = 4
_MAX_CHARS_PER_TOKEN: Final = 6  # a text with more is not looked at to find out
_HEAVY_JSON_CHARS: Final = 24_576  # of a schema of which one form alone is made: that takes 10 ms
_LONG_TEXT_LEN: Final = 4_000  # characters of a description in an answer that is too long otherwise
_SHORT_TEXT_LEN: Final = 1_000
_SHORT_WORDS_LEN: Final = 80  # of a parameter's description there
_TEXTS: Final = ("name", "title", "description", "shortened")
_HINTS: Final = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open world",
}
_TOO_LONG: Final = "Too long for one answer: descriptions are cut or left out, and the rest where it says so"
_MAX_WORDLESS_DEPTH: Final = 64  # levels of a JSON Schema of which descriptions are cut

Render = Callable[[JSON], str]


class FormSettings(Protocol):
    """The settings of a configuration that forms are made by."""

    @property
    def max_description_len(self) -> int:
        """Characters of a description."""

    @property
    def schema_compression_enabled(self) -> bool:
        """True if parameters are shown as TypeScript."""


class ToolForms:
    """Shows tools by one configuration."""

    def __init__(self, settings: FormSettings) -> None:
        self.settings = settings

    def whole(self, tool: ToolInfo, plain: JSON, *, room: int, render: Render) -> JSON:
        """A tool with all that is known of it, as fully as `room` tokens allow; `shortened` says how not.

        `plain` is the tool for programs; `render` makes the text of what is returned.
        """
        words = min(self.settings.max_description_len, _SHORT_WORDS_LEN)
        if not self.is_heavy(tool):
            if fits(render(shown := self.full(tool, plain)), room):
                return shown
            shorter = _with_short_text(plain, _LONG_TEXT_LEN)
            if fits(render(shown := self._entry(tool, shorter, words, output=True)), room):
                return shown
        shorter = _with_short_text(plain, _SHORT_TEXT_LEN)
        return _with_cut_type(self._entry(tool, shorter, 0, output=False), room, render)

    def is_heavy(self, tool: ToolInfo) -> bool:
        """Return True if a schema of the tool is so large that it takes long to be shown."""
        schemas = tool.input_schema, tool.output_schema
        return any(schema is not None and outweighs(schema, _HEAVY_JSON_CHARS) for schema in schemas)

    def full(self, tool: ToolInfo, plain: JSON) -> JSON:
        """A tool with all that is known of it, however long that is."""
        return self._entry(tool, plain, self.settings.max_description_len, output=True)

    def _entry(self, tool: ToolInfo, plain: JSON, words: int, *, output: bool) -> JSON:
        annotations = plain.get("annotations") or {}
        title = plain.get("title") or annotations.get("title") or ""
        texts = plain | {"title": None if _letters(title) == _letters(tool.name) else title}
        shown: JSON = {name: texts[name] for name in _TEXTS if texts.get(name)}
        shown |= {"name": visible(tool.name), "input_schema": self._schema(tool.input_schema, words)}
        shown |= _hints(annotations)
        if output and tool.output_schema is not None:
            shown["output_schema"] = self._schema(tool.output_schema, words)
        return shown

    # --- a tool among others

    def listed(self, tool: ToolInfo) -> tuple[JSON, int]:
        """A tool as it is shown in a listing, and the tokens that it takes at least."""
        limit = self.settings.max_description_len
        return self._kept(tool, "listed", lambda: (_cut(tool.description or "", limit), limit))

    def brief(self, tool: ToolInfo) -> tuple[JSON, int]:
        """The same with the first sentence alone, and no words about the parameters."""
        return self._kept(tool, "brief", lambda: (first_sentence(tool.description or "", _SUMMARY_LEN), 0))

    def signature(self, tool: ToolInfo) -> JSON:
        """A tool for which there is no room: its signature with types, and its first sentence."""
        shown, summary = line_parts(tool, _SUMMARY_LEN, typed=True, limit=_SIGNATURE_LEN)
        return {"name": visible(tool.name), "description": summary, "signature": shown}

    def _kept(self, tool: ToolInfo, form: str, make: Callable[[], tuple[str, int]]) -> tuple[JSON, int]:
        kept = tool.__dict__.get(form)
        if kept is None or kept[0] is not self.settings:
            description, words = make()
            schema, cost = self._listed_schema(tool.input_schema, words)
            name = visible(tool.name)
            entry = {"name": name, "description": description, "input_schema": schema}
            cost += estimate(name) + estimate(description)
            kept = tool.__dict__[form] = (self.settings, entry, cost)
        _, entry, cost = kept
        return entry, cost

    def _listed_schema(self, schema: JSON, words: int) -> tuple[str | JSON, int]:
        """A schema as it is shown in a listing, and its tokens. Of a long one only the size is shown."""
        if outweighs(schema, _MAX_LISTED_JSON_CHARS):
            text = too_large(schema)
            return text, estimate(text)
        shown = self._schema(schema, words)
        text = shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
        if len(text) > _MAX_LISTED_CHARS:
            return too_large(schema), _MAX_LISTED_CHARS // _CHARS_PER_TOKEN
        return shown, estimate(text)

    def _schema(self, schema: JSON, words: int) -> str | JSON:
        """A schema with at most `words` characters of each description."""
        if not self.settings.schema_compression_enabled:
            if outweighs(schema, MAX_CONVERTED_CHARS):
                return too_large(schema)
            return schema if words >= self.settings.max_description_len else _with_short_words(schema, words)
        text = SchemaConverter.convert(schema, max_description_len=words)
        return too_large(schema) if len(text) > MAX_CONVERTED_CHARS else text


def _hints(annotations: JSON) -> JSON:
    """Return what the server says of the tool's effects: `{hints: "read-only"}`, nothing where it says
    nothing.
    """
    hints = [shown for name, shown in _HINTS.items() if annotations.get(name) is True]
    return {"hints": ", ".join(hints)} if hints else {}


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


def fits(text: str, room: int) -> bool:
    """Return True if a text takes at most `room` tokens; one that is far longer is not looked at."""
    return len(text) <= room * _MAX_CHARS_PER_TOKEN and estimate(text) <= room


def _with_short_text(plain: JSON, limit: int) -> JSON:
    """The tool with the beginning of its description, and `shortened`."""
    text = plain.get("description", "")
    return plain | ({"description": cut(text, limit)} if text else {}) | {"shortened": _TOO_LONG}


def _with_cut_type(shown: JSON, room: int, render: Render) -> JSON:
    """The entry with as much of its input schema, as text, as there is room for."""
    schema = shown["input_schema"]
    text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
    length = min(len(text), room * _CHARS_PER_TOKEN)
    while length and not fits(render(shown), room):
        shown = shown | {"input_schema": f"{text[:length]} ... (cut: {len(text):,} characters in all)"}
        length //= 2
    return shown


def _cut(text: str, limit: int) -> str:
    head = paragraphs(text[: limit + 1])
    return head if len(text) <= limit else head[:limit] + "..."


def _with_short_words(schema: Any, words: int, depth: int = 0) -> Any:
    """A JSON Schema with at most `words` characters of each description."""
    if isinstance(schema, list) and depth <= _MAX_WORDLESS_DEPTH:
        return [_with_short_words(item, words, depth + 1) for item in schema]
    if not isinstance(schema, dict) or depth > _MAX_WORDLESS_DEPTH:
        return schema
    return {
        name: cut(value, words) if _is_text(name, value) else _with_short_words(value, words, depth + 1)
        for name, value in schema.items()
        if words or not _is_text(name, value)
    }


def _is_text(name: str, value: Any) -> bool:
    return name in {"title", "description", "$comment"} and isinstance(value, str)
