"""A node: real processes, real TLS, and gateways that are right, wrong, many, or gone."""

import json
import os
import signal
import socket

import anyio
import pytest
from msgspec.structs import replace

from mcpx.cluster.node.protocol import Attach
from mcpx.cluster.node.starting import NodeStart, make_credentials
from mcpx.core.wire.tls_channel import WrongCertificate, connect_tls
from tests.mcpx.cluster.nodes import CREDENTIALS, Gateway, running_node, spec, started_with
from tests.mcpx.scripted import PATIENCE_S, soon
from tests.mcpx.serving import alive_in_group

pytestmark = pytest.mark.anyio


@pytest.fixture
async def node(tmp_path):
    async with running_node(tmp_path) as started:
        yield started


def failure(answer):
    return answer["error"]["data"]["mcpx"]


# --- what it serves


async def test_a_server_is_served_under_its_own_names(node, ears):
    async with node.attached(spec(ears)) as gateway:
        found = await gateway.ask("server/discover")
        assert found["result"]["instructions"] == "Does what its script says."
        tools = (await gateway.ask("tools/list"))["result"]["tools"]
        assert "echo" in [each["name"] for each in tools]
        answer = await gateway.call("echo", text="hello")
        assert answer["result"]["content"] == [{"type": "text", "text": "hello"}]


async def test_gateways_with_equal_specs_share_a_process(node, ears):
    async with node.attached(spec(ears)) as one, node.attached(spec(ears)) as other:
        await one.call("count")
        await other.call("count")
    assert len(ears.of("started")) == 1
    assert len(ears.of("call")) == 2


async def test_different_specs_of_one_name_run_beside_each_other(node, ears):
    changed = spec(ears, stderr="another")
    async with node.attached(spec(ears)) as one, node.attached(changed) as other:
        assert "result" in await one.call("count")
        assert "result" in await other.call("count")
        report = await node_report(node)
        assert [each["name"] for each in report["servers"]] == ["s", "s"]
        assert len({each["digest"] for each in report["servers"]}) == 2
        assert {each["connections"] for each in report["servers"]} == {1}
    assert len(ears.of("started")) == 2


async def test_a_changed_spec_takes_the_place_of_one_that_nobody_uses(node, ears):
    async with node.attached(spec(ears)) as gateway:
        await gateway.call("count")
    async with node.attached(spec(ears, stderr="another")) as gateway:
        await gateway.call("count")
        report = await node_report(node)
        assert [each["name"] for each in report["servers"]] == ["s"]
        assert failure(await gateway.call("die"))["server"] == "s"


async def test_each_client_of_a_per_client_server_has_its_own_process(node, ears):
    own = spec(ears, settings={"sessions": "per_client"})
    async with node.attached(own) as one, node.attached(own) as other:
        await one.call("count")
        await other.call("count")
        pids = {each["pid"] for each in ears.of("call", tool="count")}
        assert len(pids) == 2
    await soon(lambda: not any(alive_in_group(pid) for pid in pids))  # they end with their clients


async def test_a_health_check_is_answered_by_the_node_and_not_by_the_server(node, ears):
    async with node.attached(spec(ears)) as gateway:
        assert "result" in await gateway.call("count")
        asked = len(ears.of("request"))
        for _ in range(3):
            assert "result" in await gateway.ask("server/discover")
        assert len(ears.of("request")) == asked


async def node_report(node):
    async with node.connected({"do": "watch"}) as watcher:
        return (await watcher.line(node=...))["node"]


# --- failures


async def test_a_server_that_dies_in_a_call_is_told_as_from_one_mcpx(node, ears):
    async with node.attached(spec(ears)) as gateway:
        found = await gateway.call("die")
        assert "killed by SIGKILL" in found["error"]["message"]
        assert (failure(found)["code"], failure(found)["outcome"]) == ("server_died", "unknown")
        assert "result" in await gateway.call("count")  # it was started again, and the connection stayed
    assert len(ears.of("call", tool="die")) == 1


async def test_a_server_that_cannot_be_started_is_told_as_from_one_mcpx(node):
    async with node.attached(replace(spec(), command="/there/is/no/such/command")) as gateway:
        found = await gateway.ask("server/discover")
        assert failure(found)["code"] == "server_unavailable"
        assert "no/such/command" in found["error"]["message"]


async def test_specs_that_no_process_can_be_started_with_are_refused(node):
    for wrong in (replace(spec(), args=("a\0b",)), replace(spec(), name="a\nb")):
        answer = await node.do(do="attach", server=wrong)
        assert answer["code"] == "invalid"
    answer = await node.do(do="attach", server={"name": "s", "command": 7})
    assert answer["code"] == "invalid"
    async with node.attached(spec()) as gateway:
        assert "result" in await gateway.call("count")


async def test_a_node_that_is_killed_is_noticed_at_once_and_its_servers_end(tmp_path, ears):
    async with running_node(tmp_path, real=True) as node, node.attached(spec(ears)) as gateway:
        request = gateway.send("tools/call", {"name": "hang", "arguments": {}})
        await soon(lambda: ears.of("call", tool="hang"))
        os.kill(node.process.pid, signal.SIGKILL)
        with anyio.fail_after(1.0):
            with pytest.raises(ConnectionError):
                await gateway.line(id=request)
        [started] = ears.of("started")
        await soon(lambda: not alive_in_group(started["pid"]))


async def test_the_next_node_ends_what_a_killed_one_has_left(tmp_path, ears):
    async with running_node(tmp_path, real=True) as node, node.attached(spec(ears, stubborn=True)) as gateway:
        await gateway.call("count")
        os.kill(node.process.pid, signal.SIGKILL)
        await gateway.ended.wait()
    [started] = ears.of("started")
    assert alive_in_group(started["pid"])
    async with running_node(tmp_path):
        await soon(lambda: not alive_in_group(started["pid"]))


async def test_the_end_of_standard_input_ends_it_and_all_servers_whatever_they_do(tmp_path, ears):
    async with (
        running_node(tmp_path, real=True, shutdown_grace_s=60.0) as node,
        node.attached(spec(ears, stubborn=True)) as gateway,
        node.attached(spec(ears, name="t")) as other,
    ):
        gateway.send("tools/call", {"name": "hang", "arguments": {}})
        other.send("tools/call", {"name": "hang", "arguments": {}})
        await soon(lambda: len(ears.of("call", tool="hang")) == 2)
        node.process.stdin.close()
        with anyio.fail_after(3.0):
            await gateway.ended.wait()
            await node.ended()
    await soon(lambda: not any(alive_in_group(each["pid"]) for each in ears.of("started")))


async def test_the_end_of_standard_input_ends_it_in_order(tmp_path, ears):
    async with running_node(tmp_path) as node:
        async with node.attached(spec(ears)) as gateway:
            await gateway.call("count")
            node.process.stdin.close()
            assert await node.ended() == 0
        assert not any(alive_in_group(each["pid"]) for each in ears.of("started"))
    assert "error" not in (tmp_path / "node.log").read_text()


async def test_a_signal_lets_the_calls_finish(tmp_path, ears):
    async with running_node(tmp_path, real=True, shutdown_grace_s=20.0) as node:
        async with node.attached(spec(ears)) as gateway:
            request = gateway.send("tools/call", {"name": "hang", "arguments": {}})
            await soon(lambda: ears.of("call", tool="hang"))
            os.kill(node.process.pid, signal.SIGTERM)
            os.kill(ears.of("started")[0]["pid"], 0)
            [pid] = {each["pid"] for each in ears.of("started")}
            os.kill(pid, signal.SIGKILL)  # which settles the call
            assert failure(await gateway.line(id=request))["outcome"] == "unknown"
        assert await node.ended() == 0


async def test_stop_ends_it_in_order(tmp_path):
    async with running_node(tmp_path, real=True) as node:
        assert (await node.do(do="stop"))["ok"]
        assert await node.ended() == 0


# --- what is kept


async def test_a_node_that_is_started_again_knows_what_a_server_offers(tmp_path, ears):
    own = spec(ears, settings={"sessions": "per_client"})
    for _ in range(2):
        async with running_node(tmp_path) as node, node.attached(own) as gateway:
            assert "result" in await gateway.ask("tools/list")
    assert len(ears.of("started")) == 1  # it was not started to be asked again


async def test_a_server_stays_for_a_gateway_that_comes_again(node, ears):
    for _ in range(2):
        async with node.attached(spec(ears)) as gateway:
            await gateway.call("count")
    assert len(ears.of("started")) == 1


async def test_a_server_that_nobody_uses_ends_after_a_while(tmp_path, ears):
    async with running_node(tmp_path, linger_s=0.05) as node:
        async with node.attached(spec(ears)) as gateway:
            await gateway.call("count")
            pid = ears.of("started")[0]["pid"]
            await anyio.sleep(0.2)  # longer than it lingers: it is used
            assert alive_in_group(pid)
        await soon(lambda: not alive_in_group(pid))
        with anyio.fail_after(PATIENCE_S):
            while "servers" in await node_report(node):  # noqa: ASYNC110 - it is being ended
                await anyio.sleep(0.01)
        async with node.attached(spec(ears)) as gateway:
            assert "result" in await gateway.call("count")


async def test_a_server_that_is_released_ends_once_nobody_uses_it(node, ears):
    async with node.attached(spec(ears)) as gateway:
        await gateway.call("count")
        pid = ears.of("started")[0]["pid"]
        assert (await node.do(do="release", server="s", digest=spec(ears).digest))["ok"]
        assert "result" in await gateway.call("count")
    await soon(lambda: not alive_in_group(pid))


async def test_a_node_reads_nothing_of_the_person(tmp_path, ears):
    for name in (".bashrc", ".profile", ".config/mcpx/config.json"):
        file = tmp_path / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(file)  # who opens it, waits
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    shell.chmod(0o700)
    more = {"HOME": str(tmp_path / "home"), "SHELL": str(shell), "MCPX_STATE_DIR": str(tmp_path / "usual")}
    async with running_node(tmp_path, environ=more, real=True) as node:
        async with node.attached(spec(ears)) as gateway:
            assert "result" in await gateway.call("count")
        assert (await node.do(do="stop"))["ok"]
        assert await node.ended() == 0
    assert not (tmp_path / "asked").exists()
    assert not (tmp_path / "usual").exists()
    found = [path for path in (tmp_path / "node").rglob("*") if path.is_file()]
    assert found
    assert not any(CREDENTIALS().key in path.read_text(errors="replace") for path in found)


async def test_a_session_that_there_is_no_memory_for_is_refused_and_a_shared_one_that_runs_is_not(node, ears):
    hello = {"do": "attach", "memory": 1 << 46}
    private = {"server": spec(ears, settings={"sessions": "per_client"})}
    async with node.connected(hello | private) as gateway:
        refused = await gateway.line(error=...)
        assert refused["code"] == "memory"
        assert "memory left" in refused["error"]
    async with node.attached(spec(ears)), node.connected(hello | {"server": spec(ears)}) as gateway:
        assert (await gateway.line(ok=True))["digest"] == spec(ears).digest
    async with node.attached(private["server"]) as gateway:
        assert "result" in await gateway.call("count")


# --- looking after it


async def test_it_reports_at_once_and_answers_pings(node, ears):
    async with node.attached(spec(ears)) as gateway, node.connected({"do": "watch"}) as watcher:
        await gateway.call("count")
        report = (await watcher.line(node=...))["node"]
        assert (report["name"], report["pid"] > 0, report["connections"]) == ("n1", True, 1)
        assert report["memory_bytes"] > report["memory_free_bytes"] > 0
        watcher.say({"ping": 5})
        assert await watcher.line(pong=5)
        while (report := (await watcher.line(node=...))["node"])["servers"][0].get("memory_bytes") is None:
            pass
        [server] = report["servers"]
        assert (server["name"], server["state"], server["connections"]) == ("s", "ready", 1)
        assert (server["digest"], server["processes"], server["calls"]) == (spec(ears).digest, 1, 1)
        assert server["pid"] == ears.of("started")[0]["pid"]


async def test_a_watcher_that_says_something_else_is_closed(node):
    for rubbish in ({"pong": 1}, {"ping": "x"}, ["ping"]):
        async with node.connected({"do": "watch"}) as watcher:
            await watcher.line(node=...)
            watcher.say(rubbish)
            with anyio.fail_after(PATIENCE_S):
                await watcher.ended.wait()


async def test_a_restart_and_its_log(node, ears):
    wanted = spec(ears, stderr="says this\n")
    async with node.attached(wanted) as gateway:
        await gateway.call("count")
        assert (await node.do(do="restart", server="s", digest=wanted.digest))["ok"]
        assert len(ears.of("started")) == 2
        assert "result" in await gateway.call("count")
        said = (await node.do(do="logs", server="s", digest=wanted.digest, lines=1))["log"]
        assert len(said) == 1
        assert said[0].endswith("says this")
    for what in ("restart", "logs", "release"):
        answer = await node.do(do=what, server="s", digest="another")
        assert answer["code"] == "unknown_server"


# --- strangers


async def test_a_wrong_token_is_told_so_and_nothing_else(node, ears):
    for wrong in ("x" * 43, "", CREDENTIALS().token + "x", "ü" * 43):
        answer = await node.do(do="attach", server=spec(ears), token=wrong)
        assert answer["code"] == "token"
    assert (await node.do(do="nonsense", token="wrong"))["code"] == "token"
    assert not ears.of("started")
    assert "servers" not in await node_report(node)


async def test_nothing_that_a_stranger_says_is_logged_as_a_fault(node, ears):
    token = CREDENTIALS().token.encode()
    odd = (
        b"\xff",
        b'{"token":"\xff"}',
        b'{"token":' + b"[" * 50_000,
        b'{"token":"' + token + b'","do":"\xff"}',
    )
    for said in odd:
        async with node.connected() as gateway:
            gateway.channel.write(said + b"\n")
            assert (await gateway.line(error=...))["code"] in {"token", "invalid"}
    assert "Traceback" not in (node.state.parent / "node.log").read_text()


async def test_another_certificate_is_noticed_before_the_token_is_sent(node):
    with pytest.raises(WrongCertificate):
        await connect_tls("127.0.0.1", node.port, make_credentials().certificate)


async def test_those_who_are_slow_or_say_no_tls_are_closed(tmp_path):
    async with running_node(tmp_path, hello_timeout_s=0.2) as node:
        with socket.create_connection(("127.0.0.1", node.port)) as silent:
            async with node.connected() as half:
                half.channel.write(b'{"mcpx": "node", "tok')
                with anyio.fail_after(PATIENCE_S):
                    await half.ended.wait()
                    assert await anyio.to_thread.run_sync(silent.recv, 1) == b""
        with socket.create_connection(("127.0.0.1", node.port)) as plain:
            plain.send(b"GET / HTTP/1.1\r\n\r\n")
            plain.settimeout(PATIENCE_S)
            while await anyio.to_thread.run_sync(plain.recv, 4096):  # the alert, and the end
                pass
        async with node.attached(spec()) as gateway:
            assert "result" in await gateway.call("count")


async def test_a_first_line_without_end_is_cut_off(node):
    async with node.connected() as gateway:
        for _ in range(6):
            gateway.channel.write(b"x" * (1 << 20))
        with anyio.fail_after(PATIENCE_S):
            await gateway.ended.wait()
        assert not gateway.lines


async def test_many_who_say_nothing_do_not_keep_a_gateway_out(tmp_path):
    async with running_node(tmp_path, hello_timeout_s=60.0, files=256) as node:
        silent = []
        try:
            for _ in range(40):  # 256 files have room for 32
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", node.port))
                silent.append(each)
            async with node.attached(spec()) as gateway:
                assert "result" in await gateway.call("count")
        finally:
            for each in silent:
                each.close()


async def test_a_line_that_starts_no_node_is_refused(tmp_path):
    for line, problem in (
        (b'{"name": "x"}\n', "does not begin"),
        (json.dumps({**_START, "state": str(tmp_path), "certificate": "no"}).encode() + b"\n", ""),
        (json.dumps({**_START, "state": "/proc/nowhere"}).encode() + b"\n", "/proc/nowhere"),
    ):
        said, code = await started_with(tmp_path, line)
        assert code == 2
        assert problem in said["error"]
        assert "PRIVATE" not in said["error"]


_START = {
    "name": "n",
    "host": "127.0.0.1",
    "token": CREDENTIALS().token,
    "certificate": CREDENTIALS().certificate,
    "key": CREDENTIALS().key,
}


def test_what_holds_secrets_shows_none():
    start = NodeStart(**_START, state="/x")
    hello = Attach(token=CREDENTIALS().token, server=replace(spec(), env={"KEY": "secret"}))
    for text in (repr(start), repr(hello), repr(hello.server), repr(CREDENTIALS())):
        assert CREDENTIALS().token not in text
        assert "PRIVATE" not in text
        assert "secret" not in text


async def test_a_gateway_that_goes_cancels_what_it_has_asked(node, ears):
    async with node.attached(spec(ears)) as gateway:
        assert isinstance(gateway, Gateway)
        gateway.send("tools/call", {"name": "hang", "arguments": {}})
        await soon(lambda: ears.of("call", tool="hang"))
    await soon(lambda: ears.of("cancelled"))
