"""The gateway's side of the Ray process: a supervised child process, and what it says of the cluster.

`RayProcess` is a child of the cluster's supervisor; an incarnation is a process, a `RayChild`, from its start
to its end. Lines go both ways over its standard streams; what it writes to standard error is for the log, and
its last lines explain an end. Every request is answered, by the process, by its end or by its deadline.

What was known of the nodes outlives it: a gateway goes on with the nodes it has while Ray is away, and only
what needs a decision of Ray's fails, at once and with the reason. Nothing here imports Ray or waits for it
without a deadline.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.cluster.ray_process import protocol as say
from mcpx.cluster.ray_process.protocol import Joined, NodeRecord
from mcpx.core.telemetry.contained import containing
from mcpx.core.text import one_line
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.lines import LineSplitter, TooLong
from mcpx.errors import MCPXError
from supervisors import Backoff, Cause, ChildSpec, Incarnation, Parking, Policy

log = structlog.get_logger()

END_TIMEOUT_S: Final = 2.0  # for the process to end when its input has ended: it does so at once
LAST_LINES: Final = 5  # of its standard error
MAX_ERROR_LINE: Final = 4_096  # bytes


class RayProcessEnded(MCPXError):
    """The process has ended. With `is_final`, starting it again cannot help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class RayChild:
    """One process. `joined` is set when it has said all its nodes, or has ended; `over` when it has ended."""

    def __init__(self, command: tuple[str, ...], on_line: Callable[[say.Say], None]) -> None:
        self.joined = anyio.Event()
        self.over = anyio.Event()
        self.ended: RayProcessEnded | None = None
        self._on_line = on_line
        self._waiting: dict[int, asyncio.Future[say.Answer]] = {}
        self._lines = LineSplitter(say.MAX_LINE_BYTES)
        self._errors = LineSplitter(MAX_ERROR_LINE)
        self._last_words: deque[str] = deque(maxlen=LAST_LINES)
        self._decoder: msgspec.json.Decoder[say.Say] = msgspec.json.Decoder(say.Say)
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # a signal from the terminal is for the gateway, which ends it
            )
        except OSError as error:
            raise RayProcessEnded(f"the Ray process cannot be started: {error.strerror}") from error
        popen = self._popen
        assert popen.stdin and popen.stdout and popen.stderr  # spawned with pipes
        for stream in (popen.stdin, popen.stdout, popen.stderr):
            os.set_blocking(stream.fileno(), False)
        self._channel = Channel(popen.stdout.fileno(), popen.stdin.fileno())
        self._channel.on_data = self._take_in
        self._channel.on_end = lambda: self.end("the Ray process ended" + self._words())
        self._channel.on_broken = lambda error: self.end(f"the Ray process does not listen: {error}")
        self._ear = Channel(popen.stderr.fileno(), popen.stderr.fileno())
        self._ear.on_data = self._hear
        self._channel.start_reading()
        self._ear.start_reading()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    async def ask(self, request: say.Request, seconds: float) -> say.Answer:
        """Its answer, or one that says that there is none."""
        future: asyncio.Future[say.Answer] = asyncio.get_running_loop().create_future()
        if self.ended is not None:
            return say.Answer(request.id, error=str(self.ended), code="unavailable")
        self._waiting[request.id] = future
        try:
            self._channel.write(msgspec.json.encode(request) + b"\n")
            with anyio.move_on_after(seconds):
                return await future
        finally:
            self._waiting.pop(request.id, None)
        return say.Answer(request.id, error=f"Ray did not answer within {seconds:g} s", code="unavailable")

    def end(self, reason: str, *, is_final: bool = False) -> None:
        """Note why it is over, and have those who wait told; the first reason counts."""
        if self.ended is not None:
            return
        self.ended = RayProcessEnded(reason, is_final=is_final)
        for number, future in self._waiting.items():
            if not future.done():
                future.set_result(say.Answer(number, error=reason, code="unavailable"))
        self.over.set()
        self.joined.set()

    async def close(self) -> None:
        """End the process, and wait until it is gone."""
        self.end("the Ray process is being ended")
        self._channel.close()
        self._ear.close()
        popen = self._popen
        for stream in (popen.stdin, popen.stdout, popen.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        await anyio.to_thread.run_sync(_reap, popen)

    def _take_in(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                self.end("the Ray process said a line that is too long")
                return
            try:
                message = self._decoder.decode(line)
            except msgspec.DecodeError as error:
                self.end(f"what the Ray process says cannot be read: {error}")
                return
            self._handle(message)

    def _handle(self, message: say.Say) -> None:
        match message:
            case say.Answer():
                future = self._waiting.pop(message.id, None)
                if future is not None and not future.done():
                    future.set_result(message)
            case say.Ended(reason=reason, final=final):
                self.end(reason, is_final=final)
            case _:
                self._on_line(message)
                if isinstance(message, say.Nodes):
                    self.joined.set()

    def _hear(self, data: bytes) -> None:
        for line in self._errors.feed(data):
            if isinstance(line, bytes):
                text = one_line(line.decode(errors="replace"), MAX_ERROR_LINE)
                self._last_words.append(text)
                log.debug("ray.says", text=text)

    def _words(self) -> str:
        return ": " + " ".join(self._last_words) if self._last_words else ""


def _reap(popen: subprocess.Popen[bytes]) -> None:
    try:
        popen.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()


JOIN_TIMEOUT_S: Final = 40.0  # for the process to join, or to say why it does not; a little more than its own
MARGIN_S: Final = 2.0  # for an answer, beyond the process's own deadline
STOP_NODES_TIMEOUT_S: Final = 20.0
NOT_TRIED: Final = "it has not been asked yet"
BACKOFF: Final = Backoff(initial=0.5, cap=10.0)
_MAIN: Final = ("-P", "-m", "mcpx.cluster.ray_process")


class RayError(MCPXError):
    """Ray did not do what it was asked for, and why.

    `code` is that of `protocol.Answer`: `no_node`, `unavailable` or `invalid`.
    """

    def __init__(self, text: str, code: say.RequestError) -> None:
        super().__init__(text)
        self.code = code


class RayProcess:
    """The link to Ray at `address` (`auto`, or HOST:PORT of its GCS). Have `child` supervised.

    `nodes` are those that Ray last said live, by id; the mapping is replaced as a whole with each change.
    `joined` is what the process said when it joined, of the last one that did; `problem` says why none is
    joined now. A cluster that is open to everybody who reaches it is joined with `allow_open` only.
    """

    def __init__(
        self, address: str, *, allow_open: bool = False, command: tuple[str, ...] = (sys.executable, *_MAIN)
    ) -> None:
        self.address = address
        self.allow_open = allow_open
        self.nodes: Mapping[str, NodeRecord] = MappingProxyType({})
        self.joined: Joined | None = None
        self.problem: str | None = NOT_TRIED
        self._command = (*command, address, *((say.ALLOW_OPEN,) if allow_open else ()))
        self._observers: list[Callable[[], None]] = []
        self._process: RayChild | None = None
        self._numbers = itertools.count(1)

    @property
    def is_joined(self) -> bool:
        """True if Ray can be asked."""
        return self.problem is None

    @property
    def was_tried(self) -> bool:
        """True once it is known if Ray can be asked."""
        return self.problem != NOT_TRIED

    def child(self) -> ChildSpec:
        """For a supervisor; what cannot be helped by starting it again is tried every five minutes."""
        policy = Policy(backoff=BACKOFF, parking=Parking(after=1_000_000))
        return ChildSpec(name="ray", run=self.run, policy=policy, classify=_classify)

    def observe(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Have `observer` called after each change of `nodes`, `joined` or `problem`; the result ends that.

        It must not wait; what it raises is logged.
        """
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    async def run(self, incarnation: Incarnation) -> None:
        """Be one process, until it ends or is not wanted any more.

        Raises:
            RayProcessEnded: It has ended.
        """
        process = RayChild(self._command, self._on_line)
        try:
            with anyio.move_on_after(JOIN_TIMEOUT_S):
                await incarnation.while_wanted(process.joined.wait)
            if incarnation.stopping.is_set():
                return
            if not process.joined.is_set():
                process.end(f"the Ray process did not say within {JOIN_TIMEOUT_S:g} s that it has joined")
            if process.ended is None:
                self._process = process
                self._become(None)
                incarnation.ready()
            await incarnation.while_wanted(process.over.wait)
            if process.ended is not None:
                self._become(str(process.ended))
                raise process.ended
        finally:
            self._process = None
            if self.problem is None:
                self._become("the Ray process is being ended")
            with anyio.CancelScope(shield=True):
                await process.close()

    # --- requests

    async def reserve(
        self,
        key: str,
        *,
        resources: Mapping[str, float],
        memory_bytes: int = 0,
        node: str | None = None,
        spread: bool = False,
        exclude: tuple[str, ...] = (),
    ) -> str:
        """Have Ray choose a node for the server of that key; the id of the node. See `protocol.Reserve`.

        Raises:
            RayError: There is none, or Ray cannot be asked.
        """
        wanted = dict(resources), memory_bytes, node, spread, exclude
        answer = await self._ask(say.Reserve, key, *wanted, seconds=say.RESERVE_TIMEOUT_S + MARGIN_S)
        return answer.node or ""

    async def release(self, key: str) -> None:
        """Give up what was reserved for that key.

        Raises:
            RayError: Ray cannot be asked; this is so for all requests.
        """
        await self._ask(say.Release, key)

    async def reservations(self) -> dict[str, str]:
        """The ids of nodes by key, of all gateways of the cluster."""
        return (await self._ask(say.Reservations)).reservations

    async def get(self, key: str) -> str | None:
        """A value of the cluster's store, or None."""
        return (await self._ask(say.Get, key)).value

    async def put(self, key: str, value: str, *, overwrite: bool = True) -> str:
        """Set a value of the store, without `overwrite` only if there is none; what is there then."""
        return (await self._ask(say.Put, key, value, overwrite)).value or ""

    async def delete(self, key: str) -> None:
        """Remove a key of the cluster's store, which need not be there."""
        await self._ask(say.Delete, key)

    async def keys(self, prefix: str = "") -> tuple[str, ...]:
        """The keys of the cluster's store that begin so, sorted."""
        return (await self._ask(say.Keys, prefix)).keys

    async def drain(self, node: str, *, draining: bool) -> None:
        """Note for all gateways that the node of this id takes nothing new, or that it does again."""
        await self._ask(say.Drain, node, draining)

    async def start_nodes(self) -> None:
        """Have nodes kept running, also after `stop_nodes`."""
        await self._ask(say.StartNodes)

    async def stop_nodes(self) -> None:
        """End all nodes, for all gateways, until one says `start_nodes`."""
        await self._ask(say.StopNodes, seconds=STOP_NODES_TIMEOUT_S)

    async def _ask(
        self,
        request: Callable[..., say.Request],
        *members: Any,
        seconds: float = say.REQUEST_TIMEOUT_S + MARGIN_S,
    ) -> say.Answer:
        if self._process is None:
            raise RayError(f"Ray cannot be asked: {self.problem}", "unavailable")
        answer = await self._process.ask(request(next(self._numbers), *members), seconds)
        if answer.error is not None:
            raise RayError(answer.error, answer.code or "unavailable")
        return answer

    # --- what it says

    def _on_line(self, line: say.Say) -> None:
        match line:
            case say.Joined():
                self.joined = line
                return  # its nodes follow, and nobody is to believe that there are none
            case say.Nodes(nodes=changed, gone=gone, complete=complete):
                nodes = {} if complete else {id_: node for id_, node in self.nodes.items() if id_ not in gone}
                self.nodes = MappingProxyType(nodes | {node.id: node for node in changed})
            case _:
                return
        self._tell()

    def _become(self, problem: str | None) -> None:
        if problem != self.problem:
            self.problem = problem
            log.info("ray.joined" if problem is None else "ray.away", address=self.address, problem=problem)
            self._tell()

    def _tell(self) -> None:
        for observer in list(self._observers):
            with containing("cluster"):  # the boundary: one observer keeps no other from the news
                observer()


def _classify(error: Exception) -> Cause:
    final = isinstance(error, RayProcessEnded) and error.is_final
    return Cause(str(error), retryable=not final, error=error)
