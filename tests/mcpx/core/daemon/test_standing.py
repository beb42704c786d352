"""A daemon whose event loop stands: it says where, ends, and its clients get the next one."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.core.gateway.frontends.test_not_reading import MEGABYTE, call, flooding, memory
from tests.mcpx.scripted import entry
from tests.mcpx.serving import serving

pytestmark = pytest.mark.anyio

STANDING = Path(__file__).with_name("standing_daemon.py")


async def test_a_daemon_that_stands_ends_and_the_shim_starts_the_next(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with serving(house.folder, house.config, command=lambda: [str(STANDING)]) as daemon:
        await daemon.logged("socket.listening")
        first = house.pid
        async with house.attached() as client:
            await client.initialize()
            await client.request("tools/list")
            hanging = await client.ask(
                "tools/call", {"name": "exec", "arguments": {"server_name": "s", "tool_name": "hang"}}
            )
            call = await ears.hear("call", tool="hang")
            assert call
            os.kill(first, signal.SIGUSR1)
            stands = await daemon.logged("loop.stands")
            assert "standing_daemon.py" in stands["stack"]
            assert await daemon.exit_code() == 1
            killed = await daemon.logged("mcpx.killed")
            assert "event loop has stood" in killed["reason"]
            lost = (await client.answer(hanging))["result"]["structuredContent"]
            assert (lost["code"], lost["outcome"]) == ("server_died", "unknown")
            answer = await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
            assert answer["content"][0]["text"] == "hi"
            assert house.pid not in {None, first}


async def test_a_daemon_that_was_stopped_for_a_while_goes_on(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with serving(house.folder, house.config, command=lambda: [str(STANDING)]) as daemon:
        await daemon.logged("socket.listening")
        pid = house.pid
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T")
        await anyio.sleep(2.5)  # more than the patience: there is nothing to wait for
        os.kill(pid, signal.SIGCONT)
        await anyio.sleep(0.5)
        assert daemon.process.returncode is None
        assert house.status()["daemon"]["pid"] == pid
        assert not [line for line in daemon.log if line["event"] == "loop.stands"]


UNREADABLE = [
    (b'{"jsonrpc":"2.0","id":901,"method":"ping","params":{"a":"\\ud800"}}', 901, -32700),
    (b'{"jsonrpc":"2.0","id":902,"method":"ping","params":' + b"[" * 2000 + b"]" * 2000 + b"}", 902, -32700),
    (b'{"jsonrpc":"2.0","id":903,"method":7}', 903, -32600),
    (b'{"jsonrpc":"2.0","id":905}', 905, -32600),
    (b'{"jsonrpc":"2.0","id":906,"params":{}}', 906, -32600),
    (b"no json", None, -32700),
    (b'{"jsonrpc":"2.0","id":907,"method":"ping"', None, -32700),
    (b'[{"jsonrpc":"2.0","id":904,"method":"ping"}]', None, -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0"}', None, -32600),
]


async def test_what_cannot_be_read_gets_one_answer_through_the_shim(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20, max_message_bytes=100_000)
    async with house.attached() as client:
        await client.initialize()
        await client.request("ping")
        for line, request_id, code in UNREADABLE:
            await client.send_bytes(line + b"\n")
            if request_id is not None:
                assert (await client.answer(request_id))["error"]["code"] == code, line
        for unanswered in (
            b'{"jsonrpc":"2.0","method":"notifications/x","params":7}',
            b'{"method":"\xc3\xa9"}',
        ):
            await client.send_bytes(unanswered + b"\n")
        await client.send("ping", {"filler": "x" * 1_000_000}, id="long")
        assert (await client.answer("long"))["error"]["code"] == -32600
        assert await client.request("ping") == {}
        wanted = [code for _, request_id, code in UNREADABLE if request_id is None]
        assert [refusal["error"]["code"] for refusal in client.refusals] == wanted
        assert await client.request("ping") == {}
        await client.close_input()
        assert await client.rest_of_output() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
async def test_neither_shim_nor_daemon_keeps_what_a_client_does_not_read(house):
    house.write({"s": flooding(), "n": flooding()}, startup_wait=20)
    async with house.attached() as client, house.attached() as neighbour:
        await client.initialize()
        await client.request("logging/setLevel", {"level": "debug"})
        await client.request("tools/list")
        await neighbour.initialize()
        await neighbour.request("tools/list")
        before = memory(client.process.pid), memory(house.pid)
        await client.send_bytes(call("c", "chatter", size=100_000, count=1000))
        for number in range(20):
            await client.send_bytes(call(f"n{number}", "big", size=MEGABYTE))
        await neighbour.call("exec", server_name="n", tool_name="echo", arguments={})
        await until(lambda: any(line["event"] == "client.not_reading" for line in house.log()))
        assert memory(client.process.pid) - before[0] < 20
        assert memory(house.pid) - before[1] < 80
        assert json.loads(house.run("status", "--json").stdout)["daemon"]["dropped"] > 0
        for number in range(20):
            text = (await client.answer(f"n{number}"))["result"]["content"][0]["text"]
            assert len(text) == MEGABYTE
