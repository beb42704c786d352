"""What `select` takes its part of, and what is said where there is no such part. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.result_address import PREFIX, SERVER
from mcpx.core.rendering.content import text_block, texts_of
from mcpx.core.rendering.large_results import essentials, is_dense
from mcpx.core.rendering.projection import GENERAL_EXAMPLE, BadExpression, Projected, parse
from mcpx.core.rendering.result_members import is_given
from mcpx.core.rendering.results import ToolResult
from mcpx.errors import CallError, Code, Outcome

_DONE: Final = "The call was carried out: do not repeat it."


class Selectable(msgspec.Struct, frozen=True):
    """The texts whose JSON an expression is applied to, and those to keep where it gives nothing."""

    sources: tuple[str, ...]
    texts: tuple[str, ...]


class _Structured(msgspec.Struct, gc=False):
    value: msgspec.Raw = msgspec.field(name="structuredContent", default=msgspec.Raw())


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
    """What can be selected from the result of a tool: its structured content, else its texts.

    None for a result that is shown as it is: an error of the tool, or a question.

    Raises:
        CallError: `protocol_error`: it is not MCP; `response_too_large`: it is dense, with too many blocks.
    """
    result = essentials(raw, server, dense=is_dense(raw))
    if result is None or result["isError"]:
        return None
    structured = msgspec.json.decode(raw, type=_Structured).value
    texts = tuple(texts_of(result["content"]))
    if not is_given(structured):
        return Selectable(texts, texts)
    value = str(memoryview(structured), "utf-8")
    return Selectable((value,), texts if any(map(may_be_json, texts)) else (*texts, value))


def may_be_json(text: str) -> bool:
    """Whether a text begins as a JSON object or array does."""
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
