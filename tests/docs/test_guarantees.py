"""Each guarantee of docs/faults.md names the tests that hold it, and pytest finds each of them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs import pages

PAGE = pages.ROOT / "docs" / "faults.md"
ROWS = [row for table in pages.tables(PAGE) if table[0] == ["guarantee", "test"] for row in table[1:]]
NAMED = re.compile(r"`(tests/[\w/]+\.py::\w+)`")


def test_each_guarantee_names_a_test_and_none_stands_there_twice():
    assert len(ROWS) > 20
    assert [row for row in ROWS if not NAMED.fullmatch(row[1].split(", ")[0])] == []
    named = NAMED.findall(pages.read(PAGE))
    assert len(named) == len(set(named)) == sum(len(row[1].split(", ")) for row in ROWS)


@pytest.mark.long
def test_pytest_finds_every_one_of_them():
    named = NAMED.findall(pages.read(PAGE))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert found == set(named)
