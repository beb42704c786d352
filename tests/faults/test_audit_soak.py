"""The audit log, held against what happened: in short, with real kills, and what would fall short."""

from __future__ import annotations

import sys
from collections import Counter

import msgspec
import pytest

from tests.faults.audit_soak import audit_soak, judge_lines
from tests.faults.served import Answer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc"),
]
LINE = {"arguments": ["key", "a"], "client": "faults/1", "outcome": "ok", "code": None}


async def test_each_call_that_reached_a_server_is_in_the_log_once_with_its_outcome():
    soaked = await audit_soak(300, clients=4, kills=5)
    assert soaked.problems == [], msgspec.json.encode(soaked)
    assert soaked.daemon_kills == 1
    assert soaked.server_kills >= 3


@pytest.mark.parametrize(
    ("lines", "effects", "answer", "problem"),
    [
        ([], {"a": 1}, Answer("no", "server_died", "unknown"), "1 calls reached a server and are not"),
        ([LINE, LINE], {"a": 1}, Answer("done"), "1 calls are in the log more than once"),
        (
            [LINE | {"outcome": "not_sent", "code": "overloaded"}],
            {"a": 1},
            Answer("no", "overloaded", "not_sent"),
            "1 calls reached a server and are said not to be sent",
        ),
        (
            [LINE | {"outcome": "failed", "code": "upstream_error"}],
            {"a": 1},
            Answer("done"),
            "another outcome than their clients were told",
        ),
        ([], {}, Answer("done"), "1 calls were answered and are not in the log"),
        ([LINE | {"client": None}], {"a": 1}, Answer("done"), "1 lines do not say who asked"),
    ],
)
def test_what_falls_short_is_seen(lines, effects, answer, problem):
    assert any(problem in found for found in judge_lines(lines, Counter(effects), {"a": answer}))
