"""The stdio frontend as a client sees it: a real process, and raw lines."""

from __future__ import annotations

import json
import sys
import time

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN, environment, serving, write_config

pytestmark = pytest.mark.anyio

NAMES = ["inspect", "exec", "resources"]


@pytest.fixture
def config(tmp_path, ears):
    return write_config(tmp_path, {"s": entry(ears)}, startup_wait=20)


def text(result: dict) -> str:
    return str(result["content"][0]["text"])


async def test_initialize_is_answered_before_any_server_is_up(tmp_path):
    servers = {"never": entry(silent=True), "none": {"command": "there-is-no-such-command"}}
    config = write_config(tmp_path, servers, startup_wait=0.5)
    async with serving(tmp_path, "serve", config) as mcpx:
        hello = await mcpx.initialize()
        assert hello["serverInfo"]["name"] == "mcpx"
        assert hello["instructions"]
        assert hello["capabilities"]["tools"]["listChanged"] is True
        tools = (await mcpx.request("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == NAMES
        assert "\nServers: never, none\n" in tools[0]["description"]
        assert (
            "## never\n(tools not listed yet) inspect again in a moment, or to see why\n## none\n"
            in tools[0]["description"]
        )
        inspect = {"name": "inspect", "arguments": {"server_name": "none"}}
        told = (await mcpx.request("tools/call", inspect))["content"][0]["text"]
        assert "command not found: there-is-no-such-command" in told
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0


async def test_the_first_list_waits_for_the_servers_and_shows_their_tools(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        tools = {tool["name"]: tool for tool in (await mcpx.request("tools/list"))["tools"]}
        assert "echo(text: string)" in tools["inspect"]["description"]
        assert tools["inspect"]["annotations"]["readOnlyHint"] is True
        assert tools["exec"]["annotations"]["destructiveHint"] is True
        answer = await mcpx.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
        assert (text(answer), answer["isError"]) == ("hi", False)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", LEGACY, "2025-11-25"])
async def test_every_revision_with_a_handshake_is_spoken(tmp_path, config, version):
    async with serving(tmp_path, "serve", config) as mcpx:
        assert (await mcpx.initialize(version))["protocolVersion"] == version
        answer = await mcpx.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
        assert text(answer) == "hi"


async def test_the_revision_without_a_handshake_is_spoken(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        found = await mcpx.request("server/discover", {"_meta": ENVELOPE})
        assert MODERN in found["supportedVersions"]
        tools = await mcpx.request("tools/list", {"_meta": ENVELOPE})
        assert [tool["name"] for tool in tools["tools"]] == NAMES
        arguments = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
        call = {"name": "exec", "arguments": arguments, "_meta": ENVELOPE}
        assert text(await mcpx.request("tools/call", call)) == "hi"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdks_client_is_served_in_both_eras(tmp_path, config, mode):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcpx", "serve", config],
        env=environment(tmp_path),
    )
    with anyio.fail_after(50):
        async with Client(command, mode=mode, cache=None) as client:
            assert (client.protocol_version == MODERN) is (mode == "auto")
            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
            call = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
            assert (await client.call_tool("exec", call)).content[0].text == "hi"
            told = await client.call_tool("exec", {**call, "tool_name": "ecco"})
            assert told.is_error
            assert told.structured_content["code"] == "unknown_tool"
            assert "echo" in told.content[0].text


async def test_rubbish_on_standard_input_is_survived(tmp_path, config):
    rubbish = [
        b"hello?",
        b"[]",
        b"{",
        b"\xff\xfe\xfd",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 999, "result": {}}',
        b"[" * 20_000,
        b"",
    ]
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.send_bytes(b"not at the start either\n")
        await mcpx.initialize()
        for line in rubbish:
            await mcpx.send_bytes(line + b"\n")
        assert await mcpx.request("ping") is not None
        codes = [refusal["error"]["code"] for refusal in mcpx.refusals]
        assert codes == [-32700, -32700, -32600, -32700, -32700, -32600, -32700]
        assert text(await mcpx.call("exec", server_name="s", tool_name="count")) == "nothing"


async def test_a_line_over_the_limit_is_skipped(tmp_path, ears):
    config = write_config(tmp_path, {"s": entry(ears)}, max_message_bytes=100_000)
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.send("ping", {"_meta": {"filler": "x" * 1_000_000}}, id="too long")
        refused = await mcpx.answer("too long")
        assert refused["error"]["code"] == -32600
        assert "a line over 100000 bytes" in refused["error"]["message"]
        assert await mcpx.request("ping") is not None
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0


async def test_what_was_asked_before_the_input_ended_is_still_answered(tmp_path, ears):
    # the arguments that do not fit are judged by a process that has to start first
    config = write_config(tmp_path, {"s": entry(ears)}, startup_wait=20, shutdown_grace=10)
    async with serving(tmp_path, "serve", config, MCPX_LOG="debug") as mcpx:
        await mcpx.initialize()
        ids = {
            await mcpx.ask(
                "tools/call",
                {"name": "exec", "arguments": {"server_name": "s", "tool_name": "echo", "arguments": given}},
            )
            for given in ({"text": "one"}, {"text": "two"}, {})
        }
        await mcpx.close_input()
        answers = {message.get("id"): message for message in await mcpx.rest_of_output()}
        assert ids <= set(answers)
        assert sum(answers[number]["result"]["isError"] for number in ids) == 1
        assert await mcpx.exit_code() == 0


async def test_a_request_that_hangs_does_not_keep_it_after_the_input_ended(tmp_path, config, ears):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        call = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "hang"}}
        await mcpx.ask("tools/call", call)
        await ears.hear("call", tool="hang")
        began = time.monotonic()
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0
        assert time.monotonic() - began < 6


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such/method", {}, -32601),
        ("tools/call", {"arguments": {}}, -32602),
        ("tools/call", {"name": "exec", "arguments": [1]}, -32602),
        ("tools/call", {"name": "exce", "arguments": {}}, -32602),
    ],
)
async def test_a_request_that_is_wrong_gets_the_protocols_error(tmp_path, config, method, params, code):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        error = (await mcpx.answer(await mcpx.ask(method, params)))["error"]
        assert error["code"] == code
        if params.get("name") == "exce":
            assert "did you mean exec?" in error["message"]
        assert await mcpx.request("ping") is not None


async def test_a_call_of_the_three_tools_that_is_wrong_is_a_result_that_says_so(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        wrong = [
            (await mcpx.call("exec", tool_name="no such"), "server_name is missing"),
            (await mcpx.call("exec", server_name="s"), "tool_name is missing"),
            (await mcpx.call("resources", server_name=3, uri="x"), "server_name must be a string"),
            (await mcpx.call("inspect", server_name="z"), "Servers: s"),
        ]
        for result, expected in wrong:
            assert result["isError"] is True
            assert expected in text(result)
            assert result["structuredContent"]["outcome"] == "not_sent"


async def test_a_changed_list_is_announced(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("tools/list")
        mcpx.notifications.clear()
        await mcpx.call("exec", server_name="s", tool_name="add", arguments={"name": "wave"})
        await mcpx.logged("upstream.listed", server="s")
        with anyio.fail_after(50):
            while "notifications/tools/list_changed" not in [n["method"] for n in mcpx.notifications]:
                await mcpx.request("ping")
        assert "wave(" in (await mcpx.request("tools/list"))["tools"][0]["description"]


async def test_progress_of_a_call_reaches_the_client_that_asked_for_it(tmp_path, config, ears):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        call = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "hang"}}
        hanging = await mcpx.ask("tools/call", {**call, "_meta": {"progressToken": "mine"}})
        await ears.hear("call", tool="hang")
        await mcpx.call("exec", server_name="s", tool_name="nudge")
        await mcpx.call("exec", server_name="s", tool_name="release")
        assert text((await mcpx.answer(hanging))["result"]) == "released"
        told = [n["params"] for n in mcpx.notifications if n["method"] == "notifications/progress"]
        assert [(each["progressToken"], each["message"]) for each in told] == [("mine", "still at it")]


async def test_a_call_that_the_client_cancels_is_cancelled_at_the_server(tmp_path, config, ears):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        call = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "hang"}}
        asked = await mcpx.ask("tools/call", call)
        sent = await ears.hear("call", tool="hang")
        await mcpx.send("notifications/cancelled", {"requestId": asked})
        assert (await ears.hear("cancelled"))["id"] == sent["id"]
        assert await mcpx.request("ping") is not None


async def test_what_code_prints_never_lands_among_the_messages(tmp_path, config):
    """A driver in which every listing prints, through Python, the descriptor, and a child process."""
    driver = tmp_path / "driver.py"
    driver.write_text(
        "import os, subprocess\n"
        "from mcpx.core.gateway.offer import Offer\n"
        "from mcpx.__main__ import main\n"
        "listed = Offer.list_tools\n"
        "async def noisy(self, *given):\n"
        "    print('stray one', flush=True)\n"
        "    os.write(1, b'stray two\\n')\n"
        "    subprocess.run(['echo', 'stray three'], check=True)\n"
        "    return await listed(self, *given)\n"
        "Offer.list_tools = noisy\n"
        "main()\n"
    )
    async with serving(tmp_path, "serve", config, command=lambda: [str(driver)]) as mcpx:
        await mcpx.initialize()
        for _ in range(3):
            await mcpx.request("tools/list")
        assert await mcpx.request("ping") is not None
        await mcpx.close_input()
        assert all(json.dumps(message) for message in await mcpx.rest_of_output())
        assert await mcpx.exit_code() == 0
        await mcpx.whole_log()
        printed = mcpx.other_stderr
        assert [printed.count(f"stray {number}") for number in ("one", "two", "three")] == [3, 3, 3]


async def test_a_client_that_feeds_structured_content_to_the_model_gets_none(tmp_path, config):
    async with serving(tmp_path, "serve", config) as mcpx:
        client = {"name": "claude-code", "version": "2"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
        await mcpx.request("initialize", params)
        await mcpx.send("notifications/initialized")
        assert "structuredContent" not in await mcpx.call("inspect", server_name="s")
