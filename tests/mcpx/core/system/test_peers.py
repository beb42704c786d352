"""Whose process is at the other end of a connection over loopback."""

import os
import socket
import struct
from contextlib import contextmanager

import pytest

from mcpx.core.system import peers
from tests.mcpx.page.visiting import NEEDS_IPV6

NOBODY = 65534
KNOWN = peers.users_are_known()
pytestmark = pytest.mark.linux("whose sockets are (sock_diag)")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
AT = pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=NEEDS_IPV6)])


@contextmanager
def connected(host, uid=None):
    """Both ends of a connection, the first one of that user."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        if uid is not None:
            os.seteuid(uid)
        try:
            client = socket.create_connection(listener.getsockname()[:2], timeout=5)
        finally:
            if uid is not None:
                os.seteuid(0)
        with client, listener.accept()[0] as server:
            yield client, server


def ends(server):
    return server.getpeername()[:2], server.getsockname()[:2]


@AT
def test_a_process_of_this_user_is_known(host):
    with connected(host) as (_, server):
        assert peers.is_own(*ends(server))


@NEEDS_IPV6
def test_a_process_that_uses_the_newer_family_for_the_older_one_is_known():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        with listener.accept()[0] as server:
            assert peers.is_own(*ends(server))


@AT
def test_a_process_of_another_user_is_refused_unless_it_is_root(host, monkeypatch):
    other = os.geteuid() + 1000
    with connected(host) as (_, server):
        monkeypatch.setattr(os, "geteuid", lambda: other)
        assert peers.is_own(*ends(server)) is (os.getuid() == 0)


@needs_root
@AT
def test_a_process_of_another_user_is_refused_by_roots_daemon(host):
    with connected(host, NOBODY) as (_, server):
        assert not peers.is_own(*ends(server))


@AT
@pytest.mark.parametrize("abruptly", [False, True])
def test_one_that_has_left_already_is_nobodys(host, abruptly, monkeypatch):
    other = os.geteuid() + 1000
    with connected(host) as (client, server):
        client.sendall(b"POST /ui/api/sign-out HTTP/1.1\r\n\r\n")
        if abruptly:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        where = ends(server)
        client.close()
        monkeypatch.setattr(os, "geteuid", lambda: other)
        assert not peers.is_own(*where)


def test_a_connection_from_elsewhere_counts_while_it_lasts():
    """As out of the host of a virtual machine, of whose sockets this kernel knows nothing."""
    with connected("127.0.0.1") as (_, server):
        here = server.getsockname()
        monkey = pytest.MonkeyPatch()
        known = peers._end
        monkey.setattr(peers, "_end", lambda a, b: known(a, b) if a == here else None)
        try:
            assert peers.is_own(server.getpeername(), here)
        finally:
            monkey.undo()


def test_where_the_system_says_nothing_everybody_of_the_computer_counts(monkeypatch):
    monkeypatch.setattr(peers, "users_are_known", lambda: False)
    assert peers.is_own(("127.0.0.1", 1), ("127.0.0.1", 2))


def test_addresses_that_are_none_are_nobodys():
    assert not peers.is_own(("not an address", 1), ("127.0.0.1", 2))
    assert not peers.is_own(("127.0.0.1", 1), ("::1", 2))
