"""Keep-alive on real sockets: what the kernel says that it was asked for."""

from __future__ import annotations

import socket

import pytest

from mcpx.core.system import peers
from mcpx.core.system.peers import keep_alive, options


@pytest.fixture
def connected():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
        with client, served:
            yield client


def test_a_connection_over_tcp_is_probed_and_gives_up_after_half_a_minute(connected):
    keep_alive(connected)
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    asked = [connected.getsockopt(level, option) for level, option, _ in options()]
    assert asked[1:] == [value for _, _, value in options()][1:]
    assert peers.IDLE_S + peers.PROBES * peers.INTERVAL_S == 35


@pytest.mark.linux("TCP_USER_TIMEOUT")
def test_a_slow_reader_gets_longer(connected):
    keep_alive(connected, peers.UNREAD_S)
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


def test_other_sockets_are_left_as_they_are(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keep_alive(ours)
        ours.sendall(b"x")
        assert theirs.recv(1) == b"x"
    keep_alive(ours)  # closed by now: nothing is raised
