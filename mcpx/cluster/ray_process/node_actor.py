"""The actor of one node of a Ray cluster: it keeps the node process of its machine running, and says where.

Detached and named, one for each node, made by whichever gateway comes first (`actors`). Ray starts it again
for ever, with the same setup; no call of a person ever goes through it. The class is found by its name on the
other machine, so MCPX must be installed there. Its methods wait in threads of Ray's; nothing here needs Ray.

The node process is a child: it reads one line with its setup, says in one line where it listens, and ends in
order when its standard input does, so it ends with whoever started it, however that ended. A thread waits for
it, and starts it again with growing pauses. What it writes to standard error goes on to the actor's log; its
last lines explain an end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO, Final, Literal
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from mcpx.cluster.node.starting import NodeAddress, NodeReady, NodeStart
from mcpx.core.store.folders import ensure_folder
from mcpx.core.text import one_line
from mcpx.paths import digest, state_folder

FOLLOW_S: Final = 20.0  # then the answer is that nothing has changed
MAX_CONCURRENCY: Final = 64  # two a gateway
NODES_FOLDER: Final = "nodes"
MAX_FOLDER_NAME: Final = 200  # bytes; the system takes 255
COMMAND: Final = (sys.executable, "-P", "-m", "mcpx", "cluster", "node")
START_TIMEOUT_S: Final = 30.0  # to say where it listens: half a second on a quiet machine
STOP_TIMEOUT_S: Final = 20.0  # to end when its input has ended: it gives its servers a second, and ends them
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0
HEALTHY_AFTER_S: Final = 60.0  # of running, failures are forgotten
LAST_LINES: Final = 5  # of standard error
MAX_LINE: Final = 64 * 1024  # bytes of what it says
MAX_PROBLEM: Final = 1_000  # characters
_RAYS_OWN: Final = frozenset(
    {"RAY_JOB_ID", "RAY_RAYLET_PID", "SPT_NOENV", "PYTHONBREAKPOINT", "OMP_NUM_THREADS", "RAY_AUTH_TOKEN"}
)
_DEVICES: Final = "_VISIBLE_DEVICES"


class NodeState(msgspec.Struct, frozen=True):
    """The state of a node. `revision` grows with each change."""

    revision: int
    state: Literal["starting", "running", "failing", "stopped"]
    address: NodeAddress | None = None
    problem: str | None = None


class NodeChild:
    """Keeps a node process running. `setup` is the line that it is given, without the line break."""

    def __init__(self, setup: bytes, command: tuple[str, ...] = COMMAND) -> None:
        self._setup = setup
        self._command = command
        self._changed = threading.Condition()
        self._state = NodeState(0, "starting")
        self._popen: subprocess.Popen[bytes] | None = None
        self._last_words: deque[str] = deque(maxlen=LAST_LINES)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, name="node", daemon=True)
        self._thread.start()

    def follow(self, seen: int, timeout: float) -> NodeState:
        """Return its state, once that differs from revision `seen`, or after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.revision != seen, timeout)
            return self._state

    def end(self, timeout: float = STOP_TIMEOUT_S) -> None:
        """End the process in order, within `timeout` seconds, and start no other."""
        self._ended.set()
        with self._changed:
            popen = self._popen
        if popen is not None:
            _close(popen.stdin)
        self._thread.join(timeout)
        if self._thread.is_alive() and popen is not None:
            popen.kill()
            self._thread.join(1.0)

    # --- its thread

    def _keep_running(self) -> None:
        failures = 0
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                problem = self._run()
            except OSError as error:
                problem = f"the node process cannot be started: {error}"
            if self._ended.is_set():
                break
            failures = 1 if time.monotonic() - began > HEALTHY_AFTER_S else failures + 1
            self._become("failing", problem=one_line(problem, MAX_PROBLEM))
            self._ended.wait(min(FIRST_PAUSE_S * 2.0 ** (failures - 1), LONGEST_PAUSE_S))
        self._become("stopped")

    def _run(self) -> str:
        """One life of the process; returns why it is over."""
        popen = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(dict(os.environ)),
            start_new_session=True,
        )
        with self._changed:
            self._popen = popen
        if self._ended.is_set():  # it was to end before it was known
            _close(popen.stdin)
        assert popen.stdin and popen.stdout and popen.stderr  # spawned with pipes
        self._last_words.clear()
        ear = threading.Thread(target=self._listen, args=(popen.stderr,), name="node's log", daemon=True)
        ear.start()
        late = threading.Timer(START_TIMEOUT_S, popen.kill)
        late.daemon = True
        late.start()
        try:
            says = self._greet(popen)
            late.cancel()
            if says is not None and says.error is None:
                self._become("running", NodeAddress(says.host, says.port, says.pid, says.version))
                while popen.stdout.read(MAX_LINE):
                    pass
            else:
                popen.kill()
            code = popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            popen.kill()
            code = popen.wait()
        finally:
            late.cancel()
            ear.join(1.0)
            for stream in (popen.stdin, popen.stdout, popen.stderr):
                _close(stream)
        if says is not None and says.error is not None:
            return f"the node process cannot run: {says.error}"
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        words = " ".join(self._last_words)
        began = "ended" if says is not None else "did not say where it listens, and ended"
        return f"the node process {began} {how}" + (f": {words}" if words else "")

    def _greet(self, popen: subprocess.Popen[bytes]) -> NodeReady | None:
        assert popen.stdin and popen.stdout  # spawned with pipes
        try:
            popen.stdin.write(self._setup + b"\n")
            popen.stdin.flush()
            return msgspec.json.decode(popen.stdout.readline(MAX_LINE), type=NodeReady)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _listen(self, stream: IO[bytes]) -> None:
        while line := stream.readline(MAX_LINE):
            self._last_words.append(line.decode(errors="replace").strip())
            try:
                os.write(2, line)
            except OSError:
                continue

    def _become(
        self,
        state: Literal["starting", "running", "failing", "stopped"],
        address: NodeAddress | None = None,
        problem: str | None = None,
    ) -> None:
        with self._changed:
            self._state = NodeState(self._state.revision + 1, state, address, problem)
            self._changed.notify_all()


def child_environment(own: dict[str, str]) -> dict[str, str]:
    """Return the machine's environment, without what Ray sets for a worker that takes no resource.

    Ray hides all GPUs from such a worker, and gives it one thread for arithmetic; servers need neither. Nor
    do they get Ray's token, with which they would own the cluster.
    """
    return {
        key: value
        for key, value in own.items()
        if key not in _RAYS_OWN and not (key.endswith(_DEVICES) and not value)
    }


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        try:
            stream.close()
        except OSError:
            return


def folder_name(node: str) -> str:
    """Name a node's folder, which stays inside its parent whatever the node is called."""
    name = quote(node, safe="")
    return name if len(name) <= MAX_FOLDER_NAME and name.strip(".") else digest(node)


class NodeActor:
    """Made with an encoded `NodeStart`, whose `state` is chosen here, on the machine that it is about."""

    def __init__(self, setup: bytes) -> None:
        known = msgspec.json.decode(setup, type=NodeStart)
        folder = state_folder() / NODES_FOLDER / folder_name(known.name)
        ensure_folder(folder)
        self._child = NodeChild(msgspec.json.encode(replace(known, state=str(folder))))

    def follow(self, seen: int) -> bytes:
        """Return an encoded `NodeState`, once it is not revision `seen` any more, or after `FOLLOW_S`."""
        return msgspec.json.encode(self._child.follow(seen, FOLLOW_S))

    def end(self, timeout: float) -> int:
        """End the node process in order; returns the pid of the actor."""
        self._child.end(timeout)
        return os.getpid()
