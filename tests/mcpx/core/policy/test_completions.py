"""Values of a template's argument that would make a denied URI are not suggested."""

from __future__ import annotations

import pytest

from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.config.per_server import AccessRules
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.policy.rules import admitted_completion


def policy(**resources):
    config = ServerConfig(name="s", transport=Stdio(command="x"), resources=AccessRules(**resources))
    return ServerPolicy(config)


def suggesting(*values, **more):
    return {"completion": {"values": list(values), **more}}


@pytest.mark.parametrize(
    ("rules", "template", "resolved", "kept"),
    [
        ({}, "file:///{name}", {}, ["a", "secret"]),
        ({"deny": ("file:///secret",)}, "file:///{name}", {}, ["a"]),
        ({"deny": ("file:///secret",)}, "file:///{+name}", {}, ["a"]),
        ({"deny": ("file:///x/secret",)}, "file:///{dir}/{name}", {}, ["a", "secret"]),
        ({"deny": ("file:///x/secret",)}, "file:///{dir}/{name}", {"dir": "x"}, ["a"]),
        ({"deny": ("file:///x/secret",)}, "file:///{dir}/{name}", {"dir": "y"}, ["a", "secret"]),
        ({"deny": ("file:///*/secret",)}, "file:///{dir}/{name}", {}, ["a"]),
        ({"allow": ("file:///a",)}, "file:///{name}", {}, ["a"]),
    ],
)
def test_which_values_are_suggested(rules, template, resolved, kept):
    given = suggesting("a", "secret", total=7, hasMore=True)
    shown = admitted_completion(given, policy(**rules), template, "name", resolved)
    assert shown == suggesting(*kept, total=5 + len(kept), hasMore=True)


@pytest.mark.parametrize("result", [{}, {"completion": None}, {"completion": {"values": 3}}])
def test_a_result_of_another_shape_is_passed_on(result):
    assert admitted_completion(result, policy(deny=("x",)), "x:{y}", "y", {}) == result
