"""The account of one server: its tokens, on its requests.

All sessions with the server share it. `authorize` and `refused` are called by the transport for each request;
nothing else of a call's way knows of OAuth. A renewal of the tokens is one flight, however many requests wait
for it, and nobody here ever waits for a person.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from mcpx.core.config import ServerConfig
from mcpx.core.servers.accounts import Asked, Responded
from mcpx.core.servers.transport.exchange import (
    ClientRefused,
    MoreScopesRequired,
    NotAuthorized,
    NoTokenNow,
    SignInRequired,
)
from mcpx.core.servers.transport.http_pool import Url, read_url
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut
from mcpx.oauth.addresses import origin
from mcpx.oauth.challenge import Challenge, challenge_in
from mcpx.oauth.errors import SignInError
from mcpx.oauth.record import Identity
from mcpx.oauth.renewal import Background, Flight
from mcpx.oauth.stored_account import EXPIRED, AccountState, StoredAccount
from mcpx.oauth.token_store import TokenStore

__all__ = ["Account", "AccountState"]
SENT_AGAIN: Final = "mcpx.sent_again"
"""In the extensions of a request that is sent once more, with a better token."""
REFUSED: Final = "the server refuses its token, and there is none to renew it with"
MAX_WANTED_SCOPES: Final = 50  # that are remembered
MAX_SHOWN_SCOPES: Final = 500  # characters of them in a message
_FORBIDDEN: Final = 403


class Account(StoredAccount):
    """The sign-in of one server on its requests, for as long as its entry says the same of it."""

    def __init__(
        self,
        server: ServerConfig,
        identity: Identity,
        store: TokenStore,
        *,
        background: Background | None = None,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        background = background or Background()
        super().__init__(server, identity, store, background, on_change=on_change, clock=clock)
        self._discovery = Flight(background)
        self._origin: tuple[str, int | None, str] | None = None  # as the requests have it

    async def authorize(self, request: Asked) -> None:
        """Put the access token on a request, if there is one; one that has expired is renewed first.

        Raises:
            SignInRequired: A person has to sign in first.
            NoTokenNow: It has expired, and cannot be renewed at the moment.
            ClientRefused: The authorization server does not give MCPX a token.
        """
        if self._clock() >= self._good_until:
            await self._obtain()
        self._put_on(request)

    def authorize_nowait(self, request: Asked) -> bool:
        """Put the token on a request, if that can be done without a look at anything else."""
        if self._clock() >= self._good_until:
            return False
        self._put_on(request)
        return True

    def _put_on(self, request: Asked) -> None:
        url = request.url
        if (url.host, url.port, url.scheme) != self._origin and not self._is_own(url):
            request.headers.pop("authorization", None)
        elif self._header is not None:
            request.headers["authorization"] = self._header

    def _is_own(self, url: Url) -> bool:
        """Return True if a URL is of the entry's origin, the only one that is given tokens."""
        if origin(url) != origin(read_url(self.identity.url)):
            return False
        self._origin = url.host, url.port, url.scheme
        return True

    async def _obtain(self) -> None:
        """Have a token that counts, if there were any."""
        await self.load()
        if self._clock() < self._good_until or self._tokens is None:
            return
        if self.is_usable and self._renewal.is_possible and await self._renewal.renew():
            return
        if self.is_usable and self._is_over():
            self._need_sign_in(EXPIRED)
        if self._clock() >= self._good_until:
            raise self._refusal()

    async def refused(self, request: Asked, response: Responded) -> bool:
        """Take in a 401 or 403, to a request that `authorize` has seen; whether to send it once more.

        The response need not be read for that, and is closed by the caller. A request that was sent once more
        is refused for good.

        Raises:
            SignInRequired: A person has to sign in first.
            MoreScopesRequired: A person has to agree to more.
            NoTokenNow: The token was refused, and cannot be renewed at the moment.
            ClientRefused: The authorization server does not give MCPX a token.
        """
        challenge, sent = challenge_in(response), request.headers.get("authorization")
        again = await self._judge(challenge, sent, is_second=SENT_AGAIN in request.extensions)
        if again:
            request.extensions[SENT_AGAIN] = True
        return again

    async def _judge(self, challenge: Challenge, sent: str | None, *, is_second: bool) -> bool:
        if challenge.status == _FORBIDDEN and not challenge.wants_more_scopes:
            return False
        await self.load()
        if self._header is None:
            return await self._judge_without_token(challenge)
        if sent == self._header:
            if challenge.status == _FORBIDDEN:
                return await self._step_up(challenge, is_second=is_second)
            if is_second:
                self._renewal.refuse("the server refuses the token that it was given anew")
            elif self._renewal.is_possible and await self._renewal.renew(challenge):
                return True
        if sent != self._header and self.is_usable:  # there is another one by now
            if is_second:
                raise self._refusal()
            return True
        if self.is_of_person and not self._renewal.is_possible:
            self.challenge = challenge
            self._need_sign_in(REFUSED)
        raise self._refusal()

    async def _judge_without_token(self, challenge: Challenge) -> bool:
        if not self.is_of_person:
            if await self._renewal.renew(challenge):
                return True
            raise self._refusal()
        await self.look()
        if self.is_usable and self._header is None:
            await self._discovery.join(partial(self._discover, challenge))
        if self._header is not None:  # somebody has signed in meanwhile
            return True
        if self.is_usable:
            return False
        raise self._refusal()

    async def _discover(self, challenge: Challenge) -> None:
        """Find out whether a 401 means that a person can sign in."""
        from mcpx.oauth.discovery import find_sign_in  # noqa: PLC0415 - for those who were refused

        reason = None
        try:
            if await find_sign_in(self.server, challenge) is None:
                return
        except SignInError as error:
            if error.for_now and challenge.resource_metadata is None:
                return
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the boundary: then it is a 401 like any other
            contain(error, "oauth", server=self.server.name)
            return
        if self._tokens is None:
            self.challenge = challenge
            self._need_sign_in(reason)

    async def _step_up(self, challenge: Challenge, *, is_second: bool) -> bool:
        """Take in that the token does not allow a request; a machine asks for more by itself, once."""
        known = self.challenge
        wanted = dict.fromkeys(((known and known.scope) or "").split() + (challenge.scope or "").split())
        self.challenge = replace(challenge, scope=" ".join([*wanted][-MAX_WANTED_SCOPES:]) or None)
        is_news = known is None or known.scope != self.challenge.scope
        if not self.is_of_person and is_news and not is_second and await self._renewal.renew(challenge):
            return True
        scopes = f"the scopes {cut(challenge.scope, MAX_SHOWN_SCOPES)}" if challenge.scope else "more scopes"
        advice = f"run: {self.login_command}" if self.is_of_person else 'see "scopes" of its "auth"'
        raise MoreScopesRequired(
            f"the server wants {scopes}, which were not granted: {advice}",
            scopes=(challenge.scope or "").split()[:MAX_WANTED_SCOPES],
            command=self.login_command if self.is_of_person else "",
        )

    def _refusal(self) -> NotAuthorized:
        """Make the error that says why no request can succeed now."""
        why = self.problem
        if not self.is_usable:
            advice = f"needs sign-in: run: {self.login_command}"
            text = f"{why}; {advice}" if why else advice
            return SignInRequired(text, command=self.login_command)
        if self._renewal.is_refused:
            return ClientRefused(f"MCPX is given no token for it: {why}")
        return NoTokenNow(f"its token cannot be renewed at the moment: {why or 'try again'}")
