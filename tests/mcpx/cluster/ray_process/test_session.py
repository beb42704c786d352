"""Nodes as records: names that people can tell apart, what servers can ask for, and what has changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

pytest.importorskip("ray", reason="Ray is not installed: pip install 'mcpx-gateway[ray]'")

from mcpx.cluster.ray_process.node_actor import folder_name
from mcpx.cluster.ray_process.protocol import NodeRecord
from mcpx.cluster.ray_process.session import MAX_NAME, difference, named, to_record
from mcpx.core.text import holds_controls


def record(node: str, **more: Any) -> NodeRecord:
    entry = {
        "NodeID": node,
        "NodeManagerAddress": "10.0.0.1",
        "NodeManagerHostname": "host",
        "NodeName": "10.0.0.1",
        "Labels": {},
        "Resources": {"CPU": 2.0, "node:10.0.0.1": 1.0, "object_store_memory": 9.0, "CPU_group_0_ab": 1.0},
    } | more
    return to_record(entry, {"CPU": 1.0, "node:10.0.0.1": 1.0}, draining=False)


def test_a_node_is_called_by_its_label_else_as_ray_calls_it_else_by_its_host() -> None:
    assert record("a", Labels={"mcpx.node": "lab"}, NodeName="given").name == "lab"
    assert record("a", NodeName="given").name == "given"
    assert record("a").name == "host"
    assert record("a", NodeManagerHostname="").name == "10.0.0.1"


def test_a_name_is_one_clean_line_and_its_folder_stays_where_it_belongs() -> None:
    for name in ("..", ".", "../../x", "a/b", "x" * 5_000, "é" * 300, "\x1b[31mred\nline\u202e"):
        shown = record("a", NodeName=name).name
        assert len(shown) <= MAX_NAME + 3
        assert not holds_controls(shown)
        assert "\u202e" not in shown
        for each in (name, shown):
            folder = folder_name(each)
            assert folder not in {"", ".", ".."}
            assert "/" not in folder
            assert len(folder) <= 255
    assert folder_name("lab-1.example") == "lab-1.example"


def test_names_that_two_have_are_told_apart_by_their_ids() -> None:
    nodes = named([record("abcdef99"), record("123456ff"), record("c", NodeName="other")])
    assert {node.name for node in nodes.values()} == {"host-abcdef", "host-123456", "other"}
    assert {node.given_name for node in nodes.values()} == {"host", ""}


def test_only_resources_that_servers_can_ask_for_are_told() -> None:
    node = record("a")
    assert node.resources == {"CPU": 2.0}
    assert node.free == {"CPU": 1.0}


def test_what_is_said_is_everything_first_and_then_what_has_changed() -> None:
    one, two = record("a"), record("b")
    first = difference(None, {"a": one, "b": two})
    assert first is not None
    assert first.complete
    assert len(first.nodes) == 2
    assert difference({"a": one, "b": two}, {"a": one, "b": two}) is None
    news = difference({"a": one, "b": two}, {"a": replace(one, draining=True)})
    assert news is not None
    assert not news.complete
    assert [node.id for node in news.nodes] == ["a"]
    assert news.gone == ("b",)
