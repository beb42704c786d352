"""Projections that are not cheap: in a process, which is ended when it takes too long."""

from __future__ import annotations

import json

import anyio
import pytest

from mcpx.core import projector
from mcpx.core.projector import Projector
from mcpx.rendering.projection import BadExpression, project
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio
LARGE = json.dumps({"items": [{"id": n, "title": f"t{n}"} for n in range(20_000)]})


async def test_a_large_result_gives_what_a_small_one_would():
    made = Projector()
    with anyio.fail_after(50):
        for expression in ("items[-2:].id", "nope", "sort_by(items, &nope)"):
            assert await made.project(expression, [LARGE]) == project(expression, [LARGE])


async def test_what_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr(projector, "DEADLINE_S", 0.5)
    with anyio.fail_after(50):
        found = await Projector().project("|".join(["[@, @]"] * 60), ["[]"])
    assert "it took over 0.5 s" in found.problem or "too much memory" in found.problem


async def test_a_caller_that_leaves_takes_its_process_along(monkeypatch):
    started = []
    start = projector._start
    monkeypatch.setattr(projector, "_start", lambda: started.append(start()) or started[0])
    with anyio.move_on_after(0.2):
        await Projector().project("|".join(["[@, @]"] * 60), ["[]"])
    await soon(lambda: started[0].poll() is not None)


async def test_a_wrong_expression_starts_no_process(monkeypatch):
    monkeypatch.setattr(projector, "_start", None)
    with pytest.raises(BadExpression):
        await Projector().project("items[", [LARGE])
