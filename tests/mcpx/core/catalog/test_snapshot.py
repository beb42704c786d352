"""How a server's state reads."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.snapshot import ServerInfo, State


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


def test_a_state_that_wants_a_sign_in_has_the_command():
    info = ServerInfo(
        name="s", state=State.NEEDS_SIGN_IN, transport="http", cause="no token", sign_in="mcpx login s"
    )
    assert info.describe_state() == "needs sign-in: run: mcpx login s"
    assert info.refuse("is not available") == (
        "s is not available (needs sign-in: run: mcpx login s); nothing was sent"
    )
    assert info.why() == {"state": "needs sign-in", "cause": "no token", "sign_in": "mcpx login s"}
    assert info.to_dict()["sign_in"] == "mcpx login s"
    assert not info.available
