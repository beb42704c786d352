"""Behind a real HAProxy: no call is lost without an outcome, and none runs twice."""

from __future__ import annotations

import pytest

from tests.mcpx.cluster.replicas.balance import HAPROXY, play

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.others,
    pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed"),
]


async def test_replicas_are_stopped_and_killed_under_load_and_each_call_is_told_the_truth(tmp_path):
    played = await play(tmp_path)
    tally = played.tally
    assert tally.faults(played.counted) == []
    assert set(tally.by) >= {(kind, "done") for kind in ("plain", "older", "asked_held", "asked_new")}
    # one that is stopped in order costs no plain call of the newer era, and of the older one only its session
    told = {told for kind, told in played.before_kills if kind == "plain"}
    assert told == {"done"}, tally.by
    assert {told for kind, told in played.before_kills if kind == "older"} <= {"done", "not_sent"}
