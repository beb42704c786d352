"""What `tools/list` costs a model, in real tokens, with the 527 tools of 70 servers behind it."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.core.catalog.model import is_read_only
from mcpx.core.gateway.tools.definitions import tools
from mcpx.core.rendering.descriptions import QueryTool, describe, instructions
from tests import tokens
from tests.mcpx.core.rendering.snapshots import corpus

pytestmark = pytest.mark.corpus


QUERY = QueryTool(is_read_only, open_world=True)


def listed(budget, limit=None, query=None):
    """The tools as they go out."""
    return tools(describe(corpus(), budget=budget, limit=limit, query=query))


def cost(value):
    return max(number for (number,) in tokens.count([msgspec.json.encode(value).decode()]).values())


@pytest.mark.parametrize("limit", [None, 1024, 2048])
def test_a_small_budget_makes_the_whole_answer_small(limit):
    assert cost({"tools": listed(600, limit)}) <= 1000


@pytest.mark.parametrize("query", [None, QUERY])
@pytest.mark.parametrize("limit", [None, 1024, 2048])
def test_the_default_budget_holds_for_all_that_a_model_reads(limit, query):
    shown = [
        {name: tool[name] for name in ("name", "description", "inputSchema")}
        for tool in listed(4000, limit, query)
    ]
    assert cost([instructions(corpus(), query=query is not None), *shown]) <= 4000
    text = msgspec.json.encode(shown).decode()
    assert all(name in text for server in corpus() for name in server.tools)
