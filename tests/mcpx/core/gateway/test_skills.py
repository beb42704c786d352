"""Skills of several servers (SEP-2640): listed, got, verified and read, at every endpoint."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from tests.mcpx import scripted
from tests.mcpx.core.gateway import skilled
from tests.mcpx.core.gateway.endpoints import ERAS
from tests.mcpx.core.gateway.hosts import WAYS, call, error_of, open_hosts, result_of
from tests.mcpx.core.gateway.peer.peers import open_peers
from tests.mcpx.core.gateway.skilled import LATER, REFUNDS, RELEASE, SKILLS, TODAY, unnamed
from tests.mcpx.core.gateway.transparent.talking import on_stream
from tests.mcpx.core.gateway.transparent.test_equality import handshake

pytestmark = pytest.mark.anyio
HOST = {"extensions": {SKILLS: {}}}
NO_METHOD, INVALID_PARAMS = -32601, -32602


async def verified(host, skill):
    """Read each file of a skill, as its host does before it uses it."""
    assert skill["uri"] == skill["resources"][0]["uri"]
    for file in skill["resources"]:
        assert file["uri"].startswith(skill["uri"].removesuffix("SKILL.md"))
        (read,) = (await result_of(host, "resources/read", {"uri": file["uri"]}))["contents"]
        assert read["uri"] == file["uri"]
        held = read["text"].encode() if "text" in read else base64.b64decode(read["blob"])
        assert len(held) == file["size"]
        assert f"sha256:{hashlib.sha256(held).hexdigest()}" == file["digest"]


@pytest.mark.parametrize("of_server", ERAS)
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_skills_of_several_servers_are_listed_got_and_verified(way, era, of_server):
    modern = of_server == "modern"
    servers = {
        "a": skilled.entry("a", modern=modern),
        "lab/b": skilled.entry("b", modern=modern, reads_folders=False),
        "plain": scripted.entry(),
    }
    async with open_hosts(servers) as its:
        host = await its.host(way, era, expose="three", capabilities=HOST)
        assert its.greeted["capabilities"]["extensions"] == {SKILLS: {"directoryRead": True}}
        listed = await result_of(host, "skills/list", {})
        envelope = {name: listed.get(name) for name in ("resultType", "ttlMs", "cacheScope")}
        assert [*envelope.values()] == (["complete", 0, "private"] if era == "modern" else [None] * 3)
        by_server = {"a": "skill://mcpx/a/", "b": "skill://mcpx/lab%252Fb/"}
        for name, prefix in by_server.items():
            mine = [each for each in listed["skills"] if each["uri"].startswith(prefix)]
            assert unnamed(mine, prefix) == skilled.listed_skills(name)
            assert [json.dumps(each) for each in unnamed(mine, prefix)] == [
                json.dumps(each) for each in skilled.listed_skills(name)
            ]
            for each in mine[:2]:
                assert each["uri"].split("/")[-2] == each["frontmatter"]["name"]
                await verified(host, each)
            unlisted = f"{prefix}{LATER.removeprefix('skill://')}/SKILL.md"
            got = await result_of(host, "skills/get", {"uri": unlisted})
            assert unnamed(got["skill"], prefix) == skilled.skill(name, LATER)
            await verified(host, got["skill"])
        assert len(listed["skills"]) == 6
        for uri in (f"mcpx://a/{RELEASE}/SKILL.md", f"mcpx://lab%2Fb/{RELEASE}/SKILL.md"):
            got = await result_of(host, "skills/get", {"uri": uri})
            assert got["skill"]["uri"] == got["skill"]["resources"][0]["uri"] == uri
        for uri in ("skill://mcpx/a/none/SKILL.md", "skill://mcpx/plain/x/SKILL.md", "mcpx://no/x:y", "x:y"):
            assert (await error_of(host, "skills/get", {"uri": uri}))["code"] == INVALID_PARAMS
        several = await error_of(host, "skills/get", {"uri": f"{RELEASE}/SKILL.md"})
        assert several["code"] == INVALID_PARAMS
        assert "skill://mcpx/a/release/SKILL.md" in several["message"]


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_folders_are_read_where_their_server_does_that(way, era):
    method, folder = "resources/directory/read", REFUNDS.replace("skill://", "skill://mcpx/a/")
    async with open_hosts({"a": skilled.entry("a"), "b": skilled.entry("b", reads_folders=False)}) as its:
        host = await its.host(way, era, capabilities=HOST)
        first = await result_of(host, method, {"uri": folder})
        assert first["resources"] == [
            {"uri": f"{folder}/examples", "name": "examples", "mimeType": "inode/directory"}
        ]
        rest = await result_of(host, method, {"uri": folder, "cursor": first["nextCursor"]})
        assert rest["resources"] == [{"uri": f"{folder}/SKILL.md", "name": "refunds", "vendor": 1.5}]
        assert "nextCursor" not in rest
        for uri in (f"{folder}/none", folder.replace("/a/", "/b/"), "skill://mcpx/a/../x"):
            assert (await error_of(host, method, {"uri": uri}))["code"] == INVALID_PARAMS
    async with open_hosts({"b": skilled.entry("b", reads_folders=False)}) as its:
        host = await its.host(way, era, capabilities=HOST)
        assert its.greeted["capabilities"]["extensions"] == {SKILLS: {}}
        assert (await error_of(host, method, {"uri": folder}))["code"] == NO_METHOD
        got = await result_of(host, "skills/get", {"uri": f"{RELEASE}/SKILL.md"})
        assert got["skill"] == skilled.skill(
            "b", RELEASE
        )  # by its own name, as the server's instructions say


@pytest.mark.parametrize(("way", "era"), WAYS)
@pytest.mark.parametrize("settings", [{}, {"native": False}], ids=["no skills", "not native"])
async def test_where_no_server_shows_skills_there_is_no_such_method(way, era, settings):
    servers = {"s": scripted.entry() if not settings else skilled.entry("s", **settings)}
    async with open_hosts(servers) as its:
        host = await its.host(way, era, capabilities=HOST)
        assert "extensions" not in its.greeted["capabilities"]
        for method, params in (
            ("skills/list", {}),
            ("skills/get", {"uri": f"{RELEASE}/SKILL.md"}),
            ("resources/directory/read", {"uri": RELEASE}),
        ):
            assert (await error_of(host, method, params))["code"] == NO_METHOD


async def test_a_model_finds_and_reads_skills_as_resources():
    listing = {
        "resources": [{"uri": f"{RELEASE}/SKILL.md", "name": "SKILL.md"}, {"uri": "x:1", "name": "one"}]
    }
    async with open_hosts({"a": skilled.entry("a", offers=listing)}) as its:
        host = await its.host("fast", "handshake", expose="three")
        text = await call(host, "resources", server_name="a")
        assert text.splitlines() == [
            "## a",
            "x:1 (one)",
            f"{REFUNDS}/SKILL.md (skill of 3 files): How a does refunds",
            f"{RELEASE}/SKILL.md (skill of 1 file): How a does release",
            f"{TODAY}/SKILL.md (skill): How a does today",
        ]
        assert f"skill {RELEASE}/SKILL.md: How a does release" in await call(
            host, "inspect", query="do a release"
        )
        for uri in (f"{RELEASE}/SKILL.md", "skill://mcpx/a/release/SKILL.md", f"{LATER}/SKILL.md"):
            asked = {"name": "resources", "arguments": {"server_name": "a", "uri": uri}}
            (block,) = (await result_of(host, "tools/call", asked))["content"]
            root = LATER if "later" in uri else RELEASE
            assert block["text"].encode() == skilled.files_of("a")[f"{root}/SKILL.md"]


async def test_at_a_transparent_endpoint_and_for_peers_skills_are_as_they_are():
    async with open_peers({"a": skilled.entry("a"), "b": skilled.entry("b")}) as peers:
        async with on_stream(peers.hub, "a") as host:
            await handshake(host)
            for method, params, expected in (
                ("skills/list", {"cursor": "2"}, {"skills": skilled.listed_skills("a")[1:]}),
                ("skills/get", {"uri": f"{LATER}/SKILL.md"}, {"skill": skilled.skill("a", LATER)}),
            ):
                assert (await host.ask(method, json.dumps(params)))["result"] == expected
        for way, era in WAYS:
            peer = await peers.open(way, era, server="b")
            listed = await result_of(peer, "skills/list", {})
            assert listed["skills"] == skilled.listed_skills("b")
            got = await result_of(peer, "skills/get", {"uri": f"{LATER}/SKILL.md"})
            assert got["skill"] == skilled.skill("b", LATER)
            await verified(peer, got["skill"])
            folder = await result_of(peer, "resources/directory/read", {"uri": REFUNDS})
            assert folder["resources"][0]["uri"] == f"{REFUNDS}/examples"


async def test_a_change_of_skills_is_one_of_resources(tmp_path):
    more = skilled.skill("a", LATER)
    now = tmp_path / "more"
    listed = {"skills": [skilled.skill("a", RELEASE)]}
    changed = {"notify": "notifications/resources/list_changed"}
    answers = {
        "skills/list": [{"raw": str(now)}],
        "tools/call echo": [changed, {"say": "done"}],
    }
    now.write_text(json.dumps(listed) + "\n")
    async with open_hosts({"a": skilled.entry("a", answers=answers)}) as its:
        host = await its.host("fast", "handshake", capabilities=HOST)
        assert len((await result_of(host, "skills/list", {}))["skills"]) == 1
        now.write_text(json.dumps({"skills": [*listed["skills"], more]}) + "\n")
        await call(host, "a__echo")
        await host.hear("notifications/resources/list_changed")
        assert len((await result_of(host, "skills/list", {}))["skills"]) == 2


async def test_a_host_of_skills_is_greeted_when_it_is_known_who_has_some(tmp_path):
    """The greeting of the older eras comes once."""
    with scripted.Gate(tmp_path / "gate") as gate:
        entry = skilled.entry("a")
        script = json.loads(entry["args"][-1]) | {"gate": str(gate.path)}
        entry["args"][-1] = json.dumps(script)
        async with open_hosts({"a": entry}, settled=False, startup_wait=scripted.PATIENCE_S) as its:
            without = await its.host("fast", "handshake")
            assert "extensions" not in its.greeted["capabilities"]
            assert without is not None
            gate.let_one_through()
            await its.host("fast", "handshake", capabilities=HOST)
            assert SKILLS in its.greeted["capabilities"]["extensions"]
