"""Why a request to a server was not sent, or sent in vain: raised into the transport, as errors of its own.

They are errors of the HTTP library, so that whoever sends a request that nobody waits for treats them as
any other failure to send it.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx2


class NotAuthorized(httpx2.TransportError):
    """The server did not run the request: MCPX has no token for it that counts."""


class PersonRequired(NotAuthorized):
    """A person has to act: `command` is what they run, "" where no person can."""

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class SignInRequired(PersonRequired):
    """A person has to sign in; the text says how."""


class NoTokenNow(NotAuthorized):
    """The token has expired and cannot be refreshed at the moment; that is being tried again."""


class MoreScopesRequired(PersonRequired):
    """The token is good, but does not allow this request (`insufficient_scope`).

    `scopes` are those that the server wants for it, as far as it says.
    """

    def __init__(self, message: str, *, scopes: Sequence[str] = (), command: str = "") -> None:
        super().__init__(message, command=command)
        self.scopes = tuple(scopes)


class ClientRefused(NotAuthorized):
    """The authorization server gives MCPX no token for its own credentials: a configuration has to change."""
