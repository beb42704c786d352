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
from mcpx.upstream.transport.exchange import ScopesMissing


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


def more_scopes_needed(refusal: ScopesMissing, *, server: str, tool: str | None) -> SignInNeeded:
    """The error of a request that the server refuses until a person has agreed to more."""
    cause = paragraphs(str(refusal))
    text = f"{server} did not take the call ({cause}); it was not run"
    sign_in, wanted = refusal.command or None, list(refusal.scopes) or None
    details = present(cause=cause, sign_in=sign_in, wanted_scopes=wanted)
    return SignInNeeded(text, server=server, tool=tool, details=details, wants_more=True)
