"""The form by which a person is asked whether a tool may run, and the reading of the answer. Pure.

Names and arguments come from servers and models. What stands in the message cannot forge a line of it: names
and values are JSON, on one line each, without control characters and what cannot be seen, and shortened in
plain sight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.policy.asked_arguments import MAX_NAME_CHARS, Arguments, written
from mcpx.core.text import cut, json_escaped, one_line, quoted, shown_name, shown_server

Decision = Literal["once", "session", "always"]
KEY: Final = "mcpx/approval"
"""The name of the question among the input requests of a result."""
ASKED: Final = "May this tool be run?"
BECAUSE: Final = "You are asked because of the rule"
TITLE: Final = "May it run?"
DECISION: Final = "decision"
SHOW: Final = "show"
"""The answer of a person who wants to see all arguments first."""
MAX_CHANGE_CHARS: Final = 200
_MAX_PATH: Final = 8  # names on the way to a value that has a line of its own
_MAX_REDACTED_CHARS: Final = 1 << 16  # at either end of a text, most of which is not shown
_MAX_REASON_CHARS: Final = 200
CHOICES: Final = {
    "once": "Once",
    "session": "For this session",
    "always": "Always",
    SHOW: "Show everything first",
    "no": "No",
}
"""The answers of a person, and their titles."""
_SEE_ALL: Final = f'  (Some are shortened. The answer "{CHOICES[SHOW]}" shows them and asks again)'


class CallShown(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a person is shown it, but for its arguments. `change`: how the tool differs from before.

    `for_all`: whether the person may agree for all clients.
    """

    server: str
    tool: str
    rule: str
    change: str | None = None
    for_all: bool = True


def form(
    call: CallShown, arguments: Arguments, redact: Callable[[str], str], *, whole: bool = False
) -> tuple[JSON, bool]:
    """The parameters of the elicitation, and whether there is more to show; `whole` shows much of it."""
    shown, is_cut = _shown(arguments.members, redact, _WHOLE if whole else _BRIEF)
    can_show_more = is_cut and not whole
    lines = [
        ASKED,
        "",
        f"Server: {cut(shown_server(call.server), MAX_NAME_CHARS)}",
        f"Tool: {cut(shown_name(call.tool), MAX_NAME_CHARS)}",
        *shown,
        *([_SEE_ALL] if can_show_more else []),
        "",
        f"{BECAUSE} {one_line(call.rule, MAX_NAME_CHARS)}",
    ]
    if call.change is not None:
        lines.append(f"Not approved yet: {one_line(redact(call.change), MAX_CHANGE_CHARS)}")
    offered = {"always": call.for_all, SHOW: can_show_more}
    choices = {name: title for name, title in CHOICES.items() if offered.get(name, True)}
    return {"message": "\n".join(lines), "requestedSchema": schema(choices, TITLE)}, can_show_more


def schema(choices: Mapping[str, str], title: str) -> JSON:
    """The schema of a form in which a person takes one of these choices, which have titles."""
    decision = {"type": "string", "title": title, "enum": list(choices), "enumNames": list(choices.values())}
    return {"type": "object", "properties": {DECISION: decision}, "required": [DECISION]}


class _Room(msgspec.Struct, frozen=True):
    """The most characters of all values; those that one has in any case; the length from which the members
    of a value have lines of their own, and the most lines.
    """

    all: int
    least: int
    long: int
    lines: int


_BRIEF: Final = _Room(all=1500, least=80, long=300, lines=200)
_WHOLE: Final = _Room(all=60_000, least=200, long=1000, lines=2000)


def _shown(members: JSON, redact: Callable[[str], str], room: _Room) -> tuple[list[str], bool]:
    """The lines that show the arguments, and whether some are cut.

    Each has its line, the short ones first, which are whole. What is long is cut; of an object or an array
    each member has a line, where there are not too many.
    """
    if not members:
        return ["Arguments: none"], False
    parts = _parts(members, room)
    most = _fair(sorted(len(text) for _, text in parts), room)
    parts.sort(key=lambda part: len(part[1]) > most)  # stable: else in their order
    lines = [f"  {_path(path, redact)}: {_value(text, redact, most)}" for path, text in parts]
    return ["Arguments:", *lines], any(len(text) > most for _, text in parts)


_Path = tuple[str | int, ...]


def _parts(members: JSON, room: _Room) -> list[tuple[_Path, str]]:
    """The values with their paths, as JSON; of the long ones their members, while there is room for lines."""
    parts: list[tuple[_Path, str]] = []
    waiting: deque[tuple[_Path, Any]] = deque(((name,), value) for name, value in members.items())
    while waiting:
        path, value = waiting.popleft()
        text = written(value)
        inner = _inner(value)
        lines = len(parts) + len(waiting) + len(inner)
        if not inner or len(text) <= room.long or lines > room.lines or len(path) >= _MAX_PATH:
            parts.append((path, text))
        else:
            waiting.extendleft(((*path, name), each) for name, each in reversed(inner))
    return parts


def _inner(value: Any) -> list[tuple[str | int, Any]]:
    """The members of an object, or the elements of an array with their places."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _fair(lengths: list[int], room: _Room) -> int:
    """The most characters of one value, so that all together have their room: short ones leave theirs."""
    left = room.all
    for done, length in enumerate(lengths):
        share = left // (len(lengths) - done)
        if length > share:
            return max(room.least, share)
        left -= length
    return room.all


def _path(path: _Path, redact: Callable[[str], str]) -> str:
    """The names on the way to a value."""
    names = (
        f"[{name}]" if isinstance(name, int) else f".{cut(quoted(redact(name)), MAX_NAME_CHARS)}"
        for name in path
    )
    return "".join(names).removeprefix(".")


def _value(text: str, redact: Callable[[str], str], most: int) -> str:
    """JSON on one line, without secrets; of a long one the beginning and the end."""
    if len(text) <= most:
        return json_escaped(redact(text))
    tail = most // 4
    begin = json_escaped(redact(text[:_MAX_REDACTED_CHARS]))[: most - tail]
    end = json_escaped(redact(text[-_MAX_REDACTED_CHARS:]))[-tail:]
    return f"{begin} ... (shortened: {len(text):,} characters in all) ... {end}"


class Answer(msgspec.Struct, frozen=True):
    """A decision, or the reason why there is none; `is_refusal` where a person has answered all the same.

    `wants_all`: the person wants to see all arguments first.
    """

    decision: Decision | None = None
    reason: str = "there was no answer in time"
    is_refusal: bool = False
    wants_all: bool = False


NO_ANSWER: Final = Answer()


def read_answer(responses: bytes | msgspec.Raw) -> Answer:
    """The answer in the `inputResponses` of a repeated request. What is no clear yes is no decision."""
    if (answer := answer_in(responses)) is None:
        return NO_ANSWER
    action, decision = answer.get("action"), choice_of(answer)
    if action == "accept" and decision in get_args(Decision):
        return Answer(decision)
    if action == "accept" and decision == SHOW:
        return Answer(reason="the person has seen all there is to show", wants_all=True)
    if action == "decline" or (action == "accept" and decision == "no"):
        return Answer(reason="the person said no", is_refusal=True)
    if isinstance(error := answer.get("error"), str):
        return Answer(reason=f"the client did not ask ({one_line(error, _MAX_REASON_CHARS)})")
    if action == "accept":
        return Answer(reason="the client's answer holds no decision")
    return Answer(reason="the question was dismissed", is_refusal=True)


def answer_in(responses: bytes | msgspec.Raw) -> JSON | None:
    """The answer to a question of ours in the `inputResponses` of a repeated request."""
    try:
        given = msgspec.json.decode(responses or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    answer = given.get(KEY) if isinstance(given, dict) else None
    return answer if isinstance(answer, dict) else None


def choice_of(answer: JSON) -> Any:
    """The choice in an answer by which a person has accepted; None in any other."""
    content = answer.get("content")
    if answer.get("action") != "accept" or not isinstance(content, dict):
        return None
    return content.get(DECISION)
