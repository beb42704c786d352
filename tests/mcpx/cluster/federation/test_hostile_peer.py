"""A peer that lies about its servers: it costs its own, and neither the others' nor much of this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from mcpx.cluster.federation.peer import MAX_TEXT
from mcpx.core.daemon.status_snapshot import snapshot
from tests.mcpx.cluster.federation.chain import open_link
from tests.mcpx.scripted import PATIENCE_S, QUICK, entry, soon

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("hostile_peer.py")


def hostile(kind: str, heard: Path, **more: Any) -> dict[str, Any]:
    args = ["-S", "-E", str(SERVER), kind, str(heard)]
    restart = {**QUICK, "park_after": 1000}
    return {"command": sys.executable, "args": args, "mcpx": True, "restart": restart, **more}


def asked(heard: Path) -> int:
    return heard.read_text().count("\n") if heard.exists() else 0


def peer_of(near: Any) -> Any:
    (found,) = near.hub.peers.status()
    return found


async def serves_on(near: Any) -> None:
    for _ in range(20):
        with anyio.fail_after(PATIENCE_S):
            assert await near.watch.text("echo", {"text": "on"}, server="own") == "on"


@pytest.mark.parametrize("kind", ["too many", "too long", "id", "types", "deep"])
async def test_a_directory_that_is_none_is_a_failure_of_the_peer(tmp_path: Path, kind: str) -> None:
    servers = {"own": entry(), "lab": hostile(kind, tmp_path / "heard")}
    async with open_link(tmp_path / "a", servers) as near:
        await soon(lambda: peer_of(near).last_error)
        await serves_on(near)
        found = peer_of(near)
        assert set(near.hub.upstreams) == {"own"}
        assert "\x1b" not in found.last_error
        assert len(found.last_error) <= MAX_TEXT + 100


async def test_of_many_servers_the_first_are_taken_in_and_the_rest_is_counted(tmp_path: Path) -> None:
    servers = {"own": entry(), "lab": hostile("many", tmp_path / "heard")}
    async with open_link(tmp_path / "a", servers, settled=False) as near:
        peer = near.hub.peers.peers["lab"]
        await soon(lambda: peer.known is not None)
        assert (len(peer.known.servers), peer.known.more) == (1000, 8000)
        assert len(peer.said) == 1000


async def test_names_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    servers = {"own": entry(), "lab": hostile("odd names", tmp_path / "heard")}
    async with open_link(tmp_path / "a", servers, settled=False) as near:
        await soon(lambda: "ok" in near.hub.upstreams)
        await serves_on(near)
        assert not {"", " ", ".", "..", "a\nb", "\x1b[31m"} & set(near.hub.upstreams)
        assert near.hub.upstreams["own"].config.peer is None


@pytest.mark.parametrize("kind", ["long", "states"])
async def test_what_it_says_of_states_is_bounded_and_clean(tmp_path: Path, kind: str) -> None:
    servers = {"own": entry(), "lab": hostile(kind, tmp_path / "heard", **{"as": "lab"})}
    async with open_link(tmp_path / "a", servers, settled=False) as near:
        await soon(lambda: any(name.startswith("lab/") for name in near.hub.upstreams))
        await serves_on(near)
        said = near.hub.peers.peers["lab"].said
        assert all(len(each.described) <= MAX_TEXT + 100 for each in said.values())
        shown = msgspec.json.encode(snapshot(near.hub, clients=0)).decode()
        assert len(shown) < 20_000
        assert "\\u001b" not in shown
        infos = [upstream.info() for upstream in near.hub.upstreams.values()]
        assert all("\x1b" not in info.describe_state() for info in infos)


async def test_one_whose_servers_change_all_the_time_is_followed_more_and_more_slowly(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    servers = {"own": entry(), "lab": hostile("flapping", heard)}
    async with open_link(tmp_path / "a", servers, settled=False) as near:
        kept = near.hub.upstreams["own"]
        await soon(lambda: asked(heard) >= 6)
        await serves_on(near)
        assert near.hub.upstreams["own"] is kept
        await soon(lambda: len(near.hub.upstreams) <= 21)  # while it changes, the old ones are there, too


async def test_one_that_never_answers_again_keeps_its_servers_and_costs_nothing(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    servers = {"own": entry(), "lab": hostile("silent", heard)}
    async with open_link(tmp_path / "a", servers, settled=False) as near:
        await soon(lambda: "s" in near.hub.upstreams)
        await soon(lambda: asked(heard) == 2)
        await serves_on(near)
        assert asked(heard) == 2
        assert peer_of(near).state == "ready"
