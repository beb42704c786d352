"""The socket listens before the daemon can serve: who connects meanwhile waits, or hears why it fails."""

from __future__ import annotations

import json

import pytest

from mcpx.core.store.listening import listening
from mcpx.core.store.paths import connect
from mcpx.errors import DaemonError


def test_who_waits_for_a_daemon_that_fails_hears_why(house):
    peers = []

    def fail_while_two_wait():
        with listening(house.place):
            peers.extend((connect(house.place), connect(house.place)))
            peers[1].close()
            raise DaemonError("the SDK is gone")

    with pytest.raises(DaemonError):
        fail_while_two_wait()
    with peers[0]:
        assert json.loads(peers[0].recv(1000)) == {"error": "the SDK is gone"}
    assert not house.place.socket.exists()
