"""The matrix at the transparent endpoint: every request for what is denied, times every rule for one server.

As in `test_matrix`, each goes to an MCPX with the rule, and to one whose server offers the rest alone.
"""

from __future__ import annotations

import json

import pytest

from mcpx.core.system.endpoint import DEFAULT_ENDPOINT
from tests.mcpx.core.gateway.transparent.talking import on_stream
from tests.mcpx.core.gateway.transparent.test_equality import handshake
from tests.mcpx.core.policy.test_matrix import DENIED, REFUSED_URIS, RULES, call, completion, sent, worlds

pytestmark = pytest.mark.anyio

NOT_FOUND = -32002
INVALID_PARAMS = -32602
SAME = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    call("look", text="x"),
    call("find"),
    ("prompts/get", {"name": "greet"}),
    completion(type="ref/prompt", name="greet"),
    completion(type="ref/resource", uri="note:///open/{name}"),
    ("resources/read", {"uri": "note:///open/a"}),
    ("resources/read", {"uri": "note:///open/b"}),
    ("resources/subscribe", {"uri": "note:///open/a"}),
    ("resources/unsubscribe", {"uri": "note:///open/a"}),
    ("logging/setLevel", {"level": "info"}),
    call("tick"),
    ("skills/list", {}),
    ("skills/get", {"uri": "skill://open/SKILL.md"}),
    ("resources/directory/read", {"uri": "skill://open"}),
    ("resources/read", {"uri": "ui://open/page"}),
    ("resources/read", {"uri": "skill://open/a.md"}),
]
UNKNOWN = [
    call("wipe", text="x"),
    call("wipe_all"),
    call("wipe_app"),
    ("prompts/get", {"name": "betray"}),
    completion(type="ref/prompt", name="betray"),
    completion(type="ref/resource", uri="note:///secret/{name}"),
    completion(type="ref/resource", uri="note:///secret/a"),
]


@pytest.mark.parametrize("rule", [name for name, given in RULES.items() if given[3] is DEFAULT_ENDPOINT])
async def test_at_the_transparent_endpoint_nothing_denied_is_seen_or_run_and_nothing_allowed_is_lost(
    tmp_path, rule
):
    async with (
        worlds(tmp_path, rule) as (here, there),
        on_stream(here.hub, "vault") as ours,
        on_stream(there.hub, "vault") as theirs,
    ):
        for talk in (ours, theirs):
            await handshake(talk)
        for method, params in SAME:
            answers = [await talk.ask(method, json.dumps(params)) for talk in (ours, theirs)]
            assert answers[0] == answers[1], (method, params)
            assert "result" in answers[0], (method, params)
        for method, params in UNKNOWN:
            answer = await ours.ask(method, json.dumps(params))
            assert answer["error"]["code"] == INVALID_PARAMS, (method, params)
        for method in ("resources/read", "resources/subscribe", "skills/get", "resources/directory/read"):
            for uri in REFUSED_URIS:
                answer = await ours.ask(method, json.dumps({"uri": uri}))
                of_resources = method in {"resources/read", "resources/subscribe"}
                assert answer["error"]["code"] == (NOT_FOUND if of_resources else INVALID_PARAMS), (
                    method,
                    uri,
                )
    assert "look" in sent(tmp_path)
    assert not DENIED.search(sent(tmp_path))
