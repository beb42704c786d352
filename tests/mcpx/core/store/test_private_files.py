"""Private files: what is not this user's alone is refused."""

import os
from pathlib import Path

import pytest

from mcpx.core.store.folders import distrust_folder, foreign_folder
from mcpx.core.store.private_files import ForeignFileError, read_own_file, remove_partial, replace_file


def test_what_was_replaced_is_read_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for contents in (b"one", b"another"):
        replace_file(path, contents)
        assert read_own_file(path, 10, closed_to=0o077) == contents
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("make", "problem", "mode"),
    [
        (lambda path: path.symlink_to(os.devnull), "a link", None),
        (os.mkfifo, "not a file that is yours alone", None),
        (lambda path: (path.write_bytes(b"a"), path.chmod(0o620)), "not a file that is yours alone", 0o620),
        (lambda path: path.write_bytes(b"abcd"), "too long", None),
    ],
)
def test_a_file_that_is_not_ones_own_is_refused(tmp_path: Path, make, problem: str, mode: int | None) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "a")
    with pytest.raises(ForeignFileError) as refused:
        read_own_file(tmp_path / "a", 3)
    assert refused.value.strerror == problem
    assert refused.value.mode == mode


def test_a_folder_is_no_file_and_one_that_is_open_to_others_is_not_ones_own(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_own_file(tmp_path, 3)
    assert foreign_folder(tmp_path) is None
    tmp_path.chmod(0o720)
    assert foreign_folder(tmp_path) == "open to others (mode 720)"
    assert distrust_folder(tmp_path) == f"{tmp_path}: open to others (mode 720)"


def test_what_a_killed_writer_has_begun_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a.json", "a.0f.new", "b.0f.new"):
        (tmp_path / name).touch()
    remove_partial(tmp_path / "a.json")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "b.0f.new"]
