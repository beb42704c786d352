"""The form by which a person is asked whether a tool may run, and the reading of the answer. Pure.

Names and arguments come from servers and models. What stands in the message cannot forge a line of it: names
and values are JSON, on one line each, without control characters and what cannot be seen, and shortened in
plain sight.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, get_args

import msgspec

from mcpx.catalog.model import JSON
from mcpx.text import cut, json_escaped, one_line, quoted, shown_name, shown_server

Decision = Literal["once", "session", "always"]
KEY: Final = "mcpx/approval"
"""The name of the question among the input requests of a result."""
MAX_ARGUMENTS_CHARS: Final = 1500  # of all arguments in a message
MAX_VALUE_CHARS: Final = 300  # of one value, where several share the message
MAX_NAME_CHARS: Final = 100
MAX_CHANGE_CHARS: Final = 200
MAX_READ_BYTES: Final = 1 << 18  # larger arguments are not read: their ends are shown as they came
_MAX_REDACTED_CHARS: Final = 1 << 16  # at either end of a text, most of which is not shown
_MAX_REASON_CHARS: Final = 200
_CHOICES: Final = {"once": "Once", "session": "For this session", "always": "Always", "no": "No"}


class TwiceNamed(ValueError):  # noqa: N818 - a condition
    """A member is named twice: which of the two counts is the server's choice."""


class CallShown(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a person is shown it, but for its arguments. `change`: how the tool differs from before.

    `for_all`: whether the person may agree for all clients.
    """

    server: str
    tool: str
    rule: str
    change: str | None = None
    for_all: bool = True


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of a call in a canonical form; `value` is None where they are too large to be read."""

    canonical: bytes
    value: JSON | None

    @property
    def digest(self) -> bytes:
        """The same for arguments that mean the same, and for no others."""
        return hashlib.sha256(self.canonical).digest()

    @classmethod
    def read(cls, raw: bytes) -> Arguments:
        """Read the JSON of an object.

        Raises:
            TwiceNamed: A member is named twice.
        """
        if len(raw) > MAX_READ_BYTES:
            return cls(raw, None)
        try:
            value = json.loads(raw, object_pairs_hook=_members)
            return cls(json.dumps(value, sort_keys=True).encode(), value)
        except TwiceNamed:
            raise
        except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
            return cls(raw, None)


def _members(pairs: list[tuple[str, Any]]) -> JSON:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise TwiceNamed(quoted(cut(name, MAX_NAME_CHARS)))
            seen.add(name)
    return members


def form(call: CallShown, arguments: Arguments, redact: Callable[[str], str]) -> JSON:
    """The parameters of the elicitation."""
    lines = [
        "May this tool be run?",
        "",
        f"Server: {cut(shown_server(call.server), MAX_NAME_CHARS)}",
        f"Tool: {cut(shown_name(call.tool), MAX_NAME_CHARS)}",
        *_shown(arguments, redact),
        "",
        f"You are asked because of the rule {one_line(call.rule, MAX_NAME_CHARS)}",
    ]
    if call.change is not None:
        lines.append(f"Not approved yet: {one_line(redact(call.change), MAX_CHANGE_CHARS)}")
    return {"message": "\n".join(lines), "requestedSchema": _schema(for_all=call.for_all)}


def _schema(*, for_all: bool) -> JSON:
    choices = {name: title for name, title in _CHOICES.items() if for_all or name != "always"}
    decision = {
        "type": "string",
        "title": "May it run?",
        "enum": list(choices),
        "enumNames": list(choices.values()),
    }
    return {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}


def _shown(arguments: Arguments, redact: Callable[[str], str]) -> Iterator[str]:
    """The lines that show the arguments."""
    if arguments.value is None:
        raw = arguments.canonical
        yield f"Arguments: {_value(raw.decode(errors='replace'), redact, MAX_ARGUMENTS_CHARS)}"
        return
    if not arguments.value:
        yield "Arguments: none"
        return
    yield "Arguments:"
    room = MAX_ARGUMENTS_CHARS
    most = max(MAX_VALUE_CHARS, room // len(arguments.value))
    for number, (name, value) in enumerate(arguments.value.items()):
        written = json.dumps(value, ensure_ascii=False)
        line = f"  {cut(quoted(redact(name)), MAX_NAME_CHARS)}: {_value(written, redact, most)}"
        room -= len(line)
        if room < 0 and number:
            yield f"  and {len(arguments.value) - number:,} more that are not shown"
            return
        yield line


def _value(written: str, redact: Callable[[str], str], most: int) -> str:
    """JSON on one line, without secrets; of a long one the beginning and the end."""
    if len(written) <= most and len(shown := json_escaped(redact(written))) <= most:
        return shown
    tail = most // 4
    begin = json_escaped(redact(written[:_MAX_REDACTED_CHARS]))[: most - tail]
    end = json_escaped(redact(written[-_MAX_REDACTED_CHARS:]))[-tail:]
    return f"{begin} ... (shortened: {len(written):,} characters in all) ... {end}"


class Answer(msgspec.Struct, frozen=True):
    """A decision, or the reason why there is none; `is_refusal` where a person has answered all the same."""

    decision: Decision | None = None
    reason: str = "there was no answer in time"
    is_refusal: bool = False


NO_ANSWER: Final = Answer()


def read_answer(responses: bytes | msgspec.Raw) -> Answer:
    """The answer in the `inputResponses` of a repeated request. What is no clear yes is no decision."""
    try:
        given = msgspec.json.decode(responses or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return NO_ANSWER
    answer = given.get(KEY) if isinstance(given, dict) else None
    if not isinstance(answer, dict):
        return NO_ANSWER
    content, action = answer.get("content"), answer.get("action")
    decision = content.get("decision") if isinstance(content, dict) else None
    if action == "accept" and decision in get_args(Decision):
        return Answer(decision)
    if action == "decline" or (action == "accept" and decision == "no"):
        return Answer(reason="the person said no", is_refusal=True)
    if isinstance(error := answer.get("error"), str):
        return Answer(reason=f"the client did not ask ({one_line(error, _MAX_REASON_CHARS)})")
    if action == "accept":
        return Answer(reason="the client's answer holds no decision")
    return Answer(reason="the question was dismissed", is_refusal=True)
