"""The socket of a daemon. It listens before it has imported the SDK: clients that connect meanwhile wait."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from mcpx.core.store.paths import DaemonPaths, address, claim_folder, connect, unusable
from mcpx.errors import DaemonError
from mcpx.paths import config_hint

BACKLOG: Final = 512  # connections that are not accepted yet


@contextmanager
def listening(paths: DaemonPaths) -> Iterator[socket.socket]:
    """Listen; at exit close and remove the socket, and tell clients that wait if the body fails.

    Raises:
        DaemonError: As `listen`.
    """
    with listen(paths) as listener:
        try:
            yield listener
        except Exception as error:
            paths.socket.unlink(missing_ok=True)
            _refuse_waiting(listener, str(error) or type(error).__name__)
            raise
        finally:
            paths.socket.unlink(missing_ok=True)


def _refuse_waiting(listener: socket.socket, reason: str) -> None:
    response = json.dumps({"error": reason}).encode() + b"\n"
    with suppress(OSError):  # nobody waits any more
        while True:
            peer, _ = listener.accept()
            with peer, suppress(OSError):  # it has left
                peer.sendall(response)


def listen(paths: DaemonPaths) -> socket.socket:
    """A socket on which clients can connect from now on. The caller holds the lock (`acquire_lock`).

    Raises:
        DaemonError: Others may change the folder, a daemon listens already, or something else is there.
    """
    claim_folder(paths)
    _clear(paths)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with address(paths.socket) as bindable:
            listener.bind(bindable)
        listener.listen(BACKLOG)
        listener.settimeout(0.0)
    except OSError as error:
        listener.close()
        raise unusable(paths.socket, error) from None
    finally:
        os.umask(before)
    return listener


def _clear(paths: DaemonPaths) -> None:
    """Remove a dead socket; leave everything else alone."""
    try:
        found = paths.socket.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise DaemonError(f"{paths.socket}: in the way, and no socket; remove it")
    if (other := connect(paths)) is not None:
        other.close()
        option = config_hint(paths.config)
        raise DaemonError(f"{paths.socket}: somebody listens here already; see mcpx daemon status{option}")
    import structlog  # noqa: PLC0415 - heavy, unless `mcpx.core.telemetry` has been imported before

    structlog.get_logger().info("socket.reclaimed", path=str(paths.socket))
    paths.socket.unlink(missing_ok=True)
