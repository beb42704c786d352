"""The errors of requests that a server cannot take: nothing was sent, and why.

Where a person has to sign in before it can, that is `SignInNeeded`. Whoever can ask the client
(`mcpx.core.sign_in_links`) shows its person where to sign in; to all others it is the error, which has the
command.
"""

from __future__ import annotations

from mcpx.catalog.model import JSON, present
from mcpx.catalog.snapshot import ServerInfo, State
from mcpx.errors import CallError, Code
from mcpx.rendering.result_reading import InputRequired
from mcpx.text import paragraphs
from mcpx.upstream.transport.exchange import PersonNeeded


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
