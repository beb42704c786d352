"""What the doctor says of a cluster: Ray, its nodes, and the other gateways."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcpx.setup.doctor.daemon import check_cluster

OWN = {"host": "a", "pid": 1, "version": "1", "is_self": True, "same_config": True}
CLUSTER = {"address": "head:6379", "joined": True, "gateways": [OWN]}
UP = {"name": "n1", "state": "ready", "version": "1"}


def found(cluster: dict[str, Any], *nodes: dict[str, Any]) -> list[tuple[str, str]]:
    installation: Any = SimpleNamespace(command=lambda *words: " ".join(("mcpx", *words)))
    return [(each.level, each.text) for each in check_cluster(installation, cluster, nodes, "1")]


def test_a_cluster_that_is_well_is_one_line() -> None:
    drained = {"name": "n2", "state": "draining", "version": "1"}
    assert found(CLUSTER, UP, drained) == [("ok", "head:6379: 2 of 2 nodes answer, 1 gateway")]


@pytest.mark.parametrize(
    ("cluster", "nodes", "level", "text"),
    [
        (
            {"joined": False, "problem": "no GCS"},
            [],
            "wrong",
            "the Ray cluster head:6379 is not joined: no GCS",
        ),
        ({}, [], "wrong", "it has no node"),
        ({}, [{**UP, "state": "lost", "problem": "silent"}], "wrong", "the node n1 does not answer: silent"),
        ({}, [{**UP, "version": "2"}], "note", "nodes of another version than this gateway's (1): n1 (2)"),
        ({"not_shared": "away"}, [UP], "wrong", "pins are not shared with other gateways: away"),
        (
            {"gateways": [OWN, {**OWN, "host": "b", "version": "0", "is_self": False}]},
            [UP],
            "note",
            "the gateway on b (pid 1) is of another version: 0",
        ),
        (
            {"gateways": [OWN, {**OWN, "host": "b", "same_config": False, "is_self": False}]},
            [UP],
            "note",
            "the gateway on b (pid 1) has another configuration",
        ),
        (
            {"gateways": [OWN, {**OWN, "host": "b", "problem": "no file", "is_self": False}]},
            [UP],
            "wrong",
            "the gateway on b (pid 1) has not reloaded: no file",
        ),
    ],
)
def test_what_is_wrong_is_said(cluster: dict[str, Any], nodes: list[Any], level: str, text: str) -> None:
    assert (level, text) in found(CLUSTER | cluster, *nodes)
