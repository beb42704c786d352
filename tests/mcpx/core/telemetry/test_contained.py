"""Contained faults are logged once a kind, with where they come from."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mcpx.core.telemetry import contained


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    monkeypatch.setattr(contained, "_seen", type(contained._seen)())


def fault(error: Exception) -> Exception:
    try:
        raise error  # noqa: TRY301 - for a traceback of its own
    except Exception as raised:  # noqa: BLE001 - ditto
        return raised


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_a_flood_of_one_kind_is_one_line():
    with capture_logs() as logs:
        for number in range(100):
            contained.contain(fault(ValueError(f"number {number}")), "router", server="s")
    assert [(each["place"], each["cause"], each["server"]) for each in logs] == [
        ("router", "ValueError: number 0", "s")
    ]
    assert "test_contained.py" in logs[0]["traceback"]


def test_other_kinds_are_told_apart_and_their_number_is_bounded(monkeypatch):
    monkeypatch.setattr(contained, "MAX_KINDS", 3)
    with capture_logs() as logs:
        for number in range(50):
            contained.contain(fault(ValueError("same")), f"place {number}")
    assert len(logs) == 4


def test_a_recursion_and_an_exception_without_words_are_short():
    def endless(depth: int) -> int:
        return endless(depth + 1) + 1

    with capture_logs() as logs:
        try:
            endless(0)
        except RecursionError as error:
            contained.contain(error, "check")
        contained.contain(fault(WordlessError()), "check")
        contained.contain(fault(ValueError("x" * 10_000)), "check")
    assert len(logs) == 3
    assert all(len(each["traceback"]) + len(each["cause"]) < 3000 for each in logs)
