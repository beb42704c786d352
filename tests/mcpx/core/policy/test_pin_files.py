"""The files of pins: whatever is done to them is noticed, and nothing is begun anew."""

from __future__ import annotations

import os
import shutil
import stat
from functools import partial

import pytest
from msgspec.structs import replace

from mcpx.core.policy.pin_files import Loaded, PinFiles, SealedFiles
from mcpx.core.policy.pin_record import About, PinRecord

ONE, OTHER = "1" * 64, "2" * 64
EMPTY = PinRecord(server="s", started_by="x")
SEEN = replace(EMPTY, state="pinned", about=About(name="s"))


@pytest.fixture
def state(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path / "state"


@pytest.fixture
def files(state):
    return PinFiles(state)


def write(files, identity=ONE, record=SEEN, *, anew=False):
    return files.update(identity, lambda _before: record, EMPTY, anew=EMPTY if anew else None)


def records(files):
    return sorted(path for path in files.folder.glob("*.json") if path.stem != "index")


def damaged(path, number=-3):
    data = bytearray(path.read_bytes())
    data[number] ^= 1
    path.write_bytes(data)


def test_nothing_is_known_of_a_server_that_was_never_seen(files):
    assert files.load(ONE) == Loaded(None, None)
    write(files)
    assert files.load(OTHER) == Loaded(None, None)


def test_what_was_written_is_there_for_the_owner_alone(files, state):
    write(files)
    assert PinFiles(state).load(ONE) == Loaded(SEEN, None)
    found = [state / "trust.key", *files.folder.iterdir()]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in found)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700


def test_an_edit_gets_what_another_process_has_written(state):
    write(PinFiles(state))
    got = []

    def edit(record):
        got.append(record)
        return replace(record, always={"t": "d"})

    PinFiles(state).update(ONE, edit, EMPTY)
    assert got == [SEEN]


def test_nothing_is_written_where_nothing_changes(files):
    write(files)
    before = files.signature(), files.stamp(ONE)
    write(files)
    assert (files.signature(), files.stamp(ONE)) == before


def linked(path):
    path.unlink()
    path.symlink_to("/dev/null")


HARM = {
    "edited": lambda files: damaged(records(files)[0]),
    "head edited": lambda files: damaged(records(files)[0], 20),
    "emptied": lambda files: records(files)[0].write_bytes(b""),
    "removed": lambda files: records(files)[0].unlink(),
    "index removed": lambda files: (files.folder / "index.json").unlink(),
    "index edited": lambda files: damaged(files.folder / "index.json"),
    "key removed": lambda files: files.folder.parent.joinpath("trust.key").unlink(),
    "key edited": lambda files: damaged(files.folder.parent / "trust.key", 1),
    "key emptied": lambda files: files.folder.parent.joinpath("trust.key").write_bytes(b""),
    "folder removed": lambda files: shutil.rmtree(files.folder),
    "all records removed": lambda files: [path.unlink() for path in records(files)],
    "renamed": lambda files: records(files)[0].rename(files.folder / "x.json"),
    "of another server": lambda files: shutil.copy(records(files)[1], records(files)[0]),
    "a link": lambda files: linked(records(files)[0]),
    "open to others": lambda files: records(files)[0].chmod(0o666),
    "folder open to others": lambda files: files.folder.chmod(0o777),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_what_is_done_to_the_files_is_noticed_and_nothing_is_written_over_it(files, state, harm):
    write(files)
    write(files, OTHER, replace(SEEN, server="other"))
    path = files.folder / f"{ONE}.json"
    if not path.exists():
        pytest.fail("the first record is not the first file")
    harm(files)
    assert files.load(ONE).problem is not None
    assert write(PinFiles(state)).problem is not None
    assert files.load(ONE).problem is not None


@pytest.mark.parametrize("harm", [each for name, each in HARM.items() if not name.startswith("folder open")])
def test_a_person_can_have_the_record_made_anew(files, harm):
    write(files)
    write(files, OTHER)
    harm(files)
    assert write(files, anew=True) == Loaded(SEEN, None)
    assert files.load(ONE) == Loaded(SEEN, None)


@pytest.mark.parametrize("harm", ["index removed", "key removed", "folder removed"])
def test_what_is_approved_anew_for_one_is_not_for_others(files, harm):
    write(files)
    write(files, OTHER)
    HARM[harm](files)
    write(files, anew=True)
    if harm == "index removed":
        (files.folder / f"{OTHER}.json").unlink()
    assert files.load(OTHER).problem is not None


def test_after_everything_was_approved_a_new_server_is_new_again(files):
    write(files)
    shutil.rmtree(files.folder)
    write(files, anew=True)
    assert files.load(OTHER).problem is not None
    files.forget_losses()
    assert files.load(OTHER) == Loaded(None, None)


def test_an_older_file_that_is_put_back_is_noticed(files):
    write(files)
    old = records(files)[0].read_bytes()
    write(files, record=replace(SEEN, always={"t": "d"}))
    records(files)[0].write_bytes(old)
    assert "older" in files.load(ONE).problem


def test_a_process_that_is_killed_between_two_files_has_done_no_harm(files, monkeypatch):
    def killed(*_given):
        raise KeyboardInterrupt

    for name in ("_write_key", "write"):
        whole, calls = getattr(SealedFiles, name), []

        def dying(self, *given, whole=whole, calls=calls, **more):
            whole(self, *given, **more)
            calls.append(given)
            killed()

        monkeypatch.setattr(SealedFiles, name, dying)
        with pytest.raises(KeyboardInterrupt):
            write(files)
        monkeypatch.undo()
        assert files.load(ONE).problem is None
    write(files)
    assert files.load(ONE) == Loaded(SEEN, None)


def test_a_full_disk_is_an_error_and_what_was_there_is_there(files, monkeypatch):
    write(files)

    def full(*_given, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mcpx.core.policy.pin_files.replace_file", full)
    with pytest.raises(OSError, match="No space"):
        write(files, record=EMPTY)
    assert files.load(ONE) == Loaded(SEEN, None)


def test_another_process_that_writes_is_waited_for(files, monkeypatch):
    write(files)
    monkeypatch.setattr("mcpx.core.policy.pin_files.LOCK_TIMEOUT_S", 0.0)
    with files._files.writing(), pytest.raises(BlockingIOError):
        partial(write, files, record=EMPTY)()
    write(files, record=EMPTY)
    assert os.listdir(files.folder)  # noqa: PTH208 - whatever is there
