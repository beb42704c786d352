"""States of this MCPX, of servers, and of other MCPX behind it are told apart, however many there are."""

import pytest

from mcpx.core.rendering.result_reading import made_here, to_client, to_server


@pytest.mark.parametrize("state", ["", "a", "mcpx", "MCPX-held-1", "s p\u00e4t", '{"n":1}'])
def test_what_a_server_gives_goes_as_it_is(state: str) -> None:
    assert to_client(state) == state
    assert to_server(state) == state


@pytest.mark.parametrize(
    "state", ["mcpx-held-1", "mcpx-approval-1", "mcpx-at-h.u.m.mcpx-held-1", "mcpx-far-"]
)
@pytest.mark.parametrize("hops", [1, 2, 5])
def test_what_another_mcpx_gives_is_ours_on_no_hop_and_comes_back_to_it(state: str, hops: int) -> None:
    seen = state
    for _ in range(hops):
        seen = to_client(seen)
        assert not seen.startswith(("mcpx-held-", "mcpx-approval-", "mcpx-at-"))
    for _ in range(hops):
        seen = to_server(seen)
    assert seen == state


def test_ours_is_what_was_made_here() -> None:
    assert to_client(made_here("mcpx-held-1")) == "mcpx-held-1"
    assert to_server("mcpx-held-1") == "mcpx-held-1"
