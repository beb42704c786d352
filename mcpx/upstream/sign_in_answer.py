"""What a client brings when it repeats a call after it was given a link to sign in by (2026-07-28). Pure."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.catalog.model import JSON
from mcpx.upstream.context import InputAnswers

KEY: Final = "mcpx/sign-in"
"""The name of the link among the input requests of a result."""


def answer_to_link(answers: InputAnswers | None) -> JSON | None:
    """The answer to a link among the answers of a client."""
    answer = _responses(answers).get(KEY)
    return answer if isinstance(answer, dict) else None


def without_link(answers: InputAnswers | None) -> InputAnswers | None:
    """The answers that are for others: those for a server, or to the question whether a tool may run."""
    responses = _responses(answers)
    if answers is None or KEY not in responses:
        return answers
    rest = {name: value for name, value in responses.items() if name != KEY}
    if not rest and answers.state is None:
        return None
    return replace(answers, responses=msgspec.json.encode(rest) if rest else b"")


def _responses(answers: InputAnswers | None) -> JSON:
    if answers is None or not answers.responses:
        return {}
    try:
        given = msgspec.json.decode(answers.responses)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}
