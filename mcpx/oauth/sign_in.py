"""One sign-in that waits for a person: from the address to open to tokens in force.

Used by the daemon (`mcpx.oauth.sign_ins`), and by `mcpx login` where none runs. Whoever owns it calls `run`
in a task; those who want it signed in `join` it, `wait`, and `leave`. It ends when it has succeeded or
failed, when nobody wants it any more, or when its time is over; nothing is left of it then but a
registration.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.to_thread

from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import iso_seconds
from mcpx.core.config import Config, Http, ServerConfig, Sse
from mcpx.core.config.server_config import OAuth
from mcpx.core.telemetry.contained import contain
from mcpx.oauth.answers import Callback, pasted
from mcpx.oauth.callback import CallbackListener, CallbackListeners, ports_from, redirect_uri
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.sign_in_progress import Progress, Stage

if TYPE_CHECKING:
    from mcpx.oauth.discovery import Discovered
    from mcpx.oauth.record import Record
    from mcpx.oauth.stored_account import StoredAccount

_LINK: Final = re.compile(r"https?://[\w\-.~:/?#\[\]@!$&'()*+,;=%]+", re.ASCII)
"""An address as RFC 3986 has it: without spaces, quotes and whatever else a program might obey."""


class SignIn:
    """A sign-in to the server of an account.

    `ports` are those that the browser may return to, in order of preference. `scopes` are asked for in place
    of those that the server, or its entry, names. `adopt` puts the result in force; left out, the account
    does.
    """

    def __init__(
        self,
        account: StoredAccount,
        *,
        ports: Sequence[int],
        timeout_s: float,
        scopes: Sequence[str] = (),
        adopt: Callable[[Record], Awaitable[None]] | None = None,
    ) -> None:
        self.account = account
        self.name = account.server.name
        self.scopes = tuple(scopes)
        self.progress = Progress(self.name)
        self.note: str | None = None
        """What to tell a person before they open it: where the token goes, if that is another host."""
        self.opening_url: str | None = None
        """An address that leads there, for a browser that is started with it: others can see what it is."""
        self.redirect_uri: str | None = None
        """Where the browser returns to, likewise."""
        self._ports = ports
        transport = account.server.transport
        auth = transport.auth if isinstance(transport, Http | Sse) else None
        self._host = (auth or OAuth()).callback_host
        self._adopt = adopt or account.adopt
        self._timeout_s = timeout_s
        self._deadline = anyio.current_time() + timeout_s
        self._scope = anyio.CancelScope(deadline=self._deadline)
        self._waiting = 0
        self._cancelled: str | None = None

    # --- for those who want it

    @property
    def is_open(self) -> bool:
        """True if it can still succeed: it has not ended, and is not being cancelled."""
        return self._cancelled is None and not self.progress.is_over

    def join(self, timeout_s: float | None = None) -> None:
        """Want it, for so long at least; `leave` ends that."""
        self._waiting += 1
        if timeout_s is not None and anyio.current_time() + timeout_s > self._deadline:
            self._timeout_s = timeout_s
            self._deadline = self._scope.deadline = anyio.current_time() + timeout_s

    def leave(self) -> None:
        """Want it no more. It is cancelled when nobody does."""
        self._waiting -= 1
        if self._waiting <= 0:
            self.cancel("nobody waits for it any more")

    def cancel(self, reason: str) -> None:
        """End it, if it is not over."""
        if self.is_open:
            self._cancelled = reason
            self._scope.cancel()

    async def url(self) -> str:
        """The address for the person to open, once it is known.

        Raises:
            SignInError: The sign-in is over.
        """
        if (link := await self.progress.asked()) is None:
            raise self.progress.error or self._cancellation()
        return link

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it is signed in, so long at most.

        Raises:
            SignInError: It failed, was cancelled, or takes longer.
        """
        with anyio.move_on_after(timeout_s) as scope:
            await self.progress.ended()
        if scope.cancelled_caught:
            raise self._timed_out(timeout_s or 0.0)
        if self.progress.error is not None:
            raise self.progress.error

    def answer(self, address: str) -> None:
        """Take the address that the browser came back to: all of it, or its query.

        Raises:
            SignInError: It cannot be that; the sign-in goes on.
        """
        if self.redirect_uri is None:
            raise SignInError(Problem.NO_ANSWER, f"the sign-in to {self.name} has not come so far")
        if (found := pasted(address)) is None:
            raise SignInError(
                Problem.NO_ANSWER,
                "that is not the address that the browser came back to at the end:"
                f" it begins with {self.redirect_uri}?",
            )
        if not self.progress.fits(found.state):
            raise SignInError(
                Problem.STATE_MISMATCH,
                "that address belongs to another sign-in; open the address of this one in your browser",
            )
        self.progress.take(found)

    def report(self) -> JSON:
        """Return the address to open, as a report of the control request `login`."""
        return {
            "progress": None,
            "server": self.name,
            "url": self.progress.link,
            "opening_url": self.opening_url,
            "redirect_uri": self.redirect_uri,
            "note": self.note,
        }

    def result(self) -> JSON:
        """Return what came of it, as the response to the control request `login`."""
        account = self.account
        return {
            "server": account.server.name,
            "signed_in": True,
            **({"account": account.account_name} if account.account_name else {}),
            "scopes": list(account.scopes),
            "expires_at": None if account.expires_at is None else iso_seconds(account.expires_at),
        }

    # --- for its owner

    async def run(self, listeners: CallbackListeners) -> None:
        """Carry it out to its end. Never raises, unless cancelled."""
        error: SignInError | None = self._cancellation()
        try:
            with self._scope:
                await self._sign_in(listeners)
            error = self._cancellation() if self._scope.cancelled_caught else None
        except SignInError as problem:
            error = problem
        except Exception as problem:  # noqa: BLE001 - the boundary: those who wait are to know of it
            contain(problem, "sign_in", server=self.name)
            text = f"MCPX failed ({type(problem).__name__}); its log says more"
            error = SignInError(Problem.UNREACHABLE, text)
        finally:
            self.progress.account = self.account.account_name
            self.progress.end(error)

    async def _sign_in(self, listeners: CallbackListeners) -> None:
        await anyio.to_thread.run_sync(import_module, "mcpx.oauth.code_grant")  # of a tenth of a second
        from mcpx.oauth.code_grant import sign_in  # noqa: PLC0415 - a tenth of a second, for who signs in

        account = self.account
        await account.load()
        async with listeners.listening(self._ports) as listener:
            ports = dict.fromkeys((listener.port, *(port for port in self._ports if port)))
            try:
                record = await sign_in(
                    account.server,
                    account.record,
                    ask=partial(self._ask, listener),
                    redirect_uris=[redirect_uri(port, self._host) for port in ports],
                    scopes=self.scopes,
                    challenge=account.challenge,
                    save=account.keep,
                    on_found=self._found,
                )
            finally:
                listener.forget(self.progress)
            self.progress.enter(Stage.EXCHANGED)
            with anyio.CancelScope(shield=True):  # bounded by the store: what was given is not to be lost
                await self._adopt(record)

    def _found(self, found: Discovered) -> None:
        from mcpx.oauth.discovery import token_note  # noqa: PLC0415 - as above

        self.note = token_note(found.metadata)

    async def _ask(self, listener: CallbackListener, url: str) -> Callback:
        """Show the address to those who wait, and return what the browser comes back with."""
        if not _LINK.fullmatch(url):
            text = f"the authorization server of {self.name} has an address that no browser should open"
            raise SignInError(Problem.INSECURE, text)
        state = dict(parse_qsl(urlsplit(url).query)).get("state", "")
        listener.expect(self.progress)
        self.opening_url = listener.opening_url(self.progress)
        self.redirect_uri = redirect_uri(listener.port, self._host)
        self.progress.ask(url, state)
        return await self.progress.answer()

    def _cancellation(self) -> SignInError:
        """Make the error that says why it was cancelled."""
        if self._cancelled is None and anyio.current_time() >= self._scope.deadline:
            return self._timed_out(self._timeout_s)
        why = self._cancelled or "MCPX ends"
        return SignInError(Problem.CANCELLED, f"the sign-in to {self.name} was cancelled: {why}")

    def _timed_out(self, timeout_s: float) -> SignInError:
        problem, text = Problem.TIMED_OUT, f"nobody has signed in to {self.name} within {timeout_s:g} s"
        if self.progress.strays:
            problem = Problem.STATE_MISMATCH
            text += ", but a browser came back with the state of another sign-in"
        return SignInError(problem, f"{text}; run: {self.account.login_command}")


def callback_ports(server: ServerConfig, config: Config) -> tuple[int, ...]:
    """List the ports that the browser may return to: the one that the entry names, or several."""
    transport = server.transport
    auth = transport.auth if isinstance(transport, Http | Sse) else None
    own = None if auth is None else auth.callback_port
    return ports_from(config.login_port) if own is None else (own,)
