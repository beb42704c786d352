"""The file of the sums: shared, replaced whole, and never a reason to fail."""

from __future__ import annotations

import multiprocessing
import os
import stat

import anyio
import pytest
from structlog.testing import capture_logs

from mcpx.core.events import stats_file
from mcpx.core.events.meter import Meter
from mcpx.core.events.stats import Count, Totals
from mcpx.core.events.stats_file import StatsFile, StatsWriter
from mcpx.core.system.locks import locked
from mcpx.core.telemetry.metrics import Activity
from supervisors import ChildSpec, Supervisor
from tests.mcpx.core.events.counting import called
from tests.mcpx.scripted import soon


def counted(calls=1, client="c"):
    totals = Totals(since="2026-01-01")
    totals.add(client, "s", "t", Count(calls, 100 * calls, 10 * calls))
    return totals


def test_counts_of_several_processes_add_up(tmp_path):
    one, other = StatsFile(tmp_path), StatsFile(tmp_path)
    one.add(counted())
    assert other.add(counted(2)).total == Count(3, 300, 30)
    assert one.read().total == Count(3, 300, 30)
    assert one.read().since == "2026-01-01"
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600


def _add_often(folder, times):
    for _ in range(times):
        StatsFile(folder).add(counted())


def test_nothing_is_lost_when_processes_write_at_once(tmp_path):
    forked = multiprocessing.get_context("fork")
    processes = [forked.Process(target=_add_often, args=(tmp_path, 20)) for _ in range(3)]
    for process in processes:
        process.start()
    _add_often(tmp_path, 20)
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert StatsFile(tmp_path).read().total.calls == 80


def test_without_counts_nothing_is_created(tmp_path):
    file = StatsFile(tmp_path / "new")
    assert file.add(Totals()) == Totals() == file.read()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("contents", [b"", b"{", b"[]", b'{"clients": 3}', b"[" * 100_000, b"\xff\x00"])
def test_a_file_that_cannot_be_read_is_set_aside(tmp_path, contents):
    file = StatsFile(tmp_path)
    file.path.write_bytes(contents)
    assert file.read() == Totals()
    with capture_logs() as logs:
        assert file.add(counted()).total.calls == 1
    assert (tmp_path / "stats.unreadable.json").read_bytes() == contents
    assert [line["event"] for line in logs] == ["stats.unreadable"]
    assert file.read().total.calls == 1


def test_members_that_a_newer_version_added_do_no_harm(tmp_path):
    file = StatsFile(tmp_path)
    file.path.write_bytes(b'{"clients":{"c":{"calls":1,"direct":2,"spent":3,"new":4}},"tools":{},"new":[]}')
    assert file.read().total == Count(1, 2, 3)


def test_a_link_or_a_pipe_of_that_name_is_not_read(tmp_path):
    file = StatsFile(tmp_path)
    file.path.symlink_to("/dev/zero")
    with pytest.raises(PermissionError, match="a link"):
        file.read()
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(PermissionError, match="not a file that is yours"):
        file.add(counted())


class _Flaky(StatsFile):
    broken = True
    tries = 0

    def add(self, counted):
        self.tries += 1
        if self.broken:
            raise OSError(28, "No space left on device")
        return super().add(counted)


async def _run(writer, body):
    root = Supervisor()
    root.add(ChildSpec(name="stats", run=writer.run))
    async with anyio.create_task_group() as tasks:
        await tasks.start(root.run)
        await body()
        root.stop()


@pytest.mark.anyio
async def test_it_is_written_at_the_end(tmp_path):
    meter, file = Meter({}, Activity()), StatsFile(tmp_path)
    file.add(counted(client="earlier"))

    async def body():
        await soon(lambda: meter.all_time().clients)
        called(meter)
        assert meter.all_time().total.calls == 2
        assert meter.since_start().total.calls == 1

    with anyio.fail_after(50):
        await _run(StatsWriter(meter, file), body)
    assert file.read().total == meter.all_time().total
    assert file.read().clients["c"].calls == 1


@pytest.mark.anyio
async def test_a_disk_that_is_full_for_a_while_loses_nothing_and_is_logged_once(tmp_path):
    meter, file = Meter({}, Activity()), _Flaky(tmp_path)
    called(meter)

    async def body():
        await soon(lambda: file.tries >= 3)
        file.broken = False

    with capture_logs() as logs, anyio.fail_after(50):
        await _run(StatsWriter(meter, file, interval_s=0.001), body)
    assert [line["event"] for line in logs if line["event"].startswith("stats")] == ["stats.unwritable"]
    assert file.read().total.calls == 1


def test_a_lock_that_is_not_given_back_is_not_waited_for_forever(tmp_path, monkeypatch):
    monkeypatch.setattr(stats_file, "LOCK_TIMEOUT_S", 0.0)
    file = StatsFile(tmp_path)
    with locked(file.path.with_suffix(".lock"), timeout_s=0), pytest.raises(BlockingIOError):
        StatsFile(tmp_path).add(counted())
