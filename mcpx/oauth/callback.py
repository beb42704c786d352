"""Where the browser returns to after a sign-in: a listener on 127.0.0.1, open while sign-ins wait.

`CallbackListeners` has those of one process; sign-ins that may use the same ports share one. A request counts
if it is a GET of `/callback` with the state of a sign-in that waits, by the listener's own name; everything
else is refused, and changes nothing. Time, memory and connections are bounded.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from html import escape
from http import HTTPStatus
from typing import Final

import anyio
import anyio.abc
import structlog

from mcpx.oauth.callback_answer import BrowserReturn, callback_in
from mcpx.oauth.errors import Problem, SignInError
from mcpx.observe.contained import contain

log = structlog.get_logger()
HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
OTHER_PORTS: Final = 4  # after the first, which are tried when it is taken
MAX_PORT: Final = 65535
MAX_HEAD_BYTES: Final = 16_384  # of a request; codes may be long
MAX_CONNECTIONS: Final = 32  # of one listener; the oldest makes room
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


class CallbackListener:
    """Listens on one port for the browsers of all sign-ins that use it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self.users = 0
        self._waiting: list[BrowserReturn] = []
        self._silent: dict[socket.socket, anyio.CancelScope] = {}  # the oldest first
        self._scope = anyio.CancelScope()

    def expect(self, name: str, state: str) -> BrowserReturn:
        """Wait for the browser of a sign-in, at a server of that name."""
        expected = BrowserReturn(name, state)
        self._waiting.append(expected)
        return expected

    def forget(self, expected: BrowserReturn) -> None:
        """Refuse what comes for a sign-in that has ended."""
        self._waiting.remove(expected)

    def close(self) -> None:
        """Listen no more; a browser that is being answered gets its page."""
        self._scope.cancel()
        anyio.notify_closing(self._listener)
        self._listener.close()
        for silent in self._silent.values():
            silent.cancel()

    async def serve(self, tasks: anyio.abc.TaskGroup) -> None:
        """Accept connections until it is closed; each is served in `tasks`."""
        with suppress(anyio.ClosedResourceError), self._scope:
            while not self._scope.cancel_called:
                await anyio.wait_readable(self._listener)
                try:
                    peer, _ = self._listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    continue
                except OSError as error:
                    log.warning("sign_in.not_accepted", reason=error.strerror)
                    await anyio.sleep(ACCEPT_RETRY_S)
                    continue
                peer.setblocking(False)  # noqa: FBT003 - the standard library's signature
                if len(self._silent) >= MAX_CONNECTIONS:
                    self._silent.pop(next(iter(self._silent))).cancel()
                tasks.start_soon(self._serve_one, peer)

    async def _serve_one(self, peer: socket.socket) -> None:
        with peer, suppress(OSError):  # it is gone: nothing to tell it
            try:
                if (head := await self._head(peer)) is None:
                    return
                response = await self._response(head)
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: a request must not end the sign-in
                contain(error, "callback")
                return
            with anyio.move_on_after(SEND_TIMEOUT_S):
                await _send(peer, response)

    async def _head(self, peer: socket.socket) -> bytes | None:
        """The head of a request, or as much as is taken of it; None where none came in time."""
        head = bytearray()
        with anyio.move_on_after(HEAD_TIMEOUT_S) as scope:
            self._silent[peer] = scope
            try:
                while b"\r\n\r\n" not in head and len(head) <= MAX_HEAD_BYTES:
                    await anyio.wait_readable(peer)
                    if not (chunk := peer.recv(MAX_HEAD_BYTES)):
                        return None
                    head += chunk
                return bytes(head)
            finally:
                self._silent.pop(peer, None)
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
        if hosts not in ([f"{HOST}:{self.port}"], [f"localhost:{self.port}"]):
            return refusal_page(HTTPStatus.MISDIRECTED_REQUEST)
        path, _, query = target.partition("?")
        if path != PATH:
            return refusal_page(HTTPStatus.NOT_FOUND)
        if method != "GET":
            return refusal_page(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET")
        return await self._take(query)

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
            return ended_page(expected.name, await expected.ended())
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
            listener = CallbackListener(_bound(ports))
            self._open[listener.port] = listener
            self._tasks.start_soon(listener.serve, self._tasks)
        listener.users += 1
        try:
            yield listener
        finally:
            listener.users -= 1
            if not listener.users:
                self._open.pop(listener.port).close()


def _bound(ports: Sequence[int]) -> socket.socket:
    reason: str | None = None
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, port))
            listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            listener.close()
            reason = error.strerror
            continue
        listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
        return listener
    raise SignInError(
        Problem.PORT_TAKEN,
        f"the browser cannot return to port {ports[0]} of {HOST} ({reason}):"
        " end what has it, or choose another port (callback_port, login_port)",
    )


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
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        *_HEADERS,
        *headers,
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def ended_page(name: str, problem: str | None) -> bytes:
    """The page of a sign-in that has ended: at a server of that name, with a problem or without."""
    if problem is None:
        return page("Signed in", f"MCPX is signed in to {name}. You can close this page.")
    return page("Not signed in", f"MCPX is not signed in to {name}: {problem}. You can close this page.")


def refusal_page(status: HTTPStatus, *headers: str) -> bytes:
    """The page for a request that belongs to no sign-in."""
    text = "This is where a browser returns to after a sign-in. None waits for this request."
    return page("Nothing to do here", text, status, *headers)
