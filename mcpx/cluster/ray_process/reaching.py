"""Whether anything listens at the address of Ray's GCS: known at once, and without importing Ray.

Ray itself waits for minutes for a GCS that does not listen, and then ends its process without a word.
"""

from __future__ import annotations

import socket
from typing import Final

CONNECT_TIMEOUT_S: Final = 3.0
MAX_PORT: Final = 65_535


class JoinError(Exception):
    """There is no joining that cluster, and why. With `is_final`, not before somebody changes something."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


def try_address(address: str) -> None:
    """Connect to the address and leave; `auto` is for Ray to find.

    Raises:
        JoinError: It is no address, or nothing listens there.
    """
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise JoinError(f"{address} is no address: HOST:PORT of Ray's GCS, or auto", is_final=True)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise JoinError(f"nothing listens at {address} ({reason}): is it Ray's GCS?") from error
