"""The token store that is a folder: what is in its files, whose they are, and what a crash leaves."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import stat
import sys
import warnings

import anyio
import pytest
import structlog.testing

from mcpx.core.system.locks import try_lock
from mcpx.oauth import record as files
from mcpx.oauth import token_store
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.token_store import TokenStore, open_store
from tests.mcpx.oauth.records import record_of, server_of

pytestmark = pytest.mark.anyio
IDENTITY = record_of().identity


@pytest.fixture
def store(tmp_path):
    return TokenStore(tmp_path / "state")


@pytest.fixture
def path(store):
    return files.record_path(store.folder, IDENTITY)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_record_comes_back_as_it_was(store, path):
    assert (await store.read(IDENTITY), store.stamp(IDENTITY)) == (None, None)
    record = record_of()
    await store.write(record)
    assert await store.read(IDENTITY) == record
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)


async def test_no_name_of_a_file_says_whose_sign_in_it_is(store):
    await store.write(record_of())
    async with store.lock(IDENTITY):
        names = " ".join(each.name for each in store.folder.iterdir())
    assert "notes" not in names


async def test_a_change_gives_another_stamp(store):
    await store.write(record_of(1))
    before = store.stamp(IDENTITY)
    assert store.stamp(IDENTITY) == before
    await store.write(record_of(2))
    assert store.stamp(IDENTITY) != before


async def test_what_is_deleted_leaves_nothing(store):
    await store.write(record_of())
    async with store.lock(IDENTITY):
        (store.folder / f"{IDENTITY.key}.0123.new").write_bytes(b"unfinished")
        await store.delete(IDENTITY)
    assert list(store.folder.iterdir()) == []
    async with store.lock(IDENTITY):
        await store.delete(IDENTITY)  # there was none


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": 2, "record": {}}',
        b"null",
        b" " * (files.MAX_RECORD_BYTES + 1),
        files.encode_record(record_of(server=server_of("https://other.example/mcp"))),
    ],
)
async def test_what_is_no_record_of_the_server_is_set_aside_and_said(store, path, contents):
    await store.write(record_of())
    path.write_bytes(contents)
    path.chmod(0o644)
    with structlog.testing.capture_logs() as logs:
        assert await store.read(IDENTITY) is None
    aside = path.with_suffix(".set-aside")
    assert (logs[0]["event"], logs[0]["path"]) == ("oauth.record_set_aside", str(aside))
    assert (path.exists(), mode_of(aside)) == (False, 0o600)
    await store.write(record_of(2, now=0))
    assert await store.read(IDENTITY) == record_of(2, now=0)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "open to others"])
async def test_what_others_may_have_put_there_is_not_read(store, path, kind, tmp_path):
    files.prepare(store.folder)
    if kind == "link":
        other = tmp_path / "other"
        other.write_bytes(files.encode_record(record_of()))
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(files.encode_record(record_of()))
        path.chmod(0o666)
    assert await store.read(IDENTITY) is None


async def test_a_record_that_others_can_read_is_closed_to_them(store, path):
    await store.write(record_of())
    path.chmod(0o644)
    store.folder.chmod(0o755)
    assert await store.read(IDENTITY) is not None
    await store.write(record_of(2))
    assert (mode_of(path), mode_of(store.folder)) == (0o600, 0o700)


async def test_a_folder_that_others_may_change_is_not_used(store):
    await store.write(record_of())
    store.folder.chmod(0o777)
    for use in (store.read(IDENTITY), store.write(record_of(2))):
        with pytest.raises(SignInError, match="open to others") as caught:
            await use
        assert caught.value.problem is Problem.NOT_STORED


async def test_a_state_folder_of_a_group_is_good_enough(store):
    store.folder.parent.mkdir()
    store.folder.parent.chmod(0o775)
    await store.write(record_of())
    assert await store.read(IDENTITY) is not None


async def test_a_folder_that_is_a_link_is_not_used(store, tmp_path):
    store.folder.parent.mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    store.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SignInError, match="not a folder of yours"):
        await store.write(record_of())


async def test_a_store_that_cannot_be_written_says_why_and_keeps_what_is_there(store, monkeypatch):
    await store.write(record_of())

    def full(*_, **__):
        raise OSError(28, "No space left on device", "x")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SignInError, match="No space left on device"):
            await store.write(record_of(2))
    assert (await store.read(IDENTITY)).tokens.access_token == "access-0001"
    assert [each.suffix for each in store.folder.iterdir()] == [".json"]


# --- the lock


async def test_one_at_a_time_has_the_lock_of_a_record(store, tmp_path):
    inside, most = 0, 0

    async def change(store):
        nonlocal inside, most
        async with store.lock(IDENTITY):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for each in (store, TokenStore(tmp_path / "state"), store):
            tasks.start_soon(change, each)
    assert most == 1


async def test_a_lock_that_is_removed_with_its_record_is_no_lock_any_more(store):
    async with store.lock(IDENTITY):
        await store.delete(IDENTITY)
        async with store.lock(IDENTITY):  # of the next record
            assert try_lock(files.lock_path(store.folder, IDENTITY)) is None


async def test_a_lock_that_another_process_keeps_is_waited_for_only_so_long(store, monkeypatch):
    monkeypatch.setattr(token_store, "LOCK_TIMEOUT_S", 0.01)
    async with store.lock(IDENTITY):
        with pytest.raises(SignInError, match="another process keeps the sign-in of notes locked") as caught:
            async with store.lock(IDENTITY):
                pass
    assert caught.value.problem is Problem.NOT_STORED


async def test_two_servers_have_locks_of_their_own(store):
    other = record_of(server=server_of("https://other.example/mcp")).identity
    async with store.lock(IDENTITY), store.lock(other):
        pass


# --- a crash


def killed_at(step, action):
    """Do something in a process that kills itself before its n-th system call; whether it came to that.

    Nothing else changes what is on the disk.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests: the child needs none
        child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = step

    def count(_frame, event, function):
        nonlocal left
        if event == "c_call" and (
            function.__module__ in {"posix", "fcntl"} or isinstance(function.__self__, io.IOBase)
        ):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(count)
        action()
    finally:
        sys.setprofile(None)
        os._exit(0)


def change(folder, number):
    """What a refresh and a sign-in do to the files."""
    lock = try_lock(files.lock_path(folder, IDENTITY))
    files.write_record(folder, record_of(number, now=0))
    os.close(lock)


def test_a_process_killed_at_any_step_of_a_change_leaves_the_old_record_or_the_new(store, path):
    files.write_record(store.folder, record_of(1, now=0))
    steps, seen = 0, set()
    while killed_at(steps + 1, lambda: change(store.folder, 2)):
        steps += 1
        for each in store.folder.iterdir():
            assert mode_of(each) == 0o600
        seen.add(files.read_record(store.folder, IDENTITY).tokens.access_token)
        change(store.folder, 1)  # nobody is locked out
        assert {each.suffix for each in store.folder.iterdir()} == {".json", ".lock"}
    assert (steps > 20, seen) == (True, {"access-0001", "access-0002"})


def test_a_process_killed_at_any_step_of_signing_out_leaves_the_record_or_nothing(store, path):
    steps = 0

    def forget():
        lock = try_lock(files.lock_path(store.folder, IDENTITY))
        files.delete_record(store.folder, IDENTITY)
        os.close(lock)

    files.write_record(store.folder, record_of(1, now=0))
    while killed_at(steps + 1, forget):
        steps += 1
        record = files.read_record(store.folder, IDENTITY)
        assert record is None or record.tokens.access_token == "access-0001"
        change(store.folder, 1)
    assert steps > 10


def test_a_killed_process_holds_no_lock(store):
    files.prepare(store.folder)
    killed_at(20, lambda: [try_lock(files.lock_path(store.folder, IDENTITY)), *map(len, ["x"] * 100)])
    lock = try_lock(files.lock_path(store.folder, IDENTITY))
    assert lock is not None
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def test_a_record_is_shown_without_its_secrets():
    shown = repr(record_of())
    assert not any(secret in shown for secret in ("access-0001", "refresh-0001", "hush-hush"))
    assert json.loads(files.encode_record(record_of()))["format"] == 1


def test_the_usual_folder_is_in_the_state_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    assert open_store("file").folder == tmp_path / "oauth"
