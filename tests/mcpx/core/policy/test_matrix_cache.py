"""The matrix for the cache: what is denied is not answered from it, nor from what another profile has had."""

from __future__ import annotations

import re

import pytest

from mcpx.core.system.endpoint import DEFAULT_ENDPOINT
from tests.mcpx.core.policy.test_matrix import (
    DENIED,
    PROFILE,
    RULES,
    World,
    asked,
    call,
    entry,
    here_and_there,
    sent,
)
from tests.mcpx.core.policy.test_matrix import OFFER as ALL
from tests.mcpx.scripted import config_of, open_watched

pytestmark = pytest.mark.anyio
KEPT = {"annotations": {"*": {"readOnlyHint": True}}, "cache": {"*": 300}}
CALLS = [
    call(name, server_name="vault", tool_name=tool, arguments={})
    for name in ("exec", "query")
    for tool in (*ALL["tools"], *ALL["app_tools"])
]
NATIVE = [call(f"vault__{tool}") for tool in (*ALL["tools"], *ALL["app_tools"])]


async def answers(line):
    found = [await asked(line, method, params) for method, params in (*CALLS, *NATIVE)]
    return [re.sub(r"\"age_s\": \d+", "age", each) for each in found]


@pytest.mark.parametrize("rule", RULES)
async def test_nothing_denied_is_answered_by_what_was_kept_and_nothing_of_another_profile(tmp_path, rule):
    here, there, endpoint = here_and_there(tmp_path, rule, tiers="on", **KEPT)
    free = config_of({"vault": entry(tmp_path, "vault", ALL)}, tiers="on", **KEPT)
    modern, slow = [*RULES].index(rule) % 2 == 1, [*RULES].index(rule) % 4 > 1
    async with open_watched(here if endpoint is PROFILE else free) as watch, open_watched(there) as other:
        world = World(watch, DEFAULT_ENDPOINT)
        async with world.line(modern=modern, slow=slow) as everybody:
            for _ in range(2):
                known = await answers(everybody)
        assert any("wipe" in each and "mcpx/cached" in each for each in known) or endpoint is PROFILE
        already = len(sent(tmp_path))
        if endpoint is not PROFILE:
            await watch.hub.reload(here)
        world.endpoint = endpoint
        async with (
            world.line(modern=modern, slow=slow) as ours,
            World(other, endpoint).line(modern=modern, slow=slow) as theirs,
        ):
            for _ in range(2):
                assert await answers(ours) == await answers(theirs)
        later = sent(tmp_path)[already:]
        assert later.count("look") == 1
        assert not DENIED.search(later)
