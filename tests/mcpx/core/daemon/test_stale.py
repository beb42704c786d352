"""What is removed after daemons that are gone, and what never is."""

from __future__ import annotations

import os

import pytest

from mcpx.core.store.listening import listen
from mcpx.core.store.paths import acquire_lock, claim_folder, daemon_paths, take_lock
from mcpx.core.store.stale import claim_configuration_folder, clean_up

DAY_S = 86400.0


def make_old(path, days):
    then = path.lstat().st_mtime - days * DAY_S
    os.utime(path, (then, then), follow_symlinks=False)


@pytest.fixture
def link(house):
    made = house.folder / "link.json"
    made.symlink_to(house.config)
    return made


def left(house):
    return sorted(path.suffix for path in house.place.socket.parent.iterdir())


def test_after_a_daemon_that_was_killed_nothing_is_left(house, link):
    lock = acquire_lock(daemon_paths(link))
    listen(house.place).close()
    os.close(take_lock(house.place.starting))
    house.place.stopped.touch()
    os.close(lock)
    assert left(house) == [".alias", ".lock", ".sock", ".starting", ".stopped"]
    clean_up()
    assert left(house) == [".stopped"]  # its shims may read it yet
    make_old(house.place.stopped, 2)
    clean_up()
    assert left(house) == []


def test_what_a_daemon_holds_is_left_alone(house, link):
    lock = acquire_lock(daemon_paths(link))
    with listen(house.place):
        clean_up()
        assert left(house) == [".alias", ".lock", ".sock"]
    os.close(lock)


def test_where_a_daemon_is_being_started_nothing_is_touched(house):
    claim_folder(house.place)
    listen(house.place).close()
    lock = take_lock(house.place.starting)
    clean_up()
    assert house.place.socket.exists()
    os.close(lock)


def test_what_is_not_of_a_daemon_is_left_alone(house):
    claim_folder(house.place)
    house.place.socket.write_text("precious")
    (house.place.socket.parent / "notes.lock").touch()
    clean_up()
    assert house.place.socket.read_text() == "precious"
    assert left(house) == [".lock", ".sock"]


def test_a_folder_that_is_open_to_others_is_not_cleaned_up(house):
    listen(house.place).close()
    house.place.socket.parent.chmod(0o777)
    clean_up()
    assert left(house) == [".sock"]


@pytest.mark.parametrize(
    ("days", "config_exists", "runs", "stays"),
    [(31, False, False, False), (29, False, False, True), (31, True, False, True), (31, False, True, True)],
)
def test_what_was_kept_for_a_configuration_goes_with_it_in_time(house, days, config_exists, runs, stays):
    folder = claim_configuration_folder(house.config)
    (folder / "stats.json").write_text("{}")
    for path in (*folder.iterdir(), folder):
        make_old(path, days)
    if config_exists:
        house.write({})
    lock = acquire_lock(house.place) if runs else None
    clean_up()
    assert folder.exists() == stays
    if lock is not None:
        os.close(lock)


def test_logs_of_the_former_layout_go_when_nobody_writes_them_any_more(house):
    logs = house.folder / "state" / "logs"
    logs.mkdir(parents=True)
    old, new = logs / "old.log", logs / "new.log"
    for path in (old, new):
        path.touch()
    make_old(old, 31)
    clean_up()
    assert (old.exists(), new.exists()) == (False, True)


def test_where_no_folder_is_there_is_nothing_to_do(house):
    clean_up()
    assert not (house.folder / "state").exists()
