"""Reading one entry of a server's lists into the catalogue's struct. Pure.

What the official clients accept is accepted. A member that the entry needs (its name or URI, its schema, its
texts) must be as the protocol says, else the entry is invalid; one that only adorns it (icons, annotations, a
size) is dropped where it is not: clients that check would refuse the whole list for it. Members of the
protocol that are null count as absent, unknown ones are kept as they are, at all levels, and texts are cut at
`MAX_TEXT_CHARS`. The rule for each member is in one table; the names of the fields and members are the
catalogue's (`Entry.members`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

from mcpx.core.catalog.model import JSON, Entry, PromptInfo, ResourceInfo, SkillInfo, TemplateInfo, ToolInfo

MAX_TEXT_CHARS: Final = 64 * 1024  # of a description, a title or the instructions
MAX_NAME_CHARS: Final = 128  # the protocol advises no more
MAX_URI_CHARS: Final = 8192
MAX_SIZE_BYTES: Final = 2**53  # a resource that claims to be larger has no size
MAX_ORDER_CHARS: Final = 1024  # of the names of an entry's members; an order that is longer is not kept
MAX_SHARED_ORDERS: Final = 64

_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_THEMES: Final = frozenset({"light", "dark"})
_TASK_SUPPORT: Final = frozenset({"forbidden", "optional", "required"})
DYNAMIC: Final = "dynamic"
_ROLES: Final = frozenset({"user", "assistant"})

E = TypeVar("E", bound=Entry)
Rule = Callable[[Any, str, list[str]], Any]
"""Makes the value of a field from a member's value and name; adds to the list what it cut.

Raises:
    InvalidEntry: The entry needs the member, and cannot be used with this value.
"""


class InvalidEntry(ValueError):
    """An entry cannot be used. The text completes the sentence "left out: ..."."""


def read_entry(kind: type[E], server: str, entry: JSON) -> tuple[E, list[str]]:
    """Build the struct of an entry. Returns it with a sentence for each text that was cut.

    Raises:
        InvalidEntry: The entry cannot be used.
    """
    rules, cuts = _RULES[kind], list[str]()
    fields = {field: rules[member](entry.get(member), member, cuts) for field, member in kind.members()}
    more = {member: value for member, value in entry.items() if member not in rules}
    return kind(server_name=server, more=more or None, order=_order_of(entry), **fields), cuts


def _order_of(entry: JSON) -> tuple[str, ...]:
    return _shared(tuple(entry)) if sum(map(len, entry)) <= MAX_ORDER_CHARS else ()


@lru_cache(maxsize=MAX_SHARED_ORDERS)
def _shared(order: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for all entries with the same members: most of a server's have."""
    return order


# --- members that must be right


def _text(value: Any, member: str, cuts: list[str]) -> str | None:
    """A text for display, cut where it is too long."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEntry(f"its {member} is not a text")
    if len(value) > MAX_TEXT_CHARS:
        cuts.append(f"its {member} was cut: {MAX_TEXT_CHARS:,} of {len(value):,} characters are kept")
    return value[:MAX_TEXT_CHARS]


def _identifier(limit: int) -> Rule:
    """A text that names the entry, and so must be whole."""

    def rule(value: Any, member: str, _cuts: list[str]) -> str:
        text = _required_text(value, member)
        if len(text) > limit:
            raise InvalidEntry(f"its {member} has {len(text):,} characters; MCPX takes {limit:,}")
        return text

    return rule


def _label(value: Any, member: str, cuts: list[str]) -> str:
    """A name that is only displayed."""
    text = _required_text(value, member)
    if len(text) > MAX_NAME_CHARS:
        cuts.append(f"its {member} was cut: {MAX_NAME_CHARS} of {len(text):,} characters are kept")
    return text[:MAX_NAME_CHARS]


def _required_text(value: Any, member: str) -> str:
    if not isinstance(value, str):
        raise InvalidEntry(f"it has no {member}" if value is None else f"its {member} is not a text")
    return value


def _object(value: Any, member: str, _cuts: list[str]) -> JSON | None:
    if value is not None and not isinstance(value, dict):
        raise InvalidEntry(f"its {member} is not an object")
    return value


def _required_object(value: Any, member: str, cuts: list[str]) -> JSON:
    found = _object(value, member, cuts)
    if found is None:
        raise InvalidEntry(f"it has no {member}")
    return found


def _arguments(value: Any, member: str, cuts: list[str]) -> list[JSON] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise InvalidEntry(f"its {member} are not a list")
    return [_argument(each, cuts) for each in value]


def _argument(value: Any, cuts: list[str]) -> JSON:
    if not isinstance(value, dict):
        raise InvalidEntry("an argument of it is not an object")
    own_cuts: list[str] = []
    rules = {"name": _identifier(MAX_TEXT_CHARS), "title": _text, "description": _text}
    texts = {member: rule(value.get(member), member, own_cuts) for member, rule in rules.items()}
    cuts += [cut.replace("its", "an argument's", 1) for cut in own_cuts]
    return _valid(
        {name: texts.get(name, each) for name, each in value.items()},
        **dict.fromkeys(rules, _is_given),
        required=lambda each: isinstance(each, bool),
    )


def _manifest(value: Any, member: str, _cuts: list[str]) -> list[JSON] | str:
    """The files of a skill, or the word for one whose files change."""
    if value == DYNAMIC:
        return DYNAMIC
    if not isinstance(value, list):
        raise InvalidEntry(f"its {member} are neither a list of files nor {DYNAMIC!r}")
    if not all(isinstance(each, dict) and isinstance(each.get("uri"), str) for each in value):
        raise InvalidEntry("a file of it has no uri")
    return value


# --- members that are dropped where they are not right


def _size(value: Any, _member: str, _cuts: list[str]) -> int | None:
    return int(value) if _is_number(value) and 0 <= value <= MAX_SIZE_BYTES else None


def _meta(value: Any, _member: str, _cuts: list[str]) -> JSON | None:
    return value if isinstance(value, dict) else None


def _icons(value: Any, _member: str, _cuts: list[str]) -> list[JSON] | None:
    """The icons that can be displayed."""
    return [icon for each in value if (icon := _icon(each))] if isinstance(value, list) else None


def _icon(value: Any) -> JSON | None:
    if not isinstance(value, dict) or not isinstance(value.get("src"), str):
        return None
    sizes = value.get("sizes")
    if isinstance(sizes, str):  # as in web pages, and in early drafts of the protocol
        sizes = sizes.split()
    return _valid(
        {name: sizes if name == "sizes" else each for name, each in value.items()},
        mimeType=_is_text,
        sizes=_is_list_of(lambda each: isinstance(each, str)),
        theme=_is_one_of(_THEMES),
    )


def _tool_annotations(value: Any, _member: str, _cuts: list[str]) -> JSON | None:
    """Hints about a tool's behaviour; one that is not a boolean is dropped."""
    if not isinstance(value, dict):
        return None
    return _valid(value, title=_is_text, **dict.fromkeys(_HINTS, lambda each: isinstance(each, bool)))


def _execution(value: Any, _member: str, _cuts: list[str]) -> JSON | None:
    return _valid(value, taskSupport=_is_one_of(_TASK_SUPPORT)) if isinstance(value, dict) else None


def _annotations(value: Any, _member: str, _cuts: list[str]) -> JSON | None:
    if not isinstance(value, dict):
        return None
    return _valid(
        value,
        audience=_is_list_of(_is_one_of(_ROLES)),
        priority=lambda each: _is_number(each) and 0 <= each <= 1,
        lastModified=_is_text,
    )


def _valid(members: JSON, **tests: Callable[[Any], bool]) -> JSON:
    """The members without those that fail their test."""
    return {key: each for key, each in members.items() if key not in tests or tests[key](each)}


def _is_given(value: Any) -> bool:
    return value is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT_CHARS


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _is_one_of(names: frozenset[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


_NAME: Final = _identifier(MAX_NAME_CHARS)
_URI: Final = _identifier(MAX_URI_CHARS)
_COMMON: Final[dict[str, Rule]] = {"description": _text, "title": _text, "icons": _icons, "_meta": _meta}
_OF_RESOURCES: Final[dict[str, Rule]] = {
    **_COMMON,
    "name": _label,
    "mimeType": _text,
    "annotations": _annotations,
}
_RULES: Final[dict[type[Entry], dict[str, Rule]]] = {
    ToolInfo: {
        **_COMMON,
        "name": _NAME,
        "inputSchema": _required_object,
        "outputSchema": _object,
        "annotations": _tool_annotations,
        "execution": _execution,
    },
    ResourceInfo: {**_OF_RESOURCES, "uri": _URI, "size": _size},
    TemplateInfo: {**_OF_RESOURCES, "uriTemplate": _URI},
    PromptInfo: {**_COMMON, "name": _NAME, "arguments": _arguments},
    SkillInfo: {"uri": _URI, "frontmatter": _required_object, "resources": _manifest, "_meta": _meta},
}
