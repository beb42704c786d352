"""Signing a person in: discovery, registration, the authorization request, and the exchange of the code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mcpx.config import ServerConfig
from mcpx.oauth.callback_answer import AskPerson
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.record import Record


async def sign_in(
    server: ServerConfig,
    record: Record | None,
    *,
    ask: AskPerson,
    redirect_uris: Sequence[str],
    scopes: Sequence[str] = (),
    challenge: Challenge | None = None,
    save: Callable[[Record], Awaitable[None]],
) -> Record:
    """Sign a person in to a server, and return the record with the new tokens, which is not saved yet.

    Args:
        server: A server over HTTP with `auth`.
        record: What is kept of an earlier sign-in: its registration is used again where it is still good.
        ask: Shows the person the URL, and waits; it is the only wait for a person, and sets its own bound.
        redirect_uris: All that are registered; the first is the one that the browser returns to.
        scopes: The scopes to ask for; empty for those of the configuration, else of the challenge or the
            server's metadata, and those that were granted before.
        challenge: The last challenge of the server, if there was one.
        save: Called with a record without tokens when MCPX has registered itself as a client, before the
            person is asked; not called where `record` has tokens, which the new client could not refresh.

    Raises:
        SignInError: With any `Problem`; nothing was changed but what `save` was given.
    """
    raise NotImplementedError
