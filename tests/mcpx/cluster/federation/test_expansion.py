"""From directories to a configuration: what holds whatever peers say."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpx.cluster.federation.expansion import ITSELF, MAX_OF_PEER, Known, Offered, expand
from mcpx.core.config import Config, Http, Stdio, parse
from mcpx.core.text import holds_controls

ME = "me"
NAMES = st.text(max_size=12) | st.sampled_from(["s", "own", "lab/s", "a/b", "..", "-x", "s\n", "é" * 300])
OFFERED = st.builds(
    Offered,
    name=NAMES,
    sessions=st.sampled_from(["shared", "per_client"]),
    via=st.lists(st.sampled_from(["x", "y", ME]), max_size=3).map(tuple),
)
KNOWN = st.builds(Known, id=st.sampled_from(["x", ME]), servers=st.lists(OFFERED, max_size=8).map(tuple))


def config(**peers: dict[str, Any]) -> Config:
    servers = {"own": {"command": "x"}, **{name: {"mcpx": True, **each} for name, each in peers.items()}}
    return parse(json.dumps({"mcpServers": servers}), where="test")


BOTH = config(
    lab={"url": "http://127.0.0.1:1/mcp?a=b", "as": "lab"}, box={"command": "ssh", "args": ["box", "mcpx"]}
)


@given(lab=KNOWN, box=KNOWN)
def test_what_is_added_is_named_once_and_well_and_is_not_from_here(lab: Known, box: Known) -> None:
    known = {"lab": lab, "box": box}
    found = expand(BOTH, known, ME)
    servers = found.config.servers
    assert servers["own"] == BOTH.servers["own"]
    for name, server in servers.items():
        assert server.name == name
        if server.peer is None:
            continue
        its = known[server.peer]
        assert its.id != ME
        assert any(each.name == server.name_there and ME not in each.via for each in its.servers)
        assert name.strip()
        assert not holds_controls(name)
        assert name == ("lab/" if server.peer == "lab" else "") + server.name_there
    left = len(found.left_out)
    unheard = sum(len(each.servers) - 1 for each in known.values() if each.id == ME)
    assert len(servers) - 1 + left + unheard == len(lab.servers) + len(box.servers)


@given(lab=KNOWN, box=KNOWN)
def test_to_expand_again_changes_nothing(lab: Known, box: Known) -> None:
    once = expand(BOTH, {"lab": lab, "box": box}, ME)
    assert expand(once.config, {"lab": lab, "box": box}, ME) == once
    assert expand(once.config, {}, ME).config == BOTH


def test_ways_to_the_endpoint_are_encoded_and_keep_what_the_entry_says() -> None:
    known = Known("x", (Offered("a b/c;$(x)"),))
    servers = expand(BOTH, {"lab": known, "box": known}, ME).config.servers
    lab, box = servers["lab/a b/c;$(x)"].transport, servers["a b/c;$(x)"].transport
    assert isinstance(lab, Http)
    assert lab.url == "http://127.0.0.1:1/mcp/peers/a%20b%2Fc%3B%24%28x%29?a=b"
    assert isinstance(box, Stdio)
    assert box.args == ("box", "mcpx", "--peer=a%20b%2Fc%3B%24%28x%29")


def test_one_peer_adds_so_many_servers_and_no_more() -> None:
    many = Known("x", tuple(Offered(f"s{number}") for number in range(MAX_OF_PEER + 5)))
    found = expand(BOTH, {"lab": many}, ME)
    assert len(found.config.servers) == MAX_OF_PEER + 1
    assert [each.why for each in found.left_out] == [f"5 more servers: one MCPX can add {MAX_OF_PEER}"]


def test_a_name_that_is_taken_is_left_out_and_the_first_peer_has_it() -> None:
    both = config(one={"url": "http://127.0.0.1:1/mcp"}, two={"url": "http://127.0.0.1:2/mcp"})
    known = Known("x", (Offered("own"), Offered("s")))
    found = expand(both, {"one": known, "two": known}, ME)
    assert {name: each.peer for name, each in found.config.servers.items()} == {"own": None, "s": "one"}
    assert [(each.peer, each.server) for each in found.left_out] == [
        ("one", "own"),
        ("two", "own"),
        ("two", "s"),
    ]


def test_a_disabled_peer_gives_nothing_and_one_that_is_this_one_says_so() -> None:
    both = config(
        off={"url": "http://127.0.0.1:1/mcp", "disabled": True}, me={"url": "http://127.0.0.1:2/mcp"}
    )
    found = expand(both, {"off": Known("x", (Offered("s"),)), "me": Known(ME, (Offered("t"),))}, ME)
    assert set(found.config.servers) == {"own"}
    assert [each.why for each in found.left_out] == [ITSELF]


def test_per_client_servers_are_reached_in_the_era_that_has_sessions() -> None:
    known = Known("x", (Offered("p", "per_client"), Offered("s")))
    servers = expand(BOTH, {"lab": known, "box": known}, ME).config.servers
    assert servers["lab/p"].era == "handshake"
    assert {servers[name].era for name in ("lab/s", "p", "s")} == {"modern"}
