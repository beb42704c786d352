"""A task is found again by its client when its shim is started anew."""

from __future__ import annotations

import sys

import pytest

from tests.mcpx.core.gateway import task_server
from tests.mcpx.core.gateway.task_server import CAPABILITIES_KEY, TASKS
from tests.mcpx.serving import ENVELOPE

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
META = ENVELOPE | {CAPABILITIES_KEY: {"extensions": {TASKS: {}}}}
START = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "start"}}


async def test_a_task_survives_the_restart_of_the_shim(house):
    house.write({"s": {"command": sys.executable, "args": ["-S", "-E", task_server.__file__]}})
    async with house.attached() as client:
        task_id = (await client.request("tools/call", START | {"_meta": META}))["taskId"]
        said = await client.request("tasks/get", {"taskId": task_id, "_meta": META})
        assert said["status"] == "input_required"
    async with house.attached() as client:
        about = {"taskId": task_id, "_meta": META}
        await client.request("tasks/update", about | {"inputResponses": {"a": {"action": "accept"}}})
        said = await client.request("tasks/get", about)
        assert said["status"] == "completed"
        assert said["result"]["answers"] == {"a": {"action": "accept"}}
        other = META | {"io.modelcontextprotocol/clientInfo": {"name": "other", "version": "1"}}
        refused = await client.answer(await client.ask("tasks/get", about | {"_meta": other}))
        assert refused["error"]["code"] == -32602
