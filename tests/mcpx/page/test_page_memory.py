"""What a page keeps over the end of its daemon: its port, and its sessions, for those alone who had them."""

import hmac
import json
import socket
import stat
import time
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from mcpx.page import access
from mcpx.page.access import SESSION_S, Access, PageMemory
from mcpx.paths import configuration_folder
from tests.mcpx.page import visiting
from tests.mcpx.page.visiting import HTTP, Visitor, served

pytestmark = pytest.mark.anyio
outlives = pytest.mark.linux("sessions outlive the daemon where it is known whose a connection is")
PORT = 20_001


async def forever(_page, _argument):
    yield 1
    await anyio.sleep_forever()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    return configuration_folder(tmp_path / "c.json") / access.FILE_NAME


def running(tmp_path, monkeypatch, *arguments, **settings):
    """A daemon's page, whose listener has had its turn."""

    @asynccontextmanager
    async def run():
        async with served(tmp_path, monkeypatch, *arguments, **settings) as page:
            with anyio.fail_after(visiting.PATIENCE_S):
                while page.access.has_sessions(page.memory.port) and not (
                    page._listener and page._listener._server
                ):
                    await anyio.lowlevel.checkpoint()
            yield page

    return run()


@outlives
async def test_the_next_daemon_has_the_port_and_lets_the_browser_in(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        first = page.served.streams.id
    for _ in range(2):
        async with running(tmp_path, monkeypatch) as page:
            page.served.streams.topics = {"overview": forever}
            assert (await visitor.get("/ui/")).status == 200  # nobody has asked for a link
            async with visitor.stream("overview") as stream:
                assert (await stream.next("daemon"))["id"] == page.served.streams.id != first
                assert await stream.next("overview") == 1
            other = await Visitor.entering(page)
            assert other.origin == visitor.origin
            assert (await visitor.get("/ui/api/here")).status == 200


async def test_it_proves_to_a_window_that_it_is_the_same_users(tmp_path, monkeypatch):
    keys = []
    for name in ("a.json", "a.json", "b.json"):
        async with running(tmp_path, monkeypatch, name=name) as page:
            visitor = await Visitor.entering(page)
            keys.append((await visitor.get("/ui/api/key")).json["key"])
            for nonce in ("0f3c-made-up", "", "x" * 5000):
                proof = (await visitor.get(f"/ui/api/here?nonce={nonce}")).json["proof"]
                made = hmac.new(bytes.fromhex(keys[-1]), nonce[:100].encode(), "sha256")
                assert proof == made.hexdigest()
    assert keys[0] == keys[1] != keys[2]


@outlives
async def test_a_daemon_that_is_killed_leaves_it_behind_as_well(tmp_path, monkeypatch, kept):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        as_it_was = kept.read_bytes()  # nothing more is written by one that is killed
    kept.write_bytes(as_it_was)
    async with running(tmp_path, monkeypatch):
        assert (await visitor.get("/ui/")).status == 200


@outlives
async def test_beside_the_endpoints_of_http_sessions_last_as_well(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        http = {"port": free.getsockname()[1]}
    async with running(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
    async with running(tmp_path, monkeypatch, http) as page:
        assert page._listener is None
        with anyio.fail_after(visiting.PATIENCE_S):
            while page.hub.http().url is None:
                await anyio.lowlevel.checkpoint()
        assert (await visitor.get("/ui/")).status == 200


async def test_without_a_session_nothing_listens_and_the_port_is_kept(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        await visitor.post("/ui/api/sign-out")
    async with running(tmp_path, monkeypatch) as page:
        assert page._listener is None
        again = await Visitor.entering(page)
        assert again.origin == visitor.origin
        assert (await visitor.get("/ui/")).status == 401


async def test_of_a_page_that_nobody_has_opened_nothing_is_kept(tmp_path, monkeypatch, kept):
    async with running(tmp_path, monkeypatch) as page:
        await page.hub.reload(replace(page.hub.config, ui=False))
        await page.hub.reload(replace(page.hub.config, ui=True))
    assert not kept.exists()


async def test_a_page_that_was_turned_off_lets_nobody_in_later(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        await page.hub.reload(replace(page.hub.config, ui=False))
        with anyio.fail_after(visiting.PATIENCE_S):
            while page._listener is not None:
                await anyio.lowlevel.checkpoint()
    async with running(tmp_path, monkeypatch) as page:
        await Visitor.entering(page)
        assert (await visitor.get("/ui/")).status == 401


@outlives
async def test_a_port_that_somebody_else_had_is_never_used_again_nor_are_its_sessions(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
    with socket.create_server((visitor.host, visitor.port)):
        async with served(tmp_path, monkeypatch) as page:
            with anyio.fail_after(visiting.PATIENCE_S):
                while page.access.sessions():
                    await anyio.lowlevel.checkpoint()
            other = await Visitor.entering(page)
            assert other.port != visitor.port
    async with running(tmp_path, monkeypatch) as page:
        again = await Visitor.entering(page)
        assert again.port == other.port
        _, _, secret = visitor.cookie.partition("=")
        stolen = Visitor(again.origin, f"mcpx_{again.port}={secret}")
        assert (await stolen.get("/ui/")).status == 401


async def test_a_session_is_good_on_its_own_port_alone(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch, HTTP) as page:
        visitor = await Visitor.entering(page)
        _, _, secret = visitor.cookie.partition("=")
        assert page.access.session(secret, visitor.port) is not None
        assert page.access.session(secret, visitor.port + 1) is None


async def test_where_the_system_does_not_say_whose_a_connection_is_no_session_is_taken_up(
    tmp_path, monkeypatch
):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
    monkeypatch.setattr(access, "users_are_known", lambda: False)
    async with running(tmp_path, monkeypatch) as page:
        again = await Visitor.entering(page)
        assert again.origin == visitor.origin
        assert (await visitor.get("/ui/")).status == 401
        assert (await again.get("/ui/")).status == 200


@outlives
async def test_each_configuration_has_its_own(tmp_path, monkeypatch):
    names, visitors = ("a.json", "b.json"), {}
    for _ in range(2):
        async with (
            running(tmp_path, monkeypatch, name=names[0]) as one,
            running(tmp_path, monkeypatch, name=names[1]) as other,
        ):
            for name, page in zip(names, (one, other), strict=True):
                visitor = visitors.setdefault(name, await Visitor.entering(page))
                assert (await visitor.get("/ui/")).status == 200
                assert page.memory.port == visitor.port
    one, other = visitors.values()
    assert one.port != other.port


async def test_the_file_is_the_users_alone_and_holds_no_secret(tmp_path, monkeypatch, kept):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        code = (await page.link()).partition("code=")[2]
    text = kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert visitor.cookie.partition("=")[2] not in text
    assert code not in text
    assert set(json.loads(text)) == {"port", "key", "sessions"}
    assert {tuple(each) for each in json.loads(text)["sessions"]} == {("sha256", "port", "until")}


@pytest.mark.parametrize("harm", ["empty", "text", "list", "open", "link", "folder", "huge", "odd"])
async def test_a_file_that_is_not_in_order_counts_as_none(tmp_path, monkeypatch, kept, harm):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
    text = kept.read_bytes()
    if harm in {"link", "folder"}:
        kept.unlink()
    if harm == "link":
        (tmp_path / "elsewhere").write_bytes(text)
        kept.symlink_to(tmp_path / "elsewhere")
    elif harm == "folder":
        kept.mkdir()
    elif harm == "open":
        kept.chmod(0o622)
    else:
        odd, deep = text.replace(b'"sha256":"', b'"sha256":"z'), b"[" * 50_000
        kept.write_bytes(
            {"empty": b"", "text": b"{", "list": deep, "huge": text + b" " * 70_000, "odd": odd}[harm]
        )
    async with running(tmp_path, monkeypatch) as page:
        assert page.access.sessions() == []
        await Visitor.entering(page)
        assert (await Visitor((await page.link()), visitor.cookie).get("/ui/")).status == 401


async def test_where_nothing_can_be_written_the_page_works_and_no_old_session_is_left(
    tmp_path, monkeypatch, kept
):
    async with running(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)

        def full(*_arguments, **_options):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(access, "replace_file", full)
        assert (await visitor.get("/ui/")).status == 200
        await visitor.post("/ui/api/sign-out")
        assert not kept.exists()


# --- time


def remembered(folder, *, wall):
    access = Access()
    PageMemory(folder, access, lambda: wall)
    return access


@outlives
def test_a_session_ends_though_no_daemon_runs_and_no_clock_makes_it_longer(tmp_path):
    now, access = time.time(), Access()
    PageMemory(tmp_path, access, lambda: now)
    access.redeem(access.new_code(), PORT)
    for later, left in ((0, SESSION_S), (SESSION_S - 60, 60), (SESSION_S + 1, None), (-9e9, SESSION_S)):
        found = remembered(tmp_path, wall=now + later)
        assert [each for _, _, each in found.sessions()] == (
            [] if left is None else [pytest.approx(left, abs=5)]
        )


@outlives
def test_use_is_kept_now_and_then_and_at_the_end(tmp_path):
    now, wall = 0.0, 1e9
    access = Access(lambda: now)
    PageMemory(tmp_path, access, lambda: wall + now)
    secret = access.redeem(access.new_code(), PORT)
    writes = []
    write, access.on_change = access.on_change, lambda: writes.append(now) or write()
    for minute in range(61):
        now = minute * 60.0
        assert access.session(secret, PORT)
    assert 3 <= len(writes) <= 7
    now += 300.0
    assert access.session(secret, PORT)
    access.end_streams()
    assert [left for _, _, left in remembered(tmp_path, wall=wall + now).sessions()] == [
        pytest.approx(SESSION_S)
    ]
