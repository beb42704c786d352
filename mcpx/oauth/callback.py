"""The listener on loopback where a browser begins a sign-in, and returns to after it.

`CallbackListeners` has those of one process; sign-ins that may use the same ports share one. A request counts
if a process of this user sends it (as far as the system says), by the listener's own name, as a GET of
`/callback` with the state of a sign-in that waits, or of the address that leads to the authorization server,
once. Everything else is refused, and changes nothing. Time, memory and connections are bounded.

The address that leads there is for programs: what a browser is started with is in the list of processes, for
all users, and the authorization request has the state of the sign-in in it.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from html import escape
from http import HTTPStatus
from typing import Final

import anyio
import anyio.abc
import structlog

from mcpx.core.system.peers import belongs_to_user
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.log import Throttle
from mcpx.oauth.answers import callback_in
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.sign_in_progress import Progress

log = structlog.get_logger()
HOST: Final = "127.0.0.1"
HOST_6: Final = "::1"
NAMES: Final = (HOST, "localhost", f"[{HOST_6}]")
PATH: Final = "/callback"
OPENING_PATH: Final = "/sign-in/"
OTHER_PORTS: Final = 4  # after the first, which are tried when it is taken
MAX_PORT: Final = 65535
MAX_HEAD_BYTES: Final = 16_384  # of a request; codes may be long
MAX_CONNECTIONS: Final = 32  # of one listener; the oldest makes room
MAX_STRANGERS: Final = 4  # of them that are another user's, beside those
HEAD_TIMEOUT_S: Final = 10.0  # for a request to arrive
SEND_TIMEOUT_S: Final = 5.0  # for a page to be taken
RESULT_TIMEOUT_S: Final = 30.0  # that the browser waits to be told what came of the sign-in
ACCEPT_RETRY_S: Final = 0.2  # after accepting failed: most likely there are no descriptors left
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>{title}</title>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS: Final = (
    "Content-Type: text/html; charset=utf-8",
    "Cache-Control: no-store",
    f"Content-Security-Policy: {_POLICY}",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
)


def redirect_uri(port: int, host: str = HOST) -> str:
    """The address that a browser returns to, at a port; `host` is another name of this computer."""
    return f"http://{host}:{port}{PATH}"


def ports_from(first: int) -> tuple[int, ...]:
    """The ports that are tried, in order; 0 stands for any that is free."""
    return (*range(first, min(first + OTHER_PORTS, MAX_PORT) + 1), 0)


Silent = dict[socket.socket, anyio.CancelScope]
"""Connections whose request has not come yet; the oldest first."""


class CallbackListener:
    """Listens on one port for the browsers of all sign-ins that use it."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        """`listeners` have one port, each at its own address of loopback."""
        self._listeners = listeners
        self.port: int = listeners[0].getsockname()[1]
        self.users = 0
        self._waiting: list[Progress] = []
        self._silent: Silent = {}
        self._strangers: Silent = {}
        self._throttle = Throttle()
        self._scope = anyio.CancelScope()

    def expect(self, sign_in: Progress) -> None:
        """Wait for the browser of a sign-in, until `forget`."""
        self._waiting.append(sign_in)

    def opening_url(self, sign_in: Progress) -> str:
        """An address that leads a browser of this user to the authorization request, once."""
        return f"http://{HOST}:{self.port}{OPENING_PATH}{sign_in.opening}"

    def forget(self, sign_in: Progress) -> None:
        """Refuse what comes for a sign-in from now on, if its browser was expected."""
        with suppress(ValueError):
            self._waiting.remove(sign_in)

    def close(self) -> None:
        """Listen no more; a browser that is being answered gets its page."""
        self._scope.cancel()
        for listener in self._listeners:
            anyio.notify_closing(listener)
            listener.close()
        for silent in (*self._silent.values(), *self._strangers.values()):
            silent.cancel()

    async def serve(self, tasks: anyio.abc.TaskGroup) -> None:
        """Accept connections until it is closed; each is served in `tasks`."""
        with self._scope:
            async with anyio.create_task_group() as accepting:
                for listener in self._listeners:
                    accepting.start_soon(self._accept, listener, tasks)

    async def _accept(self, listener: socket.socket, tasks: anyio.abc.TaskGroup) -> None:
        with suppress(anyio.ClosedResourceError):
            while not self._scope.cancel_called:
                await anyio.wait_readable(listener)
                try:
                    peer, _ = listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    continue
                except OSError as error:
                    log.warning("sign_in.not_accepted", reason=error.strerror)
                    await anyio.sleep(ACCEPT_RETRY_S)
                    continue
                peer.settimeout(0.0)
                is_own = belongs_to_user(peer)
                silent, most = (self._silent, MAX_CONNECTIONS) if is_own else (self._strangers, MAX_STRANGERS)
                if len(silent) >= most:
                    silent.pop(next(iter(silent))).cancel()
                tasks.start_soon(self._serve_one, peer, silent)

    async def _serve_one(self, peer: socket.socket, silent: Silent) -> None:
        with peer, suppress(OSError):  # it is gone: nothing to tell it
            try:
                if (head := await self._head(peer, silent)) is None:
                    return
                response = await self._response(head) if silent is self._silent else self._stranger_page()
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: a request must not end the sign-in
                contain(error, "callback")
                return
            with anyio.move_on_after(SEND_TIMEOUT_S):
                await _send(peer, response)

    def _stranger_page(self) -> bytes:
        """The page for a process of another user, whatever it asks for."""
        if self._throttle.lets_through():
            log.warning("sign_in.refused", reason="a process of another user of this computer came back")
        text = (
            "Another user of this computer began this sign-in. If that was you, run mcpx login --no-browser"
            " with the name of the server, and paste the address of this page there."
        )
        return page("Not your sign-in", text, HTTPStatus.FORBIDDEN)

    async def _head(self, peer: socket.socket, silent: Silent) -> bytes | None:
        """The head of a request, or as much as is taken of it; None where none came in time."""
        head = bytearray()
        with anyio.move_on_after(HEAD_TIMEOUT_S) as scope:
            silent[peer] = scope
            try:
                while b"\r\n\r\n" not in head and len(head) <= MAX_HEAD_BYTES:
                    await anyio.wait_readable(peer)
                    if not (chunk := peer.recv(MAX_HEAD_BYTES)):
                        return None
                    head += chunk
                return bytes(head)
            finally:
                silent.pop(peer, None)
        return None

    async def _response(self, head: bytes) -> bytes:
        lines, end, _ = head.partition(b"\r\n\r\n")
        if not end or len(lines) > MAX_HEAD_BYTES:
            return refusal_page(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        first, *fields = lines.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not target.startswith("/"):
            return refusal_page(HTTPStatus.BAD_REQUEST)
        hosts = [field[5:].strip().lower() for field in fields if field[:5].lower() == "host:"]
        if hosts not in ([f"{name}:{self.port}"] for name in NAMES):
            return refusal_page(HTTPStatus.MISDIRECTED_REQUEST)
        path, _, query = target.partition("?")
        if path != PATH and not path.startswith(OPENING_PATH):
            return refusal_page(HTTPStatus.NOT_FOUND)
        if method != "GET":
            return refusal_page(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET")
        return await self._take(query) if path == PATH else self._opened(path.removeprefix(OPENING_PATH))

    def _opened(self, opening: str) -> bytes:
        """Lead a browser to the authorization request, once."""
        urls = (each.opened(opening) for each in self._waiting)
        if (url := next(filter(None, urls), None)) is not None:
            return page("Sign in", "The sign-in is elsewhere.", HTTPStatus.FOUND, f"Location: {url}")
        text = "This address was opened before, or its sign-in is over. Begin again."
        return page("No such sign-in", text, HTTPStatus.GONE)

    async def _take(self, query: str) -> bytes:
        """Take the answer in a query, if a sign-in waits for it; the page that says what came of that."""
        answer = callback_in(query)
        expected = next((each for each in self._waiting if answer and each.fits(answer.state)), None)
        if answer is None:
            return refusal_page(HTTPStatus.BAD_REQUEST)
        if expected is None:
            for each in self._waiting:
                each.strays += 1
            text = "This answer belongs to another sign-in, or to one that is over. Begin again."
            return page("No such sign-in", text, HTTPStatus.BAD_REQUEST)
        if expected.is_answered:
            text = "MCPX has taken the answer to this sign-in already. You can close this page."
            return page("Already taken", text, HTTPStatus.CONFLICT)
        expected.take(answer)
        with anyio.move_on_after(RESULT_TIMEOUT_S):
            error = await expected.ended()
            return ended_page(expected.name, None if error is None else str(error), expected.account)
        return page("Nearly there", "MCPX has the answer; what came of it is said where you began.")


class CallbackListeners:
    """The listeners of one process. `tasks` is where they are served, and outlives the sign-ins."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._open: dict[int, CallbackListener] = {}  # by port

    @asynccontextmanager
    async def listening(self, ports: Sequence[int]) -> AsyncIterator[CallbackListener]:
        """A listener on the first of these ports that is free; 0 stands for any.

        Raises:
            SignInError: None of them is.
        """
        listener = next((self._open[port] for port in ports if port in self._open), None)
        if listener is None:
            listener = CallbackListener(_listeners(ports))
            self._open[listener.port] = listener
            self._tasks.start_soon(listener.serve, self._tasks)
        listener.users += 1
        try:
            yield listener
        finally:
            listener.users -= 1
            if not listener.users:
                self._open.pop(listener.port).close()


def _listeners(ports: Sequence[int]) -> list[socket.socket]:
    """A listener at the first of these ports that is free, and where there is IPv6 another one at `::1`.

    A browser may take `localhost` for either, and what comes there is not to be somebody else's.
    """
    reason: str | None = None
    for port in ports:
        try:
            first = _bound(socket.AF_INET, HOST, port)
        except OSError as error:
            reason = error.strerror
            continue
        try:
            return [first, _bound(socket.AF_INET6, HOST_6, first.getsockname()[1])]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [first]  # there is no IPv6
            first.close()
            reason = error.strerror
    raise SignInError(
        Problem.PORT_TAKEN,
        f"the browser cannot return to port {ports[0]} of {HOST} ({reason}):"
        " end what has it, or choose another port (callback_port, login_port)",
    )


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    """A socket that listens."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MAX_CONNECTIONS)
        listener.settimeout(0.0)
    except BaseException:
        listener.close()
        raise
    return listener


async def _send(peer: socket.socket, response: bytes) -> None:
    rest = memoryview(response)
    while rest:
        await anyio.wait_writable(peer)
        rest = rest[peer.send(rest) :]
    with suppress(OSError):
        peer.shutdown(socket.SHUT_WR)


# --- what the browser shows: small pages, without scripts, that load nothing


def page(title: str, text: str, status: HTTPStatus = HTTPStatus.OK, *headers: str) -> bytes:
    """A whole response with a title and one paragraph, which are plain text."""
    body = _PAGE.format(title=escape(title), text=escape(text)).encode("utf-8", "replace")
    lines = (f"HTTP/1.1 {status.value} {status.phrase}", *_HEADERS, *headers, f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + body


def ended_page(name: str, problem: str | None, account: str | None = None) -> bytes:
    """The page of a sign-in that has ended: at a server of that name, with a problem or to an account."""
    if problem is None:
        by = f" as {account}" if account else ""
        return page("Signed in", f"MCPX is signed in to {name}{by}. You can close this page.")
    return page("Not signed in", f"MCPX is not signed in to {name}: {problem}. You can close this page.")


def refusal_page(status: HTTPStatus, *headers: str) -> bytes:
    """The page for a request that belongs to no sign-in."""
    text = "This is where a browser returns to after a sign-in. None waits for this request."
    return page("Nothing to do here", text, status, *headers)
