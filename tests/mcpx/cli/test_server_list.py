"""What `mcpx list` says beneath its rows."""

from __future__ import annotations

import pytest

from mcpx.cli.server_list import _state


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"state": "ready", "last_error": "it died"}, None),
        ({"state": "parked", "last_error": "it died"}, "it died"),
        (
            {"state": "needs sign-in", "last_error": "x", "sign_in": {"command": "mcpx login s"}},
            "sign in with: mcpx login s",
        ),
        ({"state": "needs sign-in", "last_error": "x"}, "sign in with: mcpx login"),
    ],
)
def test_a_server_that_is_not_ready_says_why(server, why):
    assert _state(server).get("why") == why
