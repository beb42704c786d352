"""The setting `place`: for all servers and for one, and what a cluster makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpx.cluster.node.spec import cluster_config
from mcpx.core.config import Config, Place, Placed, Stdio, parse
from mcpx.core.config.redaction import secrets_of
from mcpx.core.policy.pin_record import pin_identity
from mcpx.core.servers.fleet.reload import plan_reload


def config(servers: dict[str, Any], **settings: Any) -> Config:
    return parse(json.dumps({"mcpServers": servers, **settings}), where="test")


def place_of(given: Any, **settings: Any) -> Place | bool:
    return (
        config({"s": {"command": "s", **({} if given is None else {"place": given})}}, **settings)
        .servers["s"]
        .place
    )


def test_each_key_can_be_given_alone_and_for_all() -> None:
    assert place_of(None) == Place()
    assert place_of({"resources": {"gpu": 1}}) == Place(resources={"gpu": 1})
    assert place_of({"node": "lab"}, place={"spread": True}) == Place(node="lab", spread=True)
    assert place_of(None, place=False) is False
    assert place_of(False, place={"spread": True}) is False
    assert place_of(True, place=False) == Place()
    assert place_of({"node": "lab"}, place=False) == Place(node="lab")


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        ({"nod": "a"}, 'unknown key; did you mean "node"?'),
        ({"resources": {"gpu": -1}}, "expected a number from 0"),
        ({"resources": {"gpu": "one"}}, "expected a number from 0"),
        ({"spread": 1}, "expected true or false"),
        ("lab", "expected an object"),
        (["lab"], "expected an object"),
    ],
)
def test_a_slip_disables_the_server(given: Any, mistake: str) -> None:
    disabled = config({"s": {"command": "s", "place": given}}).servers["s"].disabled
    assert disabled is not None
    assert mistake in disabled


def test_in_a_cluster_commands_are_placed_and_nothing_else() -> None:
    written = config(
        {
            "s": {
                "command": "s",
                "args": ["a"],
                "env": {"KEY": "secret-of-s"},
                "cwd": "/tmp",
                "place": {"node": "lab"},
            },
            "here": {"command": "h", "place": False},
            "url": {"url": "https://example.com/mcp"},
            "off": {"command": "o", "disabled": True},
            "lab": {"command": "ssh", "args": ["lab", "mcpx", "attach"], "mcpx": True},
        }
    )
    placed = cluster_config(written)
    transport = placed.servers["s"].transport
    assert isinstance(transport, Placed)
    assert transport.stdio == written.servers["s"].transport
    assert transport.place == Place(node="lab")
    others = {name: server for name, server in placed.servers.items() if name != "s"}
    assert others == {name: server for name, server in written.servers.items() if name != "s"}
    assert placed.peers == written.peers
    assert cluster_config(placed) == placed
    assert secrets_of(placed.servers["s"]) == secrets_of(written.servers["s"])
    assert pin_identity(placed.servers["s"]) == pin_identity(written.servers["s"])
    assert placed.servers["s"].is_remote_mcpx


def test_another_place_starts_a_server_again_in_a_cluster_alone() -> None:
    old, new = config({"s": {"command": "s"}}), config({"s": {"command": "s", "place": {"node": "lab"}}})
    assert isinstance(old.servers["s"].transport, Stdio)
    assert plan_reload(old, new).untouched == ("s",)
    assert plan_reload(cluster_config(old), cluster_config(new)).changed == ("s",)
