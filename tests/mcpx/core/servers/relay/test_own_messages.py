"""Messages of a server's own accord, without the secrets that it was given, at every endpoint."""

from __future__ import annotations

import json

import pytest

from tests.mcpx.core.daemon.conftest import house
from tests.mcpx.scripted import entry

__all__ = ["house"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
FETCHED, WRITTEN = "db.corp.example", "/srv/the-folder"
SAYS = {"place": "@{given.fetched}", "folder": WRITTEN, "text": "it is @{given.fetched}"}


@pytest.mark.parametrize("options", [(), ("--server", "s")], ids=["three-tools", "transparent"])
async def test_a_fetched_secret_is_none_of_a_servers_own_messages_whatever_its_name(house, options):
    (house.folder / "secret").write_text(FETCHED)
    notify = {"notify": "notifications/message", "params": {"level": "warning", "data": SAYS}}
    steps = [notify, {"say": "@{given.fetched}"}]
    server = entry(offers={"tools": ["tell"]}, answers={"tools/call tell": steps})
    env = {"PLACE": f"${{cmd:cat {house.folder}/secret}}", "FOLDER": WRITTEN}
    house.write({"s": {**server, "env": env}})
    async with house.attached(*options) as client:
        await client.initialize()
        if not options:
            await client.request("logging/setLevel", {"level": "info"})
        given = {"fetched": FETCHED}
        if not options:
            given = {"server_name": "s", "tool_name": "tell", "arguments": given}
        result = await client.call("tell" if options else "exec", **given)
    (said,) = [each["params"]["data"] for each in client.notifications if each["method"].endswith("/message")]
    shown = "***cmd***"
    assert said == {"place": shown, "folder": WRITTEN, "text": f"it is {shown}"}
    assert FETCHED in json.dumps(result), "the result belongs to the caller"
