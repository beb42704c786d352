"""What servers were seen to take: the most counts, fades, and is there again at the next start."""

from __future__ import annotations

from pathlib import Path

from mcpx.cluster.assigning import FILE_NAME, SeenMemory

MIB = 1 << 20


def test_the_most_of_one_session_is_kept_over_a_restart(tmp_path: Path) -> None:
    seen = SeenMemory(tmp_path)
    assert seen.of("s") == 0
    seen.note("s", 300 * MIB, 3)
    seen.note("s", 50 * MIB, 1)
    found = seen.changed()
    assert found is not None
    seen.save(found)
    assert seen.changed() is None
    again = SeenMemory(tmp_path)
    again.load()
    assert 99 * MIB < again.of("s") <= 100 * MIB


def test_one_bad_day_is_forgotten(tmp_path: Path) -> None:
    seen = SeenMemory(tmp_path)
    seen.note("s", 4000 * MIB, 1)
    for _ in range(20_000):
        seen.note("s", 50 * MIB, 1)
    assert seen.of("s") < 60 * MIB


def test_a_file_that_cannot_be_read_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b'{"s": "much"')
    seen = SeenMemory(tmp_path)
    seen.load()
    assert seen.of("s") == 0
    seen.note("s", MIB, 1)
    seen.save(seen.changed() or {})
    again = SeenMemory(tmp_path)
    again.load()
    assert again.of("s") == MIB
