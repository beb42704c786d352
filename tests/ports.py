"""Ports for servers of tests that must know theirs before they listen."""

from __future__ import annotations

import random
import socket

BELOW_ANY = range(
    20_000, 32_000
)  # Linux and macOS give none of these to who asks for any port, as all tests do


def free_port() -> int:
    """A port of this machine's loopback on which nobody listens, and which nobody is given by chance."""
    chance = random.SystemRandom()  # the other has a seed, which may be every worker's
    while True:
        port = chance.choice(BELOW_ANY)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
