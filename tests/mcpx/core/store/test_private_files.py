"""Private files: what is not this user's alone is refused."""

import os
from pathlib import Path

import pytest

from mcpx.core.config.load import (
    CLUSTER_FILE,
    ClusterFile,
    read_cluster_file,
    remove_cluster_file,
    write_cluster_file,
)
from mcpx.core.events.search_history import HistoryFile, SearchHistory
from mcpx.core.events.stats_file import StatsFile
from mcpx.core.policy.agreements import STORE, Agreements
from mcpx.core.policy.tokens import TokenError, load_named
from mcpx.core.servers.offers import remembered
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.store.folders import distrust_folder, foreign_folder
from mcpx.core.store.private_files import ForeignFileError, read_own_file, remove_partial, replace_file
from mcpx.errors import DaemonError
from tests.mcpx.core.events.test_stats_file import counted


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


DAMAGED = b'{"\xff": {"\xfe": 1}, "children": {"\xff": {}}}'


@pytest.fixture
def damaged(tmp_path):
    """Write such a file of that name, and return its path."""

    def write(name, content=DAMAGED):
        path = tmp_path / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    return write


def test_agreements_count_as_none_and_are_not_overwritten(damaged):
    agreements = Agreements(damaged(STORE).parent)
    assert agreements.look() is False


def test_the_sums_are_begun_again(damaged):
    file = StatsFile(damaged("stats.json", b'{"since": "\xff"}').parent)
    assert file.read().total.calls == 0
    assert file.add(counted()).total.calls == 1


def test_tokens_are_refused_with_what_to_do(damaged):
    with pytest.raises(TokenError, match="remove it, and make new ones"):
        load_named(damaged("tokens.json", b'{"tokens": [{"name": "\xff"}]}'))


def test_a_ledger_is_not_believed(damaged):
    ledger = Ledger(damaged("children/1-1.json").parent.parent)
    assert ledger.sweep() == []


def test_a_catalogue_is_unreadable(damaged):
    with pytest.raises(remembered.UnreadableCatalogue):
        remembered._read_file(damaged("c.json", b'{"server": "\xff"}'), "x")


@pytest.mark.anyio
async def test_a_history_is_begun_again(damaged):
    history = SearchHistory()
    await HistoryFile(history, damaged("searches.json").parent, lambda: True).read()
    assert history.people == {}


def test_what_was_written_is_read_until_it_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "configs" / "x"
    assert read_cluster_file(folder) is None
    write_cluster_file(folder, "10.0.0.1:6379")
    assert read_cluster_file(folder) == ClusterFile("10.0.0.1:6379", allow_open=False)
    write_cluster_file(folder, "auto", allow_open=True)
    assert read_cluster_file(folder) == ClusterFile("auto", allow_open=True)
    assert (folder / CLUSTER_FILE).stat().st_mode & 0o777 == 0o600
    assert remove_cluster_file(folder)
    assert read_cluster_file(folder) is None
    assert not remove_cluster_file(folder)


@pytest.mark.parametrize("contents", [b"", b"{}", b'{"address":1}', b'{"address":"\xff"}', b"[" * 100_000])
def test_one_that_cannot_be_used_is_an_error_and_not_no_cluster(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / CLUSTER_FILE).write_bytes(contents)
    with pytest.raises(DaemonError, match=CLUSTER_FILE):
        read_cluster_file(tmp_path)


def test_one_that_others_may_change_or_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    write_cluster_file(tmp_path, "10.0.0.1:6379")
    path = tmp_path / CLUSTER_FILE
    path.chmod(0o666)
    with pytest.raises(DaemonError, match="others may change it"):
        read_cluster_file(tmp_path)
    path.chmod(0o600)
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(DaemonError, match="others may change it"):
            read_cluster_file(tmp_path)
    path.unlink()
    (tmp_path / "real").write_text('{"address":"evil:1"}')
    path.symlink_to(tmp_path / "real")
    with pytest.raises(DaemonError):
        read_cluster_file(tmp_path)
