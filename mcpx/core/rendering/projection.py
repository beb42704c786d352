"""A part of a JSON result, chosen by a JMESPath expression. Pure.

`parse` checks an expression before anything is sent; `project` applies it to the JSON texts of a result. How
long that takes depends on both: `is_cheap` says whether it may run on the event loop. What is not cheap runs
in a worker (`mcpx.core.calls.results.large`, which has it do `run`), because functions, comparisons and
repeated multi-selects can make a short expression arbitrarily expensive.

Numbers keep the value that a 64-bit float or an integer of any length has.

`describe` shows in one line how JSON data look, and `example` gives an expression that fits them; bounded.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.text import cut, one_line

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_NAMES: Final = 12
_MAX_NAME_CHARS: Final = 40
_MAX_LEVELS: Final = 3
_EXAMPLE_NAMES: Final = 2
_KINDS: Final = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}


def describe(value: Any, levels: int = _MAX_LEVELS) -> str:
    """`{total: number, items: array of 1,000 {id: number, title: string}}`."""
    if isinstance(value, list):
        return f"array of {len(value):,} {describe(value[0], levels - 1)}" if value else "empty array"
    if not isinstance(value, dict):
        return _KINDS.get(type(value), "value")
    if levels <= 0:
        return "object"
    first = islice(value.items(), _MAX_NAMES)
    members = [f"{_shown(name)}: {describe(each, levels - 1)}" for name, each in first]
    more = [f"... {len(value) - _MAX_NAMES:,} more"] if len(value) > _MAX_NAMES else []
    return "{" + ", ".join([*members, *more]) + "}"


def example(value: Any) -> str:
    """An expression that takes a part of these data."""
    if isinstance(value, list):
        return _of_rows(value)
    if not isinstance(value, dict):
        return "@"
    usable = {name: each for name, each in value.items() if len(name) <= _MAX_NAME_CHARS}
    lists = {name: each for name, each in usable.items() if isinstance(each, list) and each}
    if lists:
        name = max(lists, key=lambda each: len(lists[each]))
        return _written(name) + _of_rows(lists[name])
    if len(usable) == 1:
        ((name, inner),) = usable.items()
        within = example(inner)
        return _written(name) + (f".{within}" if within != "@" else "")
    return _members(usable)


def _of_rows(rows: list[Any]) -> str:
    members = _members(rows[0]) if rows and isinstance(rows[0], dict) else "@"
    return "[:10]" if members == "@" else f"[].{members}"


def _members(value: dict[str, Any]) -> str:
    names = [name for name in value if len(name) <= _MAX_NAME_CHARS][:_EXAMPLE_NAMES]
    return "{" + ", ".join(f"{name}: {name}" for name in map(_written, names)) + "}" if names else "@"


def _written(name: str) -> str:
    """A name as an expression has it."""
    return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _shown(name: str) -> str:
    return cut(one_line(name[: 4 * _MAX_NAME_CHARS]), _MAX_NAME_CHARS)


MAX_EXPRESSION_CHARS: Final = 8192  # parsed in 15 ms at most
DEADLINE_S: Final = 10.0  # for one projection
GENERAL_EXAMPLE: Final = "items[?price > `10` && state == 'open'].{id: id, title: title}"
_MAX_INLINE_STEPS: Final = 20_000  # about 40 ms
_BYTES_A_STEP: Final = 64  # of long strings, which are copied
_TEXT_FUNCTIONS: Final = frozenset({"join", "to_string"})
_MAX_TREE_DEPTH: Final = 200  # of an expression; evaluating takes three frames a level
_CONTEXT_CHARS: Final = 40  # of the expression on each side of a mistake
_MAX_PROBLEM_CHARS: Final = 300
_IN_FUNCTION: Final = re.compile(r"In function (\w+\()")


class BadExpression(ValueError):
    """The expression cannot be used; `str()` says why, and shows the place."""


class Projected(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a projection: `value` as compact JSON; or what the `problem` is.

    `hint` describes the data and gives an example, where the value is null or empty, or there is a problem.
    """

    value: bytes = b"null"
    problem: str = ""
    hint: str = ""


class _Job(msgspec.Struct, frozen=True):
    expression: str
    texts: list[str]


def parse(expression: str) -> Any:
    """The tree of an expression.

    Raises:
        BadExpression: It is no JMESPath, calls a function that does not exist or with too few or too many
            arguments, or is too long or too deeply nested.
    """
    from jmespath.exceptions import JMESPathError, ParseError  # noqa: PLC0415 - only where it is used
    from jmespath.parser import Parser  # noqa: PLC0415 - as above

    if len(expression) > MAX_EXPRESSION_CHARS:
        raise BadExpression(f"it is longer than {MAX_EXPRESSION_CHARS} characters")
    try:
        with warnings.catch_warnings():  # of an old way to write texts, which works
            warnings.simplefilter("ignore")
            tree: Any = Parser().parse(expression).parsed
    except ParseError as error:
        raise BadExpression(_located(error, expression)) from None
    except JMESPathError as error:
        raise BadExpression(_brief(error)) from None
    except RecursionError:
        raise BadExpression("it is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:  # seen for odd literals
        raise BadExpression(f"it cannot be read ({_brief(error)})") from None
    if _depth(tree) > _MAX_TREE_DEPTH:
        raise BadExpression("it is nested too deeply")
    for node in _nodes(tree):
        if node["type"] == "function_expression":
            _check_function(node["value"], len(node["children"]))
    return tree


def is_cheap(tree: JSON, texts: Sequence[str]) -> bool:
    """Return True if applying an expression to these texts takes a few milliseconds, whatever is in them.

    A multi-select of n members makes the data n times as large for what follows; every node of the tree may
    look at all of it. Functions that make texts out of texts have no such bound.
    """
    nodes = copies = 1
    for node in _nodes(tree):
        nodes += 1
        if node["type"] in {"multi_select_list", "multi_select_dict", "function_expression"}:
            copies *= max(1, len(node["children"]))
        if node["type"] == "literal":
            nodes += len(str(node["value"]))
        elif node["type"] == "function_expression" and node["value"] in _TEXT_FUNCTIONS:
            return False
    if nodes * copies > _MAX_INLINE_STEPS:
        return False
    values = sum(text.count(",") + text.count("{") + text.count("[") + 1 for text in texts)
    size = sum(map(len, texts)) // _BYTES_A_STEP
    return nodes * copies * (values + size) <= _MAX_INLINE_STEPS


def project(expression: str, texts: Sequence[str]) -> Projected:
    """Apply an expression to the JSON among `texts`: one value, or the list of several. Never raises.

    Where that gives nothing, an object whose only member is `result` is taken for the value of that member,
    and a list for such an object: servers wrap their lists so in one of their two forms, and a model may have
    seen the other.
    """
    from jmespath.visitor import TreeInterpreter  # noqa: PLC0415 - only where it is used

    values = [value for text in texts for value in _read(text)]
    if not values:
        return Projected(problem="the result holds no JSON, so there is nothing to select from")
    whole = values[0] if len(values) == 1 else values
    found: Any = None
    try:
        tree = parse(expression)
        for value in _forms(whole):
            found = TreeInterpreter().visit(tree, value)
            if found is not None:
                break
        encoded = _encoded(found)
    except BadExpression as error:
        return Projected(problem=str(error), hint=_hint(whole))
    except RecursionError:
        return Projected(problem="it is nested too deeply", hint=_hint(whole))
    except MemoryError:
        return Projected(problem="it takes too much memory", hint=_hint(whole))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever a foreign interpreter makes of odd data
        return Projected(problem=_failed(error, expression), hint=_hint(whole))
    return Projected(encoded, hint=_hint(whole) if found is None or found in ([], {}) else "")


def _read(text: str) -> Iterator[Any]:
    """The value of a text that is a JSON object or array."""
    if text.lstrip(" \t\r\n")[:1] in {"{", "["}:
        with suppress(msgspec.DecodeError, ValueError, RecursionError):
            yield msgspec.json.decode(text)


def _forms(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict) and list(value) == ["result"]:
        yield value["result"]
    elif isinstance(value, list):
        yield {"result": value}


def _encoded(value: Any) -> bytes:
    encoded = msgspec.json.encode(value)
    if b"null" in encoded and _holds_infinity(value):
        raise BadExpression("it gives a number that JSON cannot say")
    return encoded


def _holds_infinity(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_holds_infinity, children))


def _hint(value: Any) -> str:
    return f"The data: {describe(value)}. For example: {example(value)}"


# --- expressions


def _nodes(tree: JSON) -> Iterator[JSON]:
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack += (child for child in node["children"] if isinstance(child, dict))


def _depth(tree: JSON) -> int:
    level, depth = [tree], 0
    while level:
        depth += 1
        level = [child for node in level for child in node["children"] if isinstance(child, dict)]
    return depth


def _check_function(name: str, given: int) -> None:
    from jmespath.functions import Functions  # noqa: PLC0415 - only where it is used

    known = Functions.FUNCTION_TABLE
    if name not in known:
        raise BadExpression(f"there is no function {cut(name, 40)}(); there are {', '.join(sorted(known))}")
    signature = known[name]["signature"]
    least = len(signature)
    variadic = bool(signature and signature[-1].get("variadic"))
    if given < least or (given > least and not variadic):
        raise BadExpression(f"{name}() takes {least}{' or more' if variadic else ''} arguments, not {given}")


def _located(error: Any, expression: str) -> str:
    """A parse error with the place in the expression."""
    at = error.lex_position or 0
    token = expression[at : at + 12]
    if at >= len(expression):
        problem = "it is not complete"
    elif token.startswith("=") and not token.startswith("=="):
        problem = "equality is written =="
    elif token[:1].isdigit() or token.startswith(("true", "false", "null", "-")):
        problem = "numbers, true, false and null are written in backticks: `10`"
    elif token.startswith("$"):
        problem = "there is no $: a path begins with the first name, or with @ for the whole"
    else:
        problem = cut(str(error.msg), 120)
    return _placed(problem, at, expression)


def _placed(problem: str, at: int, expression: str) -> str:
    """A problem with the part of the expression around it."""
    start, end = max(0, at - _CONTEXT_CHARS), at + _CONTEXT_CHARS
    shown = "".join(c if c.isprintable() else " " for c in expression[start:end])
    return f"{problem}, at character {at + 1}:\n{shown}\n{' ' * (at - start)}^"


def _failed(error: Exception, expression: str) -> str:
    """Return what went wrong with an expression that could be parsed, at the function that refused its
    arguments.
    """
    problem = _brief(error)
    function = _IN_FUNCTION.match(problem)
    at = expression.find(function[1]) if function else -1
    return problem if at < 0 else _placed(problem, at, expression)


def _brief(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return cut(one_line(text[: 8 * _MAX_PROBLEM_CHARS]), _MAX_PROBLEM_CHARS)


# --- in a worker, for what is not cheap

TASK: Final = "mcpx.core.rendering.projection:run"


def encode_job(expression: str, texts: Sequence[str]) -> bytes:
    """Return what `run` reads."""
    return msgspec.msgpack.encode(_Job(expression, list(texts)))


decode_answer = msgspec.msgpack.Decoder(Projected).decode


def run(job: memoryview) -> bytes:
    """The task of the worker: an encoded `Projected`."""
    read = msgspec.msgpack.decode(job, type=_Job)
    return msgspec.msgpack.encode(project(read.expression, read.texts))
