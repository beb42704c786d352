"""Clients that are asked about the servers of a project's files, over shims and the socket."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.core.daemon.test_project_files import CHANGED, approve, named, noted, refused
from tests.mcpx.core.daemon.test_projects import call, client, inspected, server, told, where
from tests.mcpx.serving import ENVELOPE, PATIENCE_S

pytestmark = pytest.mark.anyio


def says(word):
    return {"action": "accept", "content": {"decision": word}}


@pytest.fixture
def shop(house):
    made = house.folder / "shop"
    made.mkdir()
    house.write({"plain": server()})
    return made


async def lists(of):
    return [each["name"] for each in (await of.request("tools/list", {}))["tools"]]


async def heard(of, count=1):
    """Wait until a client was asked that often."""
    with anyio.fail_after(PATIENCE_S):
        while len(of.questions) < count:
            await inspected(of)
    return of.questions


async def test_a_client_is_asked_once_and_sees_the_servers_after_a_yes(house, shop):
    named(shop, env={"MARK": "1", "API_KEY": "never shown"})
    async with client(house, shop, words=[says("yes")]) as one:
        await lists(one)
        (asked,) = await heard(one)
        for said in (
            f"Folder: {shop}",
            "db (.mcp.json)",
            "scripted_server.py",
            "variable: MARK=1",
            "API_KEY",
        ):
            assert said in asked["message"]
        assert "never shown" not in asked["message"]
        assert asked["requestedSchema"]["properties"]["decision"]["enum"] == ["yes", "not_now", "no"]
        await told(one, CHANGED)
        assert (await where(one, "shop/db"))["cwd"] == str(shop)
        assert "agreement" not in await noted(one)
    async with client(house, shop, words=[]) as again:
        await lists(again)
        assert (await where(again, "shop/db"))["cwd"] == str(shop)
        assert again.questions == []


async def test_a_call_waits_for_the_answer_and_then_runs(house, shop):
    named(shop)
    async with client(house, shop, words=[says("yes")]) as one:
        assert (await where(one, "shop/db"))["cwd"] == str(shop)
        assert len(one.questions) == 1


@pytest.mark.parametrize("word", ["not_now", "cancel", "decline", "error"])
async def test_not_now_holds_for_the_client_alone(house, shop, word):
    named(shop)
    said = says(word) if word == "not_now" else {"action": word}
    async with client(house, shop, words=[said]) as one:
        assert await refused(one, "shop/db") == "unknown_server"
        assert await refused(one, "shop/db") == "unknown_server"
        assert len(one.questions) == 1
        assert "mcpx approve --project" in await noted(one)
        assert "mcpx approve --project" in (await call(one, "shop/db"))["content"][0]["text"]
    async with client(house, shop, words=[says("yes")]) as next_one:
        await where(next_one, "shop/db")


async def test_no_holds_for_all_until_the_file_changes_or_a_person_agrees(house, shop):
    path = named(shop)
    async with client(house, shop, words=[says("no")]) as one:
        assert await refused(one, "shop/db") == "unknown_server"
    house.run("daemon", "restart")
    async with client(house, shop, words=[says("yes")]) as one, client(house, shop, words=[]) as other:
        await lists(one)
        assert await refused(one, "shop/db") == "unknown_server"
        assert one.questions == []
        assert "agreement" not in await noted(one)
        document = json.loads(path.read_text())
        document["mcpServers"]["db"]["env"] = {"OTHER": "1"}
        path.write_text(json.dumps(document))
        await heard(one)
        assert (await where(other, "shop/db"))["env"]["OTHER"] == "1"
        assert other.questions == []  # one was asked already
        document["mcpServers"]["db"]["env"] = {"MARK": "1"}  # as it was refused
        path.write_text(json.dumps(document))
        await until(lambda: len(house.status()["servers"]) == 1)
        assert approve(house, shop, "--yes").returncode == 0
        assert (await where(other, "shop/db"))["env"]["MARK"] == "1"


async def test_an_open_question_is_withdrawn_when_it_is_decided_elsewhere(house, shop):
    named(shop)
    async with client(house, shop, words=[]) as one, client(house, shop, words=[]) as other:
        await lists(one)
        await heard(one)
        await lists(other)
        assert other.questions == []
        assert approve(house, shop, "--yes").returncode == 0
        await told(one, "notifications/cancelled")
        assert (await where(one, "shop/db"))["pid"] == (await where(other, "shop/db"))["pid"]


async def test_what_is_added_is_asked_about_alone_and_the_rest_goes_on(house, shop):
    path = named(shop)
    approve(house, shop, "--yes")
    async with client(house, shop, words=[says("yes")]) as one:
        first = await where(one, "shop/db")
        document = json.loads(path.read_text())
        document["mcpServers"]["more"] = {**server(), "env": {"MORE": "1"}}
        path.write_text(json.dumps(document))
        (asked,) = await heard(one)
        assert "more (.mcp.json)" in asked["message"]
        assert "db (" not in asked["message"]
        assert (await where(one, "shop/more"))["env"]["MORE"] == "1"
        assert (await where(one, "shop/db"))["pid"] == first["pid"]


async def test_what_is_too_long_to_be_read_is_asked_in_a_terminal_alone(house, shop):
    named(shop, env={f"V{number}": "x" * 90 for number in range(90)})
    async with client(house, shop, words=[]) as one:
        assert await refused(one, "shop/db") == "unknown_server"
        assert one.questions == []
        assert "agreement" in await noted(one)
    assert "V89=" in approve(house, shop).stdout


async def test_a_client_of_2026_07_28_is_asked_in_a_result(house, shop):
    named(shop)
    can = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}

    async def ask(of, server_name=None, **more):
        arguments = {} if server_name is None else {"server_name": server_name, "tool_name": "where"}
        name = "inspect" if server_name is None else "exec"
        params = {"name": name, "arguments": arguments, "_meta": can, **more}
        key = await of.ask("tools/call", params)
        with anyio.fail_after(20):
            while key not in of._replies:
                of._take(await of._line())
        return of._replies.pop(key)["result"]

    async with house.attached(cwd=shop) as one, house.attached(cwd=shop) as other:
        asked = await ask(one)
        assert asked["resultType"] == "input_required"
        ((key, request),) = asked["inputRequests"].items()
        assert "db (.mcp.json)" in request["params"]["message"]
        assert (await ask(other))["resultType"] == "complete"  # one is asked at a time
        done = await ask(one, inputResponses={key: says("yes")}, requestState=asked["requestState"])
        assert done["resultType"] == "complete"
        assert json.loads((await ask(one, "shop/db"))["content"][0]["text"])["cwd"] == str(shop)
        assert not (await ask(other, "shop/db")).get("isError")
