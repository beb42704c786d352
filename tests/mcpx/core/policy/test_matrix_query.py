"""The matrix for the query tool: what is denied does not exist for it either."""

from __future__ import annotations

import pytest

from tests.mcpx.core.policy.test_matrix import DENIED, RULES, SAME, asked, sent, worlds

pytestmark = pytest.mark.anyio
READ_ONLY = {"*": {"readOnlyHint": True, "openWorldHint": False}}
QUERIES = [
    (method, params | {"name": "query"} if params.get("name") == "exec" else params)
    for method, params in SAME
    if method == "tools/list" or params.get("name") in {"exec", "inspect"}
]


@pytest.mark.parametrize("rule", RULES)
async def test_nothing_denied_is_seen_or_run_by_query_and_nothing_allowed_is_lost(tmp_path, rule):
    async with worlds(tmp_path, rule, tiers=True, annotations=READ_ONLY) as (here, there):
        for modern, slow in ((False, False), (False, True), (True, False)):
            async with (
                here.line(modern=modern, slow=slow) as ours,
                there.line(modern=modern, slow=slow) as theirs,
            ):
                assert ours.greeted == theirs.greeted
                for method, params in QUERIES:
                    answers = [await asked(line, method, params) for line in (ours, theirs)]
                    assert answers[0] == answers[1], (method, params)
    assert "look" in sent(tmp_path)
    assert not DENIED.search(sent(tmp_path))
