"""Resource templates (RFC 6570): does a URI fit one? Pure, in time linear in the URI.

Nothing here backtracks. A template is cut into fixed texts and variables; each fixed text is looked for once,
from where the one before it ended, and what lies between is the variable's value. With one variable that may
hold several path segments (`{+path}`, `{/a*}`) the part behind it is matched from the end of the URI. Of two
such variables the text between them decides where the first ends.

As lenient as RFC 6570 allows: a query (`{?q}`) may be absent, partial, or in any order, variables that stand
side by side count as one, and whatever a variable may hold (`{+url}` any URI at all) it may hold here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

LONGEST_TEMPLATE: Final = 8192  # characters; as in the SDK's own matching
MOST_EXPRESSIONS: Final = 64  # a template with more fits nothing; real ones have fewer than ten
MOST_WORK: Final = 1_000_000  # characters looked at for one URI among all templates of one server: some 10 ms
_PER_TEMPLATE: Final = 200  # what one template costs beside its characters, in characters

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_QUERY: Final = re.compile(r"\{\?[^{}]*\}")
_STOPS: Final = {"": "/?#", ".": "/?#", "/": "/?#", ";": "/?#;", "&": "#"}
"""By operator: the characters that end a value which is no multi-segment one."""
_LEADS: Final = {".": ".", "/": "/", ";": ";"}
"""By operator: the text in front of its first value. A fragment (`{#x}`) and `{&x}` may be absent whole."""


class _Variable(msgspec.Struct, frozen=True):
    """Any text without the characters of `stops`; with none of them it may span path segments."""

    stops: str


_Part = str | _Variable


class Template(msgspec.Struct, frozen=True):
    """A template made ready: its parts before and behind the first multi-segment variable.

    `tail` is None where there is no such variable. Both are in reading order.
    """

    head: tuple[_Part, ...]
    tail: tuple[_Part, ...] | None
    has_query: bool

    def fits(self, uri: str) -> bool:
        """Whether `uri` may be an expansion of the template."""
        if self.has_query:
            uri = uri.partition("#")[0].partition("?")[0]
        if self.tail is None:
            return _scan(self.head, uri, whole=True) is not None
        taken = _scan(self.head, uri, whole=False)
        return taken is not None and self._tail_fits(uri[taken:])

    def _tail_fits(self, rest: str) -> bool:
        """Whether `rest` ends in the tail; the multi-segment variable has what is left before it.

        Where the tail has such variables too, only the part behind the last of them is anchored; the texts
        before it must follow in order.
        """
        *loose, last = _divided(self.tail or ())
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


def fits(template: str, uri: str) -> bool:
    """Whether `uri` may be an expansion of the RFC 6570 template."""
    return any_fits((template,), uri)


def any_fits(templates: Iterable[str], uri: str) -> bool:
    """Whether `uri` may be an expansion of one of the templates.

    The work for all of them together is bounded: a server with very many that all begin like the URI is
    asked about the first of them only.
    """
    work = 0
    for template in templates:
        if len(template) > LONGEST_TEMPLATE or not uri.startswith(_beginning(template)):
            continue
        work += len(template) + len(uri) + _PER_TEMPLATE
        if work > MOST_WORK:
            return False
        ready = _ready(template)
        if ready is not None and ready.fits(uri):
            return True
    return False


def _beginning(template: str) -> str:
    brace = template.find("{")
    return template if brace < 0 else template[:brace]


@lru_cache(maxsize=1024)
def _ready(template: str) -> Template | None:
    """The template made ready; None where it has too many expressions."""
    if template.count("{") > MOST_EXPRESSIONS:
        return None
    query = _QUERY.search(template)
    has_query = query is not None and not {"?", "#"} & set(template[: query.start()])
    parts = _joined(_parts(template[: query.start()] if query is not None and has_query else template))
    wide = next((i for i, part in enumerate(parts) if part == _Variable("")), None)
    if wide is None:
        return Template(parts, None, has_query)
    return Template(parts[:wide], parts[wide + 1 :], has_query)


def _parts(template: str) -> Iterator[_Part]:
    """Fixed texts and variables in turn. A brace without its partner is a character like any other."""
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


def _joined(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    """The parts with neighbours of one kind made one; of two variables, what both may hold."""
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


def _divided(parts: tuple[_Part, ...]) -> list[list[_Part]]:
    """The parts, divided at the multi-segment variables."""
    sections: list[list[_Part]] = [[]]
    for part in parts:
        if part == _Variable(""):
            sections.append([])
        else:
            sections[-1].append(part)
    return sections


def _scan(parts: tuple[_Part, ...], text: str, *, whole: bool) -> int | None:
    """How many characters the parts take from the beginning of `text`, each variable as few as it can.

    With `whole` the parts must take everything: the last text is at the end. None where they do not fit.
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
    """Whether one of these characters stands between the two positions."""
    return any(text.find(character, start, end) >= 0 for character in characters)
