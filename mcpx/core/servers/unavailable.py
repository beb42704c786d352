"""The errors of requests that a server cannot take: nothing was sent, and why.

Where a person has to sign in before it can, that is `SignInNeeded`. Whoever can ask the client
(`mcpx.oauth.sign_in_links`) shows its person where to sign in; to all others it is the error, which has the
command. A client of 2026-07-28 is given a link as the result of its call, and brings the answer when it
repeats the call (`answer_to_link`, `without_link`).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON, present
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.protocol.context import InputAnswers
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.servers.transport.exchange import PersonNeeded
from mcpx.core.text import paragraphs
from mcpx.errors import CallError, Code

LINK_KEY: Final = "mcpx/sign-in"
"""The name of the link among the input requests of a result."""


class SignInNeeded(InputRequired):
    """`server_unavailable`: a person has to sign in before the server takes the request.

    `wants_more`: they have signed in, and have to agree to more.
    """

    def __init__(
        self, text: str, *, server: str, tool: str | None, details: JSON, wants_more: bool = False
    ) -> None:
        CallError.__init__(  # not the text and the code of a server that wants input
            self, Code.SERVER_UNAVAILABLE, text, server=server, tool=tool, details=details
        )
        self.wants_more = wants_more
        self.result = {}


def unavailable(info: ServerInfo, what: str, tool: str | None) -> CallError:
    """`server_unavailable`, with the state of the server; `what` as for `ServerInfo.refuse`."""
    text, details = info.refuse(what), info.why()
    if info.state is State.NEEDS_SIGN_IN:
        return SignInNeeded(text, server=info.name, tool=tool, details=details)
    return CallError(Code.SERVER_UNAVAILABLE, text, server=info.name, tool=tool, details=details)


def person_needed(refusal: PersonNeeded, *, server: str, tool: str | None) -> SignInNeeded:
    """The error of a request that the server refuses until a person has signed in, or agreed to more."""
    cause, wants_more = paragraphs(str(refusal)), refusal.scopes is not None
    text = f"{server} did not take the call ({cause}); it was not run"
    details = present(
        state=None if wants_more else str(State.NEEDS_SIGN_IN),
        cause=cause,
        sign_in=refusal.command or None,
        wanted_scopes=list(refusal.scopes or ()) or None,
    )
    return SignInNeeded(text, server=server, tool=tool, details=details, wants_more=wants_more)


# --- what a client brings that was given a link


def answer_to_link(answers: InputAnswers | None) -> JSON | None:
    """The answer to a link among the answers of a client."""
    answer = _responses(answers).get(LINK_KEY)
    return answer if isinstance(answer, dict) else None


def without_link(answers: InputAnswers | None) -> InputAnswers | None:
    """The answers that are for others: those for a server, or to the question whether a tool may run."""
    responses = _responses(answers)
    if answers is None or LINK_KEY not in responses:
        return answers
    rest = {name: value for name, value in responses.items() if name != LINK_KEY}
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
