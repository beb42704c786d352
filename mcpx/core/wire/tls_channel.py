"""A channel over TCP and TLS 1.3, between two MCPX that know each other's certificate or token.

`connect_tls` and `accept_tls` make one; from then on it is a `Channel` like any other. What is written in one
turn of the loop is sealed together and goes out in one system call. The client accepts exactly the one
certificate that it was given: it is pinned, so names and dates in it mean nothing. The server takes any
client; who that is, it has to say itself (a token). Unlike a plain channel, this one owns its socket.

Imported only by those who need it: `ssl` takes milliseconds and megabytes.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import anyio

from mcpx.core.store.private_files import create_file
from mcpx.core.system.peers import keep_alive
from mcpx.core.wire.channel import MAX_JOINED_BYTES, READ_BYTES, Channel

NEXT_ADDRESS_AFTER_S: Final = 0.25  # without an answer from the one before
_Address = tuple[str, int] | tuple[str, int, int, int]
_Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, _Address]


async def connected_to(host: str, port: int) -> socket.socket:
    """A socket that is connected, to the first address of the host that answers.

    The next one is tried, too, when an address was silent for `NEXT_ADDRESS_AFTER_S` (RFC 8305).

    Raises:
        OSError: None answers.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    error: OSError = OSError(errno.EHOSTUNREACH, f"{host} has no address")
    won: list[socket.socket] = []

    async def attempt(address: _Found, tried: anyio.Event) -> None:
        nonlocal error
        try:
            made = await _connected(address)
        except OSError as failed:
            error = failed
        else:
            won.append(made)
            tasks.cancel_scope.cancel()
        finally:
            tried.set()

    try:
        async with anyio.create_task_group() as tasks:
            for address in found:
                tried = anyio.Event()
                tasks.start_soon(attempt, address, tried)
                with anyio.move_on_after(NEXT_ADDRESS_AFTER_S):
                    await tried.wait()
    except BaseException:
        for late in won:
            late.close()
        raise
    for late in won[1:]:
        late.close()
    if not won:
        raise error
    return won[0]


async def _connected(found: _Found) -> socket.socket:
    family, kind, protocol, _, address = found
    made = socket.socket(family, kind, protocol)
    try:
        made.settimeout(0.0)
        await _connect(made, address)
        configure(made)
    except BaseException:
        made.close()
        raise
    return made


async def _connect(made: socket.socket, address: _Address) -> None:
    with suppress(BlockingIOError):
        made.connect(address)
        return
    await anyio.wait_writable(made)
    if code := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))


def configure(connected: socket.socket) -> None:
    """Have small messages sent at once, and a peer noticed that has gone without a word."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(connected)


@lru_cache(maxsize=64)
def client_context(certificate: str) -> ssl.SSLContext:
    """Return what a client needs to connect to the one that shows this certificate (PEM).

    Raises:
        OSError: This is no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    return context


def server_context(certificate: str, key: str, folder: str) -> ssl.SSLContext:
    """Return what a server needs to show this certificate (both PEM). Blocks.

    OpenSSL reads them from a file: it lies in `folder` for that moment, for its owner alone.

    Raises:
        OSError: They are no certificate and its key, or the folder cannot be written to.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody resumes: connections last
    path = Path(folder, f"tls-{os.urandom(8).hex()}.pem")
    try:
        create_file(path, f"{key}\n{certificate}\n".encode(), synced=False)
        context.load_cert_chain(path)
    finally:
        path.unlink(missing_ok=True)
    return context


CONNECT_TIMEOUT_S: Final = 10.0  # to reach the other side and shake hands; it may be busy with many others
CERTIFICATE_ERROR: Final = "it shows another certificate than the one that is known: this is not the node"


class WrongCertificate(OSError):
    """The other side does not show the certificate that it is known by."""

    def __init__(self) -> None:
        super().__init__(errno.EPROTO, CERTIFICATE_ERROR)


class TlsChannel(Channel):
    """A channel over a socket whose handshake is over, as `connect_tls` and `accept_tls` make it.

    `first_unread` is never known: what the other side's kernel has taken, the program may not have read.
    """

    def __init__(self, connected: _Handshake) -> None:
        self.socket = connected.socket
        super().__init__(self.socket.fileno(), self.socket.fileno())
        self._tls = connected.tls
        self._received = connected.received
        self._to_send = connected.to_send
        self._sealed = memoryview(b"")  # what the system has not taken of it
        self._sealing = 0  # bytes of messages in that
        self._has_early = True  # the handshake may have brought the first bytes with it

    # --- in

    def _read_if(self, *, reading: bool, held: bool) -> None:
        super()._read_if(reading=reading, held=held)
        if self._has_early and reading and not held:
            self._loop.call_soon(self._take_early)

    def _take_early(self) -> None:
        if self._has_early and self._reading and not self._held:
            self._has_early = False
            self._take()

    def _readable(self) -> None:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a peer that is gone is an end
            data = b""
        if not data:
            self._end()
            return
        self._received.write(data)
        self._has_early = False
        self._take()

    def _take(self) -> None:
        """Hand on all that can be opened now, which leaves less than a record of 16 KiB."""
        opened: list[bytes] = []
        ended = False
        try:
            while part := self._tls.read(READ_BYTES):
                opened.append(part)
                if not self._received.pending and not self._tls.pending():
                    break  # there is no more, and an exception to say so would cost as much as a record
            else:
                ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:  # closed in order, or what came is not of this connection
            ended = True
        if self._to_send.pending:  # the protocol's own, a new key for instance
            self.write(b"")
        if opened:
            self.on_data(opened[0] if len(opened) == 1 else b"".join(opened))
        if ended:
            self._end()

    # --- out

    def _write_some(self) -> bool:
        """Make one system call; false if it took less than it was given."""
        if not self._sealed:
            self._seal()
        written = os.write(self._write_fd, self._sealed) if self._sealed else 0
        self._sealed = self._sealed[written:]
        if self._sealed:
            return False
        del self._out[0]  # the place of what has gone
        self._waiting -= self._sealing
        self._written += self._sealing
        return True

    def _seal(self) -> None:
        """Seal the next messages, or the next part of a long one; an empty piece keeps their place."""
        pieces: list[bytes | memoryview] = []
        room, taken = MAX_JOINED_BYTES, 0
        while taken < len(self._out) and room:
            piece = self._out[taken]
            if len(piece) > room:
                self._out[taken] = memoryview(piece)[room:]
                piece = memoryview(piece)[:room]
            else:
                taken += 1
            pieces.append(piece)
            room -= len(piece)
        self._out[:taken] = [b""]
        rest = memoryview(b"".join(pieces))
        self._sealing = len(rest)
        while rest:
            rest = rest[self._tls.write(rest) :]  # a record at a time
        self._sealed = memoryview(self._to_send.read())

    # --- the end

    def hung_up(self) -> bool:
        """True if the other side has gone: it closes both directions at once, and its end may be unread."""
        return self._ended or super().hung_up()

    def close(self) -> None:
        """Let go of the socket and close it: no callback comes after this."""
        if self.socket.fileno() < 0:
            return
        if not self._broken and not self._sealed and not self._out:
            with suppress(ssl.SSLError):  # which wants the other side's farewell: nobody waits for that
                self._tls.unwrap()
            with suppress(OSError):
                os.write(self._write_fd, self._to_send.read())
        super().close()
        self.socket.close()


class _Handshake:
    """A connected socket, and TLS on it: over once `run` has returned."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.socket = connected
        self.received, self.to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.to_send, server_side=server_side)

    async def run(self) -> None:
        """Shake hands.

        Raises:
            OSError: It fails, or the other side leaves; `ssl.SSLError` is one.
        """
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send()
            except ssl.SSLError:
                with suppress(OSError):  # why, for the other side
                    await self._send()
                raise
            else:
                await self._send()
                return
            await anyio.wait_readable(self.socket)
            with suppress(BlockingIOError, InterruptedError):
                data = self.socket.recv(READ_BYTES)
                if not data:
                    raise ConnectionResetError(errno.ECONNRESET, "it closed the connection in the handshake")
                self.received.write(data)

    async def _send(self) -> None:
        rest = memoryview(self.to_send.read())
        while rest:
            try:
                rest = rest[self.socket.send(rest) :]
            except (BlockingIOError, InterruptedError):
                await anyio.wait_writable(self.socket)


async def connect_tls(
    host: str,
    port: int,
    certificate: str,
    *,
    timeout: float = CONNECT_TIMEOUT_S,  # noqa: ASYNC109 - the error says which
) -> TlsChannel:
    """Connect to the MCPX that shows this certificate (PEM).

    Raises:
        OSError: It cannot be reached, does not answer in time, or shows another (`WrongCertificate`).
    """
    context = client_context(certificate)
    channel: TlsChannel | None = None
    with anyio.move_on_after(timeout):
        connected = await connected_to(host, port)
        try:
            shaken = _Handshake(connected, context, server_side=False)
            await shaken.run()
            if shaken.tls.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(certificate):
                raise WrongCertificate
            channel = TlsChannel(shaken)
        except ssl.SSLCertVerificationError:
            raise WrongCertificate from None
        finally:
            if channel is None:
                connected.close()
    if channel is None:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout:g} s")
    return channel


async def accept_tls(connected: socket.socket, context: ssl.SSLContext) -> TlsChannel:
    """Shake hands with a client on an accepted, non-blocking socket. The caller bounds the time.

    The socket stays the caller's if this raises.

    Raises:
        OSError: It is no TLS, or the client leaves.
    """
    configure(connected)
    handshake = _Handshake(connected, context, server_side=True)
    await handshake.run()
    return TlsChannel(handshake)
