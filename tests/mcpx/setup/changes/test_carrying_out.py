"""Changes of files: all of them or none, copies first, links and modes kept, and nothing lost by a kill."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpx.setup import changes
from mcpx.setup.changes import Change, ChangeError, Edit, FileChanged, State, carrying_out, journal
from tests.mcpx.setup.changes.scenes import four_files, snapshot


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_files_are_changed_and_change_back_byte_for_byte(home: Path, state: Path) -> None:
    edits = four_files(home)
    before = snapshot(home)

    done = changes.carry_out("install cursor", edits, about={"clients": ["cursor"]}, state=state)

    assert done.state is State.DONE
    assert (home / "linked.json").is_symlink()
    assert (home / "linked.json").read_bytes() == b"{}\n" * 5000
    assert (home / "dotfiles" / "real.json").stat().st_mode & 0o777 == 0o644
    assert not (home / "going.toml").exists()
    assert (home / "new" / "deeper" / "new.yaml").stat().st_mode & 0o777 == 0o600

    undo = changes.undo_last(state=state)

    assert undo is not None
    assert undo.undoes == done.id
    assert snapshot(home) == before
    assert changes.undo_last(state=state) is None


def test_the_journal_has_copies_for_their_owner_alone(home: Path, state: Path) -> None:
    edits = four_files(home)
    done = changes.carry_out("install --adopt cursor", edits, about={"clients": ["cursor"]}, state=state)
    [found] = changes.history(state)
    assert found == done
    assert found.id.endswith("Z-install-adopt-cursor")
    assert [found.before(index) for index in range(4)] == [edit.before for edit in edits]
    assert [found.after(index) for index in range(4)] == [edit.after for edit in edits]
    assert found.about == {"clients": ["cursor"]}
    assert {path.stat().st_mode & 0o077 for path in (state / "changes").rglob("*")} == {0}


def test_changes_are_taken_back_one_by_one_the_last_first(home: Path, state: Path) -> None:
    path = home / "a"
    for number in range(3):
        before = str(number - 1).encode() if number else None
        changes.carry_out("count", [Edit(path, before, str(number).encode())], state=state)
    seen = []
    while changes.undo_last(state=state):
        seen.append(path.read_bytes() if path.exists() else None)
    assert seen == [b"1", b"0", None]


@pytest.mark.parametrize("found", [b"other", None])
def test_a_file_that_is_not_as_expected_stops_all(home: Path, state: Path, found: bytes | None) -> None:
    edits = four_files(home)
    (home / "same.json").unlink()
    if found is not None:
        (home / "same.json").write_bytes(found)
    before = snapshot(home)
    with pytest.raises(FileChanged, match=r"same\.json: changed meanwhile, so nothing was written"):
        changes.carry_out("install", edits, state=state)
    assert snapshot(home) == before
    assert changes.history(state) == []


def test_a_file_that_changes_at_the_last_moment_has_the_others_put_back(home: Path, state: Path) -> None:
    edits = four_files(home)
    before = snapshot(home)

    def intrude() -> None:
        (home / "going.toml").write_bytes(b"the editor was quicker")

    (home / "b").write_bytes(b"")
    edits.insert(2, Edit(home / "b", b"", b"", perform=intrude))
    with pytest.raises(FileChanged, match=r"going\.toml: changed meanwhile"):
        changes.carry_out("install", edits, state=state)
    (home / "b").unlink()
    mode, _ = before["going.toml"]
    assert snapshot(home) == {**before, "going.toml": (mode, b"the editor was quicker")}
    assert [change.state for change in changes.history(state)] == [State.TAKEN_BACK]


def test_undo_refuses_what_was_changed_since_and_says_where_the_copy_is(home: Path, state: Path) -> None:
    edits = four_files(home)
    done = changes.carry_out("install", edits, state=state)
    (home / "linked.json").write_bytes(b"mine again")
    before = snapshot(home)
    with pytest.raises(FileChanged, match=r"linked\.json was changed since") as refused:
        changes.undo_last(state=state)
    assert str(done.copy_before(1)) in str(refused.value)
    assert done.copy_before(1).read_bytes() == edits[1].before
    assert snapshot(home) == before

    undo = changes.undo_last(force=True, state=state)
    assert undo is not None
    assert (home / "linked.json").read_bytes() == edits[1].before
    replaced = [undo.before(index) for index, file in enumerate(undo.files) if "linked" in file.path]
    assert replaced == [b"mine again"]


def test_a_folder_that_was_created_stays_if_others_use_it(home: Path, state: Path) -> None:
    changes.carry_out("install", [Edit(home / "a" / "b" / "c", None, b"")], state=state)
    (home / "a" / "other").write_bytes(b"")
    changes.undo_last(state=state)
    assert sorted(path.name for path in home.rglob("*")) == ["a", "other"]


def test_a_link_to_nothing_stays_and_leads_to_the_new_file(home: Path, state: Path) -> None:
    (home / "link").symlink_to("there/file")
    changes.carry_out("install", [Edit(home / "link", None, b"x")], state=state)
    assert (home / "there" / "file").read_bytes() == b"x"
    changes.undo_last(state=state)
    assert [path.name for path in home.rglob("*")] == ["link"]
    assert (home / "link").is_symlink()


def test_another_program_may_do_an_edit_and_what_it_left_is_taken_back(home: Path, state: Path) -> None:
    path = home / "client.json"
    path.write_bytes(b"{}")

    def by_itself() -> None:
        path.write_bytes(b'{"mcpx": 1}')

    done = changes.carry_out("install", [Edit(path, b"{}", b"expected", perform=by_itself)], state=state)
    assert done.after(0) == b'{"mcpx": 1}'
    changes.undo_last(state=state)
    assert path.read_bytes() == b"{}"


def test_what_another_program_did_wrongly_is_mended(home: Path, state: Path) -> None:
    path = home / "client.json"
    path.write_bytes(b"{}")
    edit = Edit(path, b"{}", b"expected", perform=lambda: b"expected")
    changes.carry_out("install", [edit], state=state)
    assert path.read_bytes() == b"expected"
    changes.undo_last(state=state)
    assert path.read_bytes() == b"{}"


def test_no_copy_no_change(home: Path, tmp_path: Path) -> None:
    edits = four_files(home)
    before = snapshot(home)
    (tmp_path / "state").write_bytes(b"a file, where the folder should be")
    with pytest.raises(ChangeError, match="no copy of your files can be kept, and nothing was changed"):
        changes.carry_out("install", edits, state=tmp_path / "state")
    assert snapshot(home) == before


@pytest.mark.parametrize("nth", range(1, 40))
def test_a_full_disk_changes_nothing(
    home: Path, state: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    edits = four_files(home)
    before = snapshot(home)
    left = iter(range(nth - 1, -1, -1))
    real = os.fsync

    def full(descriptor: int) -> None:
        if next(left, 1) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    try:
        changes.carry_out("install", edits, state=state)
    except ChangeError as error:
        assert "No space left on device" in str(error)  # noqa: PT017
        assert "nothing was changed" in str(error)  # noqa: PT017
        assert snapshot(home) == before
    else:
        assert changes.history(state)[-1].state is State.DONE


def test_a_journal_that_others_may_change_is_not_used(home: Path, state: Path) -> None:
    (state / "changes").mkdir(parents=True)
    (state / "changes").chmod(0o777)
    with pytest.raises(ChangeError, match="others may change what is in it"):
        changes.carry_out("install", [Edit(home / "a", None, b"")], state=state)
    assert not (home / "a").exists()


def test_a_second_command_waits_and_says_so(home: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_WAIT_S", 0.0)
    changes.carry_out("install", [Edit(home / "a", None, b"")], state=state)
    with (state / "changes" / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ChangeError, match="another mcpx command is changing files"):
            changes.carry_out("install", [Edit(home / "b", None, b"")], state=state)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused(home: Path, kind: str) -> None:
    path = home / "odd"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(ChangeError, match="not a regular file"):
        changes.read_file(path)


@pytest.fixture
def interrupted(home: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Change:
    """A change of two files that was cut short before the journal said that it is done."""

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    for name in ("one", "two"):
        (home / name).write_bytes(b"old")
    edits = [Edit(home / name, b"old", b"new") for name in ("one", "two")]
    with monkeypatch.context() as patched:
        patched.setattr(journal.Journal, "mark", killed)
        patched.setattr(carrying_out, "_abandon", killed)
        with pytest.raises(KilledError):
            changes.carry_out("install", edits, state=state)
    [change] = changes.unfinished(state)
    assert (home / "one").read_bytes() == b"new"
    return change


def test_what_was_changed_since_an_interruption_stays_and_the_rest_is_put_back(
    home: Path, state: Path, interrupted: Change
) -> None:
    (home / "one").write_bytes(b"mine")
    [sentence] = changes.recover(state)
    assert f"{home}/one was changed since and stays; see {interrupted.copy_before(0)}" in sentence
    assert ((home / "one").read_bytes(), (home / "two").read_bytes()) == (b"mine", b"old")
    assert changes.unfinished(state) == []


def test_a_copy_that_is_gone_does_not_stop_what_can_be_put_back(
    home: Path, state: Path, interrupted: Change
) -> None:
    interrupted.copy_before(1).unlink()
    [sentence] = changes.recover(state)
    assert "the copy is gone" in sentence
    assert ((home / "one").read_bytes(), (home / "two").read_bytes()) == (b"old", b"new")
    assert changes.unfinished(state) == []


def test_a_file_that_cannot_be_put_back_stops_all_further_changes(
    home: Path, state: Path, interrupted: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/x")

    monkeypatch.setattr(carrying_out, "stage", refused)
    with pytest.raises(ChangeError, match="was interrupted, and cannot be taken back: /x: Permission denied"):
        changes.carry_out("add", [], state=state)
    assert [change.id for change in changes.unfinished(state)] == [interrupted.id]


def test_what_another_program_did_before_the_interruption_stays_until_it_is_undone(
    home: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        (home / "theirs").write_bytes(b"changed by itself")
        raise KilledError

    (home / "ours").write_bytes(b"old")
    (home / "theirs").write_bytes(b"old")
    edits = [Edit(home / "ours", b"old", b"new"), Edit(home / "theirs", b"old", b"x", perform=killed)]
    with monkeypatch.context() as patched:
        patched.setattr(carrying_out, "_abandon", lambda *_: "")
        with pytest.raises(KilledError):
            changes.carry_out("install", edits, state=state)
    [sentence] = changes.recover(state)
    assert "was changed by another program, and stays so until mcpx undo" in sentence
    assert (home / "ours").read_bytes() == b"old"
    changes.undo_last(state=state)
    assert (home / "theirs").read_bytes() == b"old"


@pytest.mark.timeout(300)
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path) -> None:
    driver = Path(__file__).with_name("kill_a_change.py")
    root = Path(__file__).parents[4]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    ended = subprocess.run(
        [sys.executable, driver, tmp_path], env=environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    steps = json.loads(ended.stdout)
    assert steps["change"] > 50, steps
    assert steps["undo"] > 50, steps
    assert steps["recover"] > 10, steps
