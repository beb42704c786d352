"""The end of the audit log, which is read without the rest of it."""

from __future__ import annotations

import json

from mcpx.core.events.audit import reading
from mcpx.core.events.audit.chain_files import segment_path


def write(folder, chain, first, count, *, at=0):
    lines = [json.dumps({"time": f"2026-01-01T00:00:{at + number:02d}.000000Z", "name": f"{chain}.{number}"})
             for number in range(count)]  # fmt: skip
    path = segment_path(folder, chain, first)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_the_last_lines_of_all_chains_by_their_time(tmp_path):
    write(tmp_path, 1, 1, 5, at=30)
    write(tmp_path, 1, 6, 3, at=40)
    write(tmp_path, 2, 1, 4, at=0)
    assert [line.name for line in reading.tail(tmp_path, 4)] == ["2.3", "1.0", "1.1", "1.2"]
    assert [line.name for line in reading.tail(tmp_path, 100)] == [
        *("2.0", "2.1", "2.2", "2.3"),
        *("1.0", "1.1", "1.2"),
    ]


def test_half_a_line_is_none(tmp_path, monkeypatch):
    path = write(tmp_path, 1, 1, 5)
    with path.open("a") as file:
        file.write('{"time": "2026')
    monkeypatch.setattr(reading, "TAIL_BYTES", path.stat().st_size - 20)
    assert [line.name for line in reading.tail(tmp_path, 9)] == ["1.1", "1.2", "1.3", "1.4"]


def test_there_may_be_none(tmp_path):
    assert reading.tail(tmp_path, 9) == []
    (tmp_path / "1-000000000001.jsonl").write_text("")
    assert reading.tail(tmp_path, 9) == []
