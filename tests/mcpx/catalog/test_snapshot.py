"""How a server's state reads."""

from __future__ import annotations

import pytest

from mcpx.catalog.snapshot import ServerInfo, State


@pytest.mark.parametrize(
    ("state", "retry_in_s", "whole", "alone"),
    [
        (State.READY, None, "ready", "ready"),
        (State.PARKED, None, "parked: it died", "parked"),
        (State.WAITING, 3.6, "waiting, retry in 4 s: it died", "waiting, retry in 4 s"),
    ],
)
def test_a_state_reads_with_its_cause_or_without(state, retry_in_s, whole, alone):
    info = ServerInfo(name="s", state=state, transport="stdio", cause="it died", retry_in_s=retry_in_s)
    assert info.describe_state() == whole
    assert info.describe_state(cause=False) == alone
