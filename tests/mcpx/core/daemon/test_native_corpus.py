"""All 527 tools of the corpus under their own names, of a real daemon with its 70 servers."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from mcpx.core.catalog.naming import native_name
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry_of
from tests.tokens import corpus

pytestmark = [pytest.mark.anyio, pytest.mark.corpus, pytest.mark.timeout(240)]
SETTINGS = {"startup_wait": 60, "connect_timeout": 60, "queue_timeout": 60}


def servers(folder):
    """The entries of the corpus's servers."""
    found = {}
    for number, (server, rows) in enumerate(corpus().items()):
        file = folder / f"tools{number}.json"
        tools = [
            {"name": row["tool"], "description": row["description"], "inputSchema": row["inputSchema"]}
            for row in rows
        ]
        script = {
            "greeting": {"serverInfo": {"name": server, "version": "1"}},
            "offers": {"tools": tools},
            "answers": {"tools/call *": f"ran {json.dumps([server, '@{params.name}'])}"},
        }
        file.write_text(json.dumps(script))
        found[server] = entry_of(file)
    return found


async def listed(client):
    """All pages, as they came."""
    pages, cursor = [], None
    while True:
        page = await client.request("tools/list", {} if cursor is None else {"cursor": cursor})
        pages.append(page)
        if (cursor := page.get("nextCursor")) is None:
            return pages


async def test_527_tools_in_pages_equal_to_the_byte_through_a_kill_and_a_restart(house):
    house.write(servers(house.folder), **SETTINGS, expose="all")
    expected = {
        native_name(server, str(row["tool"])): (server, row)
        for server, rows in corpus().items()
        for row in rows
    }
    assert len(expected) == 527
    async with house.attached() as client:
        await client.initialize()
        before = await listed(client)
        client.notifications.clear()  # of servers that listed before their client did
        assert len(before) >= 3
        tools = [tool for page in before for tool in page["tools"]]
        assert {tool["name"] for tool in tools} == expected.keys()
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool["name"]) for tool in tools)
        ran = set()
        for tool in tools:
            server, row = expected[tool["name"]]
            assert tool["inputSchema"].get("properties") == row["inputSchema"].get("properties")
            answer = await client.call(tool["name"])
            if answer["isError"]:  # it wants arguments
                said = answer["structuredContent"]
                assert [said["code"], said["server"], said["tool"]] == [
                    "invalid_arguments",
                    server,
                    row["tool"],
                ]
            else:
                ran.add(tool["name"])
                assert answer["content"][0]["text"] == f"ran {json.dumps([server, row['tool']])}"
        assert len(ran) > 50
        raw = json.dumps(before)
        assert json.dumps(await listed(client)) == raw
        pids = {each["name"]: each["pid"] for each in house.status()["servers"]}
        for name in list(pids)[::10]:
            os.kill(pids[name], signal.SIGKILL)
        assert json.dumps(await listed(client)) == raw
        os.kill(house.pid, signal.SIGKILL)
        await until(lambda: len(house.daemons()) == 0)
        assert json.dumps(await listed(client)) == raw
        assert house.pid is not None
        assert client.notifications == []
