"""The project of a client: what it is known by, and over HTTP its roots."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, ListRootsResult, Root, ToolListChangedNotification
from pydantic import FileUrl

from mcpx.core.gateway.clients.projects import client_in, first_folder, project_of
from mcpx.core.system.endpoint import PROJECT_VARIABLES, Surroundings
from tests.mcpx.core.gateway.frontends.http.test_endpoints import served
from tests.mcpx.scripted import config_of, entry
from tests.mcpx.serving import PATIENCE_S

WHERE = {"tools/call where": "@{cwd}"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "home" / "me"
    (made / "work" / "shop").mkdir(parents=True)
    return made


def project(home: Path, folder: object = "", program: object = "", **variables: str) -> str | None:
    about = Surroundings(str(folder), str(program), variables)
    return project_of(about, variables, home=str(home))


def test_a_folder_is_a_project_unless_it_says_nothing(home: Path) -> None:
    shop = home / "work" / "shop"
    assert project(home, shop) == str(shop)
    assert project(home, home / "work") == str(home / "work")
    for folder in (
        "/",
        home,
        home.parent,
        "/usr",
        "/usr/bin",
        "/tmp/Some.app/Contents/MacOS",
        "",
        "work",
        "x\0y",
    ):
        assert project(home, folder) is None, folder
    bundle = home / "An.app" / "Contents" / "MacOS"
    bundle.mkdir(parents=True)
    assert project(home, bundle) is None
    assert project(home, shop, program=shop) is None  # the client's own
    link = home / "link"
    link.symlink_to(shop)
    assert project(home, link) == str(shop)


def test_a_variable_counts_before_the_folder_where_it_names_one(home: Path) -> None:
    work, shop = home / "work", home / "work" / "shop"
    assert project(home, work, CLAUDE_PROJECT_DIR=str(shop)) == str(shop)
    assert project(home, work, WORKSPACE_FOLDER_PATHS=f"{shop},/elsewhere") == str(shop)
    assert project(home, work, CLAUDE_PROJECT_DIR="relative") == str(work)
    assert project(home, work, CLAUDE_PROJECT_DIR=str(home / "no")) == str(work)


def test_variables_are_passed_on_by_pattern_and_never_those_that_load_code() -> None:
    kept = {"CLAUDE_PROJECT_DIR": "/x", "MY_ONE": "1"}
    given = {
        **kept,
        "OTHER": "2",
        "LD_PRELOAD": "evil.so",
        "PYTHONPATH": "/x",
    }
    about = Surroundings(variables=given)
    chosen = client_in(about, (*PROJECT_VARIABLES, "MY_*", "LD_*", "PYTHON*"), home="/home/me").variables
    assert chosen == kept
    assert client_in(about, (), home="/home/me").variables == {}


def test_the_first_root_that_is_a_folder_here_counts(home: Path) -> None:
    shop = home / "work" / "shop"
    spaced = home / "with space"
    spaced.mkdir()
    said = ["https://example.org/x", "file://elsewhere/x", "file:///nowhere", spaced.as_uri(), shop.as_uri()]
    assert first_folder({"roots": [{"uri": each} for each in said]}) == str(spaced)
    for odd in (None, {}, {"roots": None}, {"roots": [None, 1, {}, {"uri": 1}, {"uri": "file://["}]}, []):
        assert first_folder(odd) is None
    assert first_folder({"roots": [{"uri": f"file://{os.devnull}"}]}) is None


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:The roots capability is deprecated")
async def test_over_http_the_project_comes_from_roots(home: Path) -> None:
    shop, work = home / "work" / "shop", home / "work"
    given = entry(answers=WHERE, offers={"tools": ["where"]}, settings={"cwd": "${project}"})
    config = config_of({"s": given})
    call = {"server_name": "s", "tool_name": "where", "arguments": {}}
    roots = [shop]

    async def say(_context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(each.as_uri())) for each in roots])

    async with served(config) as (_, http, url):
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, list_roots_callback=say, mode="legacy") as client:
            assert (await client.call_tool("exec", call)).content[0].text == str(shop)
            roots[:] = [work]
            await client.send_roots_list_changed()
            assert (await client.call_tool("exec", call)).content[0].text == str(work)
        async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
            refused = await client.call_tool("exec", call)
            assert refused.is_error
            assert "this client is in none" in refused.content[0].text
        async with Client(streamable_http_client(url, http_client=http)) as client:
            assert "this client is in none" in (await client.call_tool("exec", call)).content[0].text


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:The roots capability is deprecated")
@pytest.mark.filterwarnings("ignore:Elicitation")
async def test_over_http_the_servers_of_a_projects_files_are_asked_for_and_follow_the_roots(
    home: Path,
) -> None:
    shop, work = home / "work" / "shop", home / "work"
    named = entry(answers=WHERE, offers={"tools": ["where"]})
    (shop / ".mcp.json").write_text(json.dumps({"mcpServers": {"db": named}}))
    call = {"server_name": "shop/db", "tool_name": "where", "arguments": {}}
    roots, asked, changed = [shop], [], anyio.Event()

    async def say(_context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(each.as_uri())) for each in roots])

    async def agree(_context: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "yes"})

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async with served(config_of({"plain": entry()})) as (hub, http, url):
        transport = streamable_http_client(url, http_client=http)
        at = partial(Client, mode="legacy", list_roots_callback=say)
        async with at(transport, elicitation_callback=agree, message_handler=hear) as client:
            looked = await client.call_tool("inspect", {})
            assert [each.count("db (.mcp.json)") for each in asked] == [1]
            assert "shop/db" in looked.content[0].text
            assert (await client.call_tool("exec", call)).content[0].text == str(shop)
            async with at(streamable_http_client(url, http_client=http)) as second:
                assert (await second.call_tool("exec", call)).content[0].text == str(shop)
            roots[:] = [work]
            await client.send_roots_list_changed()
            assert (await client.call_tool("exec", call)).structured_content["code"] == "unknown_server"
            with anyio.fail_after(PATIENCE_S):
                await changed.wait()
            assert len(asked) == 1
        assert hub.clients.handles == {}
