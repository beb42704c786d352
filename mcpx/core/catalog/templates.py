"""Matching URIs against resource templates (RFC 6570). Pure, in time linear in the URI.

Theory: nothing here backtracks. A template is cut into literals and variables. Each literal is searched for
once, from the end of the one before it, and the text between is the variable's value. With one variable that
may span path segments (`{+path}`, `{/a*}`: a wide one) the part behind it is matched from the end of the URI.
Of two such variables the literal between them decides where the first ends.

As lenient as RFC 6570 allows: a query (`{?q}`) may be absent, partial, or in any order; adjacent variables
count as one; and a variable may hold here whatever it may hold there (`{+url}` any URI at all).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

MAX_TEMPLATE_CHARS: Final = 8192  # as in the SDK's own matching
MAX_EXPRESSIONS: Final = 64  # a template with more matches nothing; real ones have fewer than ten
MAX_WORK_CHARS: Final = 1_000_000  # examined for one URI over all templates of a server: about 10 ms
_TEMPLATE_COST_CHARS: Final = 200  # the fixed cost of one template, expressed in characters

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_QUERY: Final = re.compile(r"\{\?[^{}]*\}")
_STOPS: Final = {"": "/?#", ".": "/?#", "/": "/?#", ";": "/?#;", "&": "#"}
"""By operator: the characters that end the value of a variable that is not wide."""
_LEADS: Final = {".": ".", "/": "/", ";": ";"}
"""By operator: the text before its first value. A fragment (`{#x}`) and `{&x}` may be absent altogether."""


class _Variable(msgspec.Struct, frozen=True):
    """Any text without the characters of `stops`. Without stops it is wide: it may span path segments."""

    stops: str


_Part = str | _Variable


class Template(msgspec.Struct, frozen=True):
    """A compiled template: its parts before and behind the first wide variable, in reading order.

    `tail` is None where there is no wide variable.
    """

    head: tuple[_Part, ...]
    tail: tuple[_Part, ...] | None
    has_query: bool

    def matches(self, uri: str) -> bool:
        """Return True if `uri` may be an expansion of the template."""
        if self.has_query:
            uri = uri.partition("#")[0].partition("?")[0]
        if self.tail is None:
            return _scan(self.head, uri, whole=True) is not None
        taken = _scan(self.head, uri, whole=False)
        return taken is not None and self._tail_matches(uri[taken:])

    def _tail_matches(self, rest: str) -> bool:
        """Return True if `rest` ends in the tail; the wide variable takes what is left before it.

        Where the tail has wide variables too, only the part behind the last of them is anchored; the literals
        before it must follow in order.
        """
        *loose, last = _split_at_wide(self.tail or ())
        backwards = tuple(part[::-1] if isinstance(part, str) else part for part in reversed(last))
        taken = _scan(backwards, rest[::-1], whole=False)
        if taken is None:
            return False
        end, at = len(rest) - taken, 0
        for text in (part for section in loose for part in section if isinstance(part, str)):
            found = rest.find(text, at, end)
            if found < 0:
                return False
            at = found + len(text)
        return True


def matches_any(templates: Iterable[str], uri: str) -> bool:
    """Return True if `uri` may be an expansion of one of the templates.

    The work over all of them is bounded: of very many templates that all begin like the URI, only the first
    are tried.
    """
    work = 0
    for template in templates:
        if len(template) > MAX_TEMPLATE_CHARS or not uri.startswith(_literal_prefix(template)):
            continue
        work += len(template) + len(uri) + _TEMPLATE_COST_CHARS
        if work > MAX_WORK_CHARS:
            return False
        compiled = _compiled(template)
        if compiled is not None and compiled.matches(uri):
            return True
    return False


def _literal_prefix(template: str) -> str:
    brace = template.find("{")
    return template if brace < 0 else template[:brace]


@lru_cache(maxsize=1024)
def _compiled(template: str) -> Template | None:
    """The compiled template; None where it has too many expressions."""
    if template.count("{") > MAX_EXPRESSIONS:
        return None
    query = _QUERY.search(template)
    has_query = query is not None and not {"?", "#"} & set(template[: query.start()])
    parts = _merged(_parts(template[: query.start()] if query is not None and has_query else template))
    wide = next((i for i, part in enumerate(parts) if part == _Variable("")), None)
    if wide is None:
        return Template(parts, None, has_query)
    return Template(parts[:wide], parts[wide + 1 :], has_query)


def _parts(template: str) -> Iterator[_Part]:
    """Literals and variables in turn. An unmatched brace is an ordinary character."""
    end = 0
    for found in _EXPRESSION.finditer(template):
        yield template[end : found.start()]
        yield from _expression(found[1])
        end = found.end()
    yield template[end:]


def _expression(body: str) -> Iterator[_Part]:
    operator = body[:1] if body[:1] in "+#./;?&" else ""
    if operator not in _STOPS or "*" in body or ":" in body:
        yield _Variable("")
        return
    stops = _STOPS[operator]
    names = body[len(operator) :].split(",")
    if operator in _LEADS:
        for name in names:  # `/a/b`, `;a=1;b=2`
            yield _LEADS[operator] + (name if operator == ";" else "")
            yield _Variable(stops)
    else:
        yield _Variable(stops)  # `a,b` is one value here


def _merged(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    """The parts with neighbours of one kind merged; of two variables, what both may hold."""
    joined: list[_Part] = []
    for part in parts:
        if part == "":
            continue
        last = joined[-1] if joined else None
        if isinstance(last, str) and isinstance(part, str):
            joined[-1] = last + part
        elif isinstance(last, _Variable) and isinstance(part, _Variable):
            joined[-1] = _Variable("".join(char for char in last.stops if char in part.stops))
        else:
            joined.append(part)
    return tuple(joined)


def _split_at_wide(parts: tuple[_Part, ...]) -> list[list[_Part]]:
    """The parts, split at the wide variables."""
    sections: list[list[_Part]] = [[]]
    for part in parts:
        if part == _Variable(""):
            sections.append([])
        else:
            sections[-1].append(part)
    return sections


def _scan(parts: tuple[_Part, ...], text: str, *, whole: bool) -> int | None:
    """The number of characters that the parts match at the start of `text`, each variable as few as it can.

    With `whole` they must match all of it. None where they do not match.
    """
    at = 0
    open_variable: _Variable | None = None
    for index, part in enumerate(parts):
        if isinstance(part, _Variable):
            open_variable = part
            continue
        last = whole and index == len(parts) - 1
        if open_variable is None:
            found = at if text.startswith(part, at) else -1
        elif last:
            found = len(text) - len(part) if text.endswith(part) else -1
        else:
            found = text.find(part, at)
        if found < at or (open_variable and _holds(text, at, found, open_variable.stops)):
            return None
        at, open_variable = found + len(part), None
    if open_variable is not None and whole:
        return None if _holds(text, at, len(text), open_variable.stops) else len(text)
    return None if whole and at != len(text) else at


def _holds(text: str, start: int, end: int, characters: str) -> bool:
    """Return True if one of these characters occurs between the two positions."""
    return any(text.find(character, start, end) >= 0 for character in characters)
