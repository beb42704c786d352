"""The socket's rules: whose the folder and the socket are, who may come in, and what is in the way."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

import anyio
import pytest
import structlog

import mcpx.core.store.paths
from mcpx.core.config import load
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends import streams as unix_socket
from mcpx.core.gateway.frontends.streams import SocketFrontend
from mcpx.core.store.listening import listen
from mcpx.core.store.paths import acquire_lock, claim_folder, connect, daemon_paths, lock_owner_pid
from mcpx.errors import DaemonError
from mcpx.parts import open_hub
from supervisors import ChildSpec

pytestmark = pytest.mark.anyio


def test_the_socket_and_its_folder_are_for_their_owner_only(house):
    with listen(house.place):
        assert stat.S_IMODE(house.place.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(house.place.socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE((house.folder / "state").stat().st_mode) == 0o700


def test_a_folder_that_is_open_to_others_is_refused_with_what_to_do(house):
    folder = house.place.socket.parent
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with pytest.raises(DaemonError, match=rf"{folder}: open to others \(mode 755\); run: chmod 700 {folder}"):
        listen(house.place)


def test_a_state_folder_that_others_may_change_is_refused(house):
    (house.folder / "state").mkdir()
    for mode in (0o777, 0o770, 0o1777):
        (house.folder / "state").chmod(mode)
        with pytest.raises(DaemonError, match="others may change it"):
            claim_folder(house.place)


def test_a_folder_of_another_user_is_refused(house, monkeypatch):
    claim_folder(house.place)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(DaemonError, match="not a folder of yours"):
        claim_folder(house.place)


def test_a_link_in_place_of_the_folder_is_refused(house):
    elsewhere = house.folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    house.place.socket.parent.parent.mkdir()
    house.place.socket.parent.symlink_to(elsewhere)
    with pytest.raises(DaemonError, match="not a folder of yours"):
        listen(house.place)


def test_a_file_where_the_state_folder_should_be_is_a_clear_error(house):
    (house.folder / "state").write_text("in the way")
    with pytest.raises(DaemonError, match="MCPX_STATE_DIR"):
        claim_folder(house.place)


def test_a_dead_socket_is_taken_over(house):
    listen(house.place).close()  # its path stays, as after a crash
    assert house.place.socket.exists()
    assert connect(house.place) is None
    with listen(house.place):
        joined = connect(house.place)
        assert joined is not None
        joined.close()


def test_a_socket_that_somebody_listens_on_is_left_alone(house):
    with listen(house.place) as first:
        with pytest.raises(DaemonError, match="somebody listens here already"):
            listen(house.place)
        joined = connect(house.place)
        assert joined is not None
        joined.close()
        first.accept()[0].close()


def test_a_plain_file_in_the_way_is_left_alone(house):
    claim_folder(house.place)
    house.place.socket.write_text("precious")
    with pytest.raises(DaemonError, match="in the way, and no socket; remove it"):
        listen(house.place)
    assert house.place.socket.read_text() == "precious"


def test_a_socket_of_another_user_is_not_joined(house, monkeypatch):
    with listen(house.place):
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(DaemonError, match="belongs to another user"):
            connect(house.place)


def test_a_folder_too_long_for_a_socket_is_a_clear_error_where_that_cannot_be_helped(monkeypatch):
    monkeypatch.setattr(mcpx.core.store.paths, "LINUX", False)
    monkeypatch.setenv("MCPX_STATE_DIR", "/tmp/" + "x" * 100)
    with pytest.raises(DaemonError, match="too long for a socket; name a shorter folder with MCPX_STATE_DIR"):
        daemon_paths("config.json")


def test_each_configuration_has_a_place_of_its_own_and_only_one(house, monkeypatch):
    monkeypatch.chdir(house.folder)
    assert daemon_paths("a.json") == daemon_paths(f"{house.folder}/a.json") == daemon_paths("x/../a.json")
    assert daemon_paths("a.json").socket != daemon_paths("b.json").socket


def test_the_seat_is_held_by_one(house):
    seat = acquire_lock(house.place)
    assert lock_owner_pid(house.place) == os.getpid()
    with listen(house.place), pytest.raises(DaemonError, match=f"already \\(pid {os.getpid()}\\)"):
        acquire_lock(house.place)
    os.close(seat)
    assert lock_owner_pid(house.place) is None


class Peer:
    """A daemon's socket frontend in this process."""

    def __init__(self, house, hub):
        self.listener = listen(house.place)
        clients = ClientSessions(hub)
        self.frontend = SocketFrontend(Endpoints(hub, clients), self.listener, house.place)
        hub.root.add(ChildSpec(name="gateway", run=self.frontend.run))


async def test_another_users_process_gets_no_byte_and_is_logged(house, monkeypatch):
    house.write({"s": {"command": "true", "disabled": True}})
    monkeypatch.setattr(unix_socket, "peer_uid", lambda _peer: os.getuid() + 1)
    with structlog.testing.capture_logs() as logged:
        async with open_hub(load(house.config)) as hub:
            Peer(house, hub)
            for line in (b'{"mcpx":"status"}\n', b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'):
                with socket.socket(socket.AF_UNIX) as joined:
                    joined.connect(str(house.place.socket))
                    joined.setblocking(False)
                    with suppress(BrokenPipeError):
                        joined.send(line)
                    with anyio.fail_after(50):
                        await anyio.wait_readable(joined)
                    with suppress(ConnectionResetError):  # it left what was said unread
                        assert joined.recv(100) == b""
    refused = [line for line in logged if line["event"] == "socket.refused"]
    assert [line["uid"] for line in refused] == [os.getuid() + 1] * 2


@pytest.mark.linux("SO_PEERCRED")
def test_the_uid_of_the_other_end_is_what_the_system_says():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert unix_socket.peer_uid(ours) == os.getuid()
