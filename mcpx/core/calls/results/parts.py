"""The part of a result that a model gets: the page that fits a limit, or what `select` takes. Pure.

A result can have several texts. They are shown in order, each cut at whole rows or lines
(`mcpx.core.rendering.budget`); where one is cut, the page ends, and its last line says where it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.result_address import PREFIX, SERVER, ResultAddress
from mcpx.core.rendering.budget import FindRows, Unit, cut
from mcpx.core.rendering.json_rows import find_rows
from mcpx.core.rendering.large_results import essentials, is_dense
from mcpx.core.rendering.projection import GENERAL_EXAMPLE, BadExpression, Projected, parse
from mcpx.core.rendering.result_members import is_given, text_block, texts_of
from mcpx.core.rendering.results import ToolResult
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.system.endpoint import CACHED_KEY
from mcpx.errors import CallError, Code, Outcome

_DONE: Final = "The call was carried out: do not repeat it."


class Selectable(msgspec.Struct, frozen=True):
    """The texts whose JSON an expression is applied to, those to keep where it gives nothing, and `_meta`."""

    sources: tuple[str, ...]
    texts: tuple[str, ...]
    meta: JSON | None


class _Members(msgspec.Struct, gc=False):
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=msgspec.Raw())
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw())


def check_expression(expression: str, *, server: str, tool: str | None = None) -> None:
    """Check an expression before anything is sent.

    Raises:
        CallError: `invalid_arguments`: it cannot be parsed.
    """
    try:
        parse(expression)
    except BadExpression as error:
        text = f"select is not a JMESPath expression: {error}\nFor example: {GENERAL_EXAMPLE}"
        details = {"select": str(error), "example": GENERAL_EXAMPLE}
        raise CallError(Code.INVALID_ARGUMENTS, text, server=server, tool=tool, details=details) from None


def selectable(raw: msgspec.Raw, *, server: str) -> Selectable | None:
    """Find what can be selected from the result of a tool: its structured content, else its texts.

    None for a result that is shown as it is: an error of the tool, or a question.

    Raises:
        CallError: `protocol_error`: it is not MCP; `response_too_large`: it is dense, with too many blocks.
    """
    result = essentials(raw, server, dense=is_dense(raw))
    if result is None or result["isError"]:
        return None
    members = msgspec.json.decode(raw, type=_Members)
    said = msgspec.json.decode(members.meta) if CACHED_KEY.encode() in bytes(members.meta) else None
    meta = {CACHED_KEY: said[CACHED_KEY]} if isinstance(said, dict) and CACHED_KEY in said else None
    texts = tuple(texts_of(result["content"]))
    if not is_given(members.structured):
        return Selectable(texts, texts, meta)
    value = str(memoryview(members.structured), "utf-8")
    return Selectable((value,), texts if any(map(may_be_json, texts)) else (*texts, value), meta)


def may_be_json(text: str) -> bool:
    """Return True if a text begins as a JSON object or array does."""
    return text.lstrip(" \t\r\n")[:1] in {"{", "["}


def nothing_selected(projected: Projected, kept_id: str | None, *, after_call: bool = False) -> ToolResult:
    """The answer where a projection failed, or is null or empty: what there is, and how to go on."""
    value = msgspec.json.decode(projected.value)
    problem = projected.problem
    said = f"select failed: {problem}" if problem else f"{msgspec.json.encode(value).decode()}: nothing fits"
    where = _select_again(kept_id)
    text = "\n".join(filter(None, (said, projected.hint, _DONE if after_call else "", where)))
    plain: JSON = {"error": text} if problem else {"result": value}
    return ToolResult(content=[text_block(text)], structured_content=plain, is_error=bool(problem))


def no_turn(late: Exception, kept_id: str | None, server: str) -> CallError:
    """The error for a call whose result waited too long for its turn to be selected from."""
    text = f"select: {late}. {_DONE} {_select_again(kept_id)}".rstrip()
    return CallError(Code.OVERLOADED, text, server=server, outcome=Outcome.UNKNOWN)


def _select_again(kept_id: str | None) -> str:
    return f'Select again: resources("{SERVER}", "{PREFIX}{kept_id}?select=...")' if kept_id else ""


Form = Callable[[str], str]
"""Gives a JSON text the form in which models get it."""

BEGINNING: Final = ResultAddress("")
_LINE_TOKENS: Final = 40  # of the last line, with an address
_ALL: Final = 1 << 40  # tokens of a page without limit
_AIM: Final = 0.88  # of a limit in tokens: `cut` leaves some room, too, but estimates are 17 % off at times
_ROUGHLY: Final = 2048  # characters of a text that are looked at first
_SHRINK: Final = 0.95
_ATTEMPTS: Final = 4  # to stay within a limit in characters


class Limit(msgspec.Struct, frozen=True):
    """The size to which a result is cut: `tokens` as they are estimated (0: all), or `chars` where given.

    The rest is read with the resources tool, or `as_resource` of the protocol.
    """

    tokens: int
    chars: int | None = None
    as_resource: bool = False

    def of_size(self, size: int) -> Limit | None:
        """The limit for so many bytes; None where they are surely within."""
        least = self.tokens if self.chars is None else self.chars
        return self if 0 < least < size else None

    def holds(self, texts: Sequence[str]) -> bool:
        """Return True if texts are within it."""
        if self.chars is not None:
            return sum(map(len, texts)) <= self.chars
        if not self.tokens or sum(map(len, texts)) <= self.tokens:
            return True
        rough = sum(estimate_result(text, sampled_chars=_ROUGHLY) for text in texts)
        if not self.tokens // 2 < rough < self.tokens * 2:
            return rough < self.tokens
        return sum(map(estimate_result, texts)) <= self.tokens


NO_LIMIT: Final = Limit(0)


class Page(msgspec.Struct, frozen=True):
    """Some texts, or the first part of them. Where it `goes_on` is None at the end of the result."""

    texts: tuple[str, ...]
    block: int = 0
    """The block where the page ends, or the next one; the first is 1."""
    start: int = 0
    left: int = 0
    """Rows, lines or characters of that block that are left."""
    unit: Unit = "rows"
    more_texts: int = 0
    """Blocks after it."""

    @property
    def is_last(self) -> bool:
        """True if nothing is left."""
        return not self.left and not self.more_texts

    @property
    def rest(self) -> str:
        """`940 more rows`."""
        rows = f"{self.left} more {self.unit if self.left != 1 else self.unit.removesuffix('s')}"
        texts = f"{self.more_texts} more text{'s' if self.more_texts > 1 else ''}"
        return ", then ".join([*([rows] if self.left else []), *([texts] if self.more_texts else [])])

    def address(self, result_id: str) -> ResultAddress:
        """Return the address at which the result with this id goes on."""
        return ResultAddress(result_id, self.block, self.start, in_characters=self.unit == "characters")


def page_of(
    texts: Sequence[str],
    limit: Limit,
    *,
    at: ResultAddress = BEGINNING,
    form: Form = str,
    find: FindRows = find_rows,
) -> Page:
    """The page that begins at a place in the texts.

    `form` gives JSON its form for models; `find` is for `cut`.

    Raises:
        CallError: `invalid_arguments`: there is nothing at that place.
    """
    if limit.chars is None:
        return _page(texts, limit.tokens or _ALL, at, form, find)
    size = sum(map(len, texts))
    tokens = sum(map(estimate_result, texts)) * min(1.0, limit.chars / max(1, size))
    for _ in range(_ATTEMPTS):
        page = _page(texts, max(1, int(tokens)), at, form, find)
        found = sum(map(len, page.texts))
        if found <= limit.chars:
            break
        tokens *= _SHRINK * limit.chars / found
    return page


def _page(texts: Sequence[str], tokens: int, at: ResultAddress, form: Form, find: FindRows) -> Page:
    if at.block > len(texts):
        raise _nothing_there(f"the result has {len(texts)} texts, and block {at.block} is asked for")
    room = max(int(tokens * _AIM) - _LINE_TOKENS, tokens // 2)
    start = at.start
    unit: Unit | None = "characters" if at.in_characters else None
    shown: list[str] = []
    for number in range(at.block, len(texts) + 1):
        part = cut(texts[number - 1], room, start=start, count=at.count, unit=unit, form=form, find=find)
        if start and start >= part.total:
            raise _nothing_there(f"it has {part.total} {part.unit}, counted from 0, and from={start}")
        shown.append(part.text)
        room -= estimate_result(part.text)
        after = len(texts) - number
        if part.remaining:
            return Page(tuple(shown), number, part.end, part.remaining, part.unit, after)
        if after and (at.count is not None or room < _LINE_TOKENS):
            return Page(tuple(shown), number + 1, more_texts=after)
        start, unit = 0, None
    return Page(tuple(shown))


def _nothing_there(problem: str) -> CallError:
    return CallError(Code.INVALID_ARGUMENTS, f"There is nothing at that place: {problem}.", server=SERVER)
