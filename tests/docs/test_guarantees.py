"""Each guarantee of docs/faults.md names the tests that hold it, and each of them is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.docs import pages

PAGE = pages.ROOT / "docs" / "faults.md"
ROWS = [row for table in pages.tables(PAGE) if table[0] == ["guarantee", "test"] for row in table[1:]]
NAMED = re.compile(r"`(tests/[\w/]+\.py::\w+)`")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_each_guarantee_names_a_test_and_none_stands_there_twice():
    assert len(ROWS) > 20
    assert [row for row in ROWS if not NAMED.fullmatch(row[1].split(", ")[0])] == []
    named = NAMED.findall(pages.read(PAGE))
    assert len(named) == len(set(named)) == sum(len(row[1].split(", ")) for row in ROWS)


def test_each_of_them_stands_in_its_file_as_pytest_would_find_it():
    named = [name.split("::") for name in NAMED.findall(pages.read(PAGE))]
    assert [name for name in named if not is_test(*name)] == []


def is_test(file, function):
    if not Path(file).name.startswith("test_") or not function.startswith("test_"):
        return False
    tree = ast.parse((pages.ROOT / file).read_bytes())
    return any(isinstance(node, FUNCTIONS) and node.name == function for node in tree.body)


def test_what_is_no_test_is_not_found():
    here = "tests/docs/test_guarantees.py"
    assert is_test(here, "test_what_is_no_test_is_not_found")
    assert not any(is_test(here, name) for name in ("is_test", "test_that_is_not_there"))
    assert not is_test("tests/docs/pages.py", "test_what_is_no_test_is_not_found")
