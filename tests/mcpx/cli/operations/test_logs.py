"""Following lines that are on another machine: what has been added since the last answer."""

from __future__ import annotations

import pytest

from mcpx.cli.operations.logs import added


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([], ["a"], ["a"]),
        (["a", "b"], ["a", "b"], []),
        (["a", "b"], ["a", "b", "c"], ["c"]),
        (["b"], ["a", "b", "c"], ["c"]),
        (["a", "b", "c"], ["b", "c", "d"], ["d"]),
        (["a", "b"], ["x", "y"], ["x", "y"]),
        (["x"], ["x", "x", "x"], []),
        (["a"], [], []),
    ],
)
def test_only_what_is_new_is_printed(before: list[str], now: list[str], expected: list[str]) -> None:
    assert added(before, now) == expected
