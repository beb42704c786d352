"""Which daemon serves a configuration, however it is reached, and who holds a lock."""

from __future__ import annotations

import os

from mcpx.core.store.paths import LockOwner, acquire_lock, claim_folder, daemon_paths, lock_owner, take_lock


def test_a_configuration_has_one_daemon_whichever_link_it_is_reached_through(house, monkeypatch):
    folder = house.folder / "real"
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    (house.folder / "link.json").symlink_to(folder / "a.json")
    (house.folder / "second.json").symlink_to("link.json")
    (house.folder / "linked").symlink_to(folder)
    monkeypatch.chdir(folder)
    ways = ["a.json", "./x/../a.json", f"{folder}/a.json", "../link.json", f"{house.folder}/second.json"]
    ways += [f"{house.folder}/linked/a.json", f"{house.folder}/linked/../real/a.json"]
    reached = [daemon_paths(way) for way in ways]
    assert {paths.socket for paths in reached} == {reached[0].socket}
    assert {paths.folder for paths in reached} == {reached[0].folder}
    assert reached[3].config == f"{house.folder}/link.json"  # which may lead elsewhere one day


def test_dots_behind_a_linked_folder_lead_where_the_system_says(house):
    far = house.folder / "far" / "folder"
    far.mkdir(parents=True)
    (house.folder / "linked").symlink_to(far)
    assert daemon_paths(f"{house.folder}/linked/../a.json").config == f"{house.folder}/far/a.json"


def test_a_link_that_leads_elsewhere_now_still_finds_the_daemon_that_it_was_started_by(house):
    for name in ("one.json", "two.json"):
        (house.folder / name).write_text("{}")
    link = house.folder / "link.json"
    link.symlink_to("one.json")
    lock = acquire_lock(daemon_paths(link))
    link.unlink()
    link.symlink_to("two.json")
    assert daemon_paths(link).lock == daemon_paths(house.folder / "one.json").lock
    os.close(lock)
    assert daemon_paths(link).lock == daemon_paths(house.folder / "two.json").lock


def test_a_lock_says_who_holds_it_and_since_when(house):
    assert lock_owner(house.place.lock) is None
    lock = acquire_lock(house.place)
    owner = lock_owner(house.place.lock)
    assert owner == LockOwner(os.getpid(), house.config, house.place.lock.stat().st_mtime)
    os.close(lock)
    assert lock_owner(house.place.lock) is None


def test_who_looks_at_a_lock_is_not_taken_for_its_owner(house, monkeypatch):
    os.close(acquire_lock(house.place))  # the file names a process that does not hold it any more
    seen = []
    close = os.close

    def look_again(fd):
        monkeypatch.setattr(os, "close", close)
        seen.append(lock_owner(house.place.lock))
        close(fd)

    monkeypatch.setattr(os, "close", look_again)
    assert lock_owner(house.place.lock) is None
    assert seen == [None]


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_not_taken(house, monkeypatch):
    claim_folder(house.place)
    opened = os.open

    def remove_once_opened(path, *arguments):
        fd = opened(path, *arguments)
        house.place.lock.unlink()
        return fd

    monkeypatch.setattr(os, "open", remove_once_opened)
    assert take_lock(house.place.lock) is None
    monkeypatch.setattr(os, "open", opened)
    lock = take_lock(house.place.lock)
    assert lock is not None
    assert take_lock(house.place.lock) is None
    os.close(lock)
