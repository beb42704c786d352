"""The file that names the cluster: what is read of it, and what is not, for servers' secrets go there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpx.core.store.cluster_file import (
    FILE_NAME,
    ClusterFile,
    read_cluster_file,
    remove_cluster_file,
    write_cluster_file,
)
from mcpx.errors import DaemonError


def test_what_was_written_is_read_until_it_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "configs" / "x"
    assert read_cluster_file(folder) is None
    write_cluster_file(folder, "10.0.0.1:6379")
    assert read_cluster_file(folder) == ClusterFile("10.0.0.1:6379", allow_open=False)
    write_cluster_file(folder, "auto", allow_open=True)
    assert read_cluster_file(folder) == ClusterFile("auto", allow_open=True)
    assert (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert remove_cluster_file(folder)
    assert read_cluster_file(folder) is None
    assert not remove_cluster_file(folder)


@pytest.mark.parametrize("contents", [b"", b"{}", b'{"address":1}', b'{"address":"\xff"}', b"[" * 100_000])
def test_one_that_cannot_be_used_is_an_error_and_not_no_cluster(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(contents)
    with pytest.raises(DaemonError, match=FILE_NAME):
        read_cluster_file(tmp_path)


def test_one_that_others_may_change_or_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    write_cluster_file(tmp_path, "10.0.0.1:6379")
    path = tmp_path / FILE_NAME
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
