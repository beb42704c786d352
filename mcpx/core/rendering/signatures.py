"""A tool on one line: its signature, with types or without, and the first sentence of its description.

Owns how a tool looks wherever it is not shown whole: in the descriptions, in the answers of inspect and of a
search. Pure; nothing here raises, whatever a server calls its schema, and upstream text stays inside its
line. What is read of a schema is bounded; the rest is `...` or a plain type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeGuard

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.typescript.keywords import TYPES, written_type_of
from mcpx.core.text import cut, one_line, quoted, shown_name

_MAX_PARAMETERS: Final = 50  # in a signature
_MAX_TYPE_LEN: Final = 40  # characters of an enumeration or a union; a longer one is its plain type
_MAX_VALUES: Final = 12  # of an enumeration
_MAX_ALTERNATIVES: Final = 6  # of a union
_LARGE: Final = 2**63  # an integer that takes long to write
_MAX_DEPTH: Final = 4  # references, alternatives and items inside each other
_OBJECT_MEMBERS: Final = ("properties", "additionalProperties", "patternProperties")
_REST: Final = "..."

_SENTENCE: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?](?=\s+[^\sa-z])"  # an end, and a new start after it
    r"|[\u3002\uff01\uff1f]"  # the full-width ends need no space
)
_MARKUP: Final = "#*-> "
_SENTENCE_SEARCH_CHARS: Final = 2000

_DEPRECATION_SEARCH_CHARS: Final = 1000
_DEPRECATED: Final = re.compile(  # a mark of its own at the start of a line or sentence, or said of the tool
    r"(?:\A|\n|[.!?)]\s)(?:[^\w\n]|_){0,8}deprecated"
    r"(?:_?[^\w\s-]|\s+[-\u2013\u2014]|\s+(?:since|in favou?r|use)\b|\s*\Z)"
    r"|\bth(?:is|e) (?:tool|function|method|command|endpoint|operation|action|api) "
    r"(?:is|was|has been) (?:now |being )?deprecated\b",
    re.IGNORECASE,
)
_MARK: Final = re.compile(r"(?:^|[./])deprecated$")
_DEPRECATED_TITLE: Final = re.compile(
    r"[(\[]\W?deprecated(?:\W?[)\]]|[,:;.]|\s+(?:since|in|use)\b)", re.IGNORECASE
)


def signature(tool: ToolInfo, *, typed: bool = False, limit: int | None = None) -> str:
    """`read_file(path, head?, tail?)`, typed `git_log(repo_path: string, max_count?: integer)`.

    Required parameters come first. `limit` is the most characters up to the closing parenthesis, as long as
    the name leaves room: parameters that do not fit are `...`, as are those that the schema does not name
    outright. `(deprecated)` follows where it applies.
    """
    mark = " (deprecated)" if is_deprecated(tool) else ""
    name = shown_name(tool.name)
    shown = _parameters(tool, typed)
    if limit is not None:
        shown = _within(shown, limit - len(name) - len("()"))
    return f"{name}({', '.join(shown)}){mark}"


def described_parameters(tool: ToolInfo) -> list[tuple[str, str]]:
    """Each parameter as in a typed signature, required ones first, and its description on one line."""
    named = tool.input_schema.get("properties")
    if not isinstance(named, dict):
        return []
    shown = _parameters(tool, typed=True)
    schemas = [named[name] for name in _ordered(named, tool.input_schema)]
    texts = [each.get("description") if isinstance(each, dict) else None for each in schemas]
    return [
        (parameter, one_line(text) if isinstance(text, str) else "")
        for parameter, text in zip(shown, texts, strict=False)
    ]


def line_parts(
    tool: ToolInfo, summary: int, *, typed: bool = False, limit: int | None = None
) -> tuple[str, str]:
    """Return a tool's signature, and its first sentence in at most `summary` characters."""
    text = first_sentence(tool.description or tool.display_title or "", summary)
    return signature(tool, typed=typed, limit=limit), text


def first_sentence(text: str, limit: int) -> str:
    """Return the first sentence of the first line that has text, on one line, without its full stop, cut."""
    lines = (one_line(line).lstrip(_MARKUP) for line in text[:_SENTENCE_SEARCH_CHARS].splitlines())
    line = next(filter(None, lines), "")
    return cut(_SENTENCE.split(line, maxsplit=1)[0].rstrip(".\u3002"), limit)


def sentences(text: str, limit: int) -> str:
    """Return the whole sentences of a line that fit into `limit` characters, with `...` where there are more.

    A line whose first sentence does not fit is cut inside it.
    """
    if len(text) <= limit:
        return text
    ends = [found.end() for found in _SENTENCE.finditer(text[: limit + 2]) if found.end() <= limit]
    return f"{text[: ends[-1]]} ..." if ends else cut(text, limit)


def in_order(tools: Iterable[ToolInfo]) -> list[ToolInfo]:
    """The tools by name, deprecated ones last: the same order however the server listed them."""
    return sorted(tools, key=lambda tool: (is_deprecated(tool), tool.name))


def is_deprecated(tool: ToolInfo) -> bool:
    """Return True if the server calls the tool deprecated, in annotations, `_meta`, title or description."""
    known = tool.__dict__.get("deprecated")
    if known is None:
        known = tool.__dict__["deprecated"] = _says_deprecated(tool)
    return bool(known)


def _says_deprecated(tool: ToolInfo) -> bool:
    if any(map(_marked, (tool.annotations, tool.meta, tool.input_schema))):
        return True
    own = tool.annotations.get("title") if tool.annotations else None
    titles, text = [title for title in (tool.title, own) if _mentions(title)], tool.description
    texts = [*titles, text] if _mentions(text) else titles
    return any(_DEPRECATED_TITLE.search(_beginning(title)) for title in titles) or any(
        _DEPRECATED.search(_beginning(said)) for said in texts if said
    )


def _mentions(text: object) -> TypeGuard[str]:
    """True if it is a text with the word in it: nearly none is, and the patterns take ten times as long."""
    return isinstance(text, str) and "deprecated" in _beginning(text).lower()


def _beginning(text: str) -> str:
    return text[:_DEPRECATION_SEARCH_CHARS]


def _marked(said: JSON | None) -> bool:
    """Return True if an object has a member `deprecated`, or `example.com/deprecated`, that is set."""
    return any(
        name.endswith("deprecated") and value and value != "false" and _MARK.search(name)
        for name, value in (said or {}).items()
    )


def _parameters(tool: ToolInfo, typed: bool) -> list[str]:  # noqa: FBT001
    """Each parameter as it is shown, required ones first; made once for each tool."""
    known: dict[bool, list[str]] = tool.__dict__.setdefault("parameters", {})
    if typed not in known:
        known[typed] = _made(tool.input_schema, typed)
    return known[typed]


def _made(schema: JSON, typed: bool) -> list[str]:  # noqa: FBT001
    named = schema.get("properties")
    if not isinstance(named, dict) or not named:
        hidden = {"$ref", "allOf", "anyOf", "oneOf", "patternProperties"} & schema.keys()
        return [_REST] if hidden else []
    needed = _required(schema)
    shown = []
    for name in islice(_ordered(named, schema), _MAX_PARAMETERS):
        optional = name not in needed
        kind = _type(named[name], schema, nullable=not optional) if typed else ""
        shown.append(shown_name(name) + "?" * optional + (f": {kind}" if kind else ""))
    return [*shown, _REST] if len(named) > _MAX_PARAMETERS else shown


def _required(schema: JSON) -> set[str]:
    listed = schema.get("required")
    return {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()


def _ordered(named: JSON, schema: JSON) -> list[str]:
    """The parameters, required ones first."""
    needed = _required(schema)
    return sorted(named, key=lambda name: name not in needed)


def _within(shown: list[str], room: int) -> list[str]:
    """The first parameters that fit into `room` characters, and `...` for the others."""
    if len(", ".join(shown)) <= room:
        return shown
    fitting = []
    room -= len(_REST)
    for parameter in shown:
        room -= len(parameter) + len(", ")
        if room < 0:
            break
        fitting.append(parameter)
    return [*fitting, _REST]


def _type(schema: object, root: JSON, *, nullable: bool, depth: int = 0) -> str:
    """The type of a value: `string`, `integer[]`, `"a"|"b"`, `string|null`; empty where anything goes.

    Null is left out of an optional parameter's type: such a parameter is left out itself.
    """
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return ""
    if "$ref" in schema:
        return _type(_referred(schema["$ref"], root), root, nullable=nullable, depth=depth + 1)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        return _enumeration(values, nullable=nullable)
    for keyword in ("anyOf", "oneOf", "allOf"):
        several = schema.get(keyword)
        if isinstance(several, list) and several and (keyword != "allOf" or len(several) == 1):
            return _alternatives(several, root, nullable=nullable, depth=depth)
    named = schema.get("type")
    if named is None:
        named = "object" if any(map(schema.__contains__, _OBJECT_MEMBERS)) else "array" * ("items" in schema)
    types = named if isinstance(named, list) else [named]
    known = [kind for kind in types if isinstance(kind, str) and kind in TYPES]
    kinds = [_array(schema, root, depth) if kind == "array" else kind for kind in known]
    return _union(kinds, nullable=nullable)


def _alternatives(several: list[Any], root: JSON, *, nullable: bool, depth: int) -> str:
    if all(isinstance(one, dict) and "const" in one for one in several):
        return _enumeration([one["const"] for one in several], nullable=nullable)
    some = islice(several, _MAX_ALTERNATIVES + 1)
    return _union([_type(one, root, nullable=True, depth=depth + 1) for one in some], nullable=nullable)


def _array(schema: JSON, root: JSON, depth: int) -> str:
    item = _type(schema.get("items"), root, nullable=True, depth=depth + 1) or "any"
    return f"({item})[]" if "|" in item else f"{item}[]"


def _union(kinds: list[str], *, nullable: bool) -> str:
    """The alternatives with `|`, each once; `any` where there are too many."""
    if "" in kinds:
        return ""
    different = [kind for kind in dict.fromkeys(kinds) if nullable or kind != "null" or len(kinds) == 1]
    text = "|".join(different)
    too_long = len(different) > _MAX_ALTERNATIVES or len(text) > _MAX_TYPE_LEN
    return "any" if too_long and len(different) > 1 else text


def _enumeration(values: list[Any], *, nullable: bool) -> str:
    """The values as JSON while they are short, else the type that they share."""
    kinds = [written_type_of(value) for value in islice(values, _MAX_VALUES + 1)]
    if len(values) <= _MAX_VALUES and not {"object", "array"} & set(kinds):
        shown = [_value(value) for value in values if nullable or value is not None]
        text = "|".join(shown)
        if len(text) <= _MAX_TYPE_LEN:
            return text
    return _union(kinds, nullable=nullable)


def _value(value: Any) -> str:
    """A plain value as JSON; cut where that is too long to be shown."""
    if isinstance(value, str):
        return quoted(value[: _MAX_TYPE_LEN + 1])
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    return repr(value) if isinstance(value, float) or abs(value) < _LARGE else "integer"


def _referred(reference: object, root: JSON) -> object:
    """Return what a reference inside the schema (`#/$defs/Name`) leads to; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: object = root
    for part in reference[2:].split("/", _MAX_DEPTH):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
