"""The audit log of real processes: on a disk that is full, and in the terminal."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from mcpx.core.events.audit.verifying import verify
from tests.mcpx.core.events.audit.conftest import Log, call
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli, serving, write_config

pytestmark = pytest.mark.anyio


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of half a megabyte at `folder`."""
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def lines(folder: Path) -> list[dict]:
    files = sorted((folder / "state" / "audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


async def execute(client, text: str) -> dict:
    arguments = {"server_name": "s", "tool_name": "echo", "arguments": {"text": text}}
    return await client.call("exec", **arguments)


async def test_a_full_disk_stops_no_call_and_its_lines_follow(tmp_path):
    config = write_config(tmp_path, {"s": entry()}, login_shell=False)
    with small_disk(tmp_path / "state"):
        async with serving(tmp_path, "serve", config) as client:
            await client.initialize()
            await client.request("tools/list")
            await execute(client, "before")
            fill(tmp_path / "state" / "filler")
            for number in range(40):  # more than fits into what is left of a page
                done = await execute(client, f"call {number}")
                assert not done.get("isError")
            said = await client.logged("audit.unwritable")
            assert said["reason"] == "No space left on device"
            (tmp_path / "state" / "filler").unlink()
            await client.logged("audit.written_again")
            await execute(client, "after")
            await client.close_input()
            assert await client.exit_code() == 0
            assert sum(line["event"] == "audit.unwritable" for line in client.log) == 1
        assert len(lines(tmp_path)) == 42
        assert {line["outcome"] for line in lines(tmp_path)} == {"ok"}
        assert verify(tmp_path / "state" / "audit").problems == []


async def test_more_lines_than_there_is_room_for_are_written_as_it_comes_free(tmp_path):
    state, names = tmp_path / "state", [f"call {number}" for number in range(500)]
    with small_disk(state):
        log = Log(state / "audit")
        with log.audit() as audit:
            fill(filler := state / "filler")
            for name in names:
                call(audit, name)
            audit.flush()
            assert audit.problem == "No space left on device"
            waiting = len(audit.backlog)
            assert waiting > 400  # some fit into the last page
            for _ in range(40):
                os.truncate(filler, filler.stat().st_size - 8192)
                audit._try_again()
                before, waiting = waiting, len(audit.backlog)
                assert waiting < before
                if audit.problem is None:
                    break
        assert waiting == 0
        assert log.names() == names
        assert log.problems() == []


async def test_a_full_disk_refuses_every_call_where_the_log_is_required(tmp_path, ears):
    config = write_config(tmp_path, {"s": entry(ears)}, login_shell=False, audit_required=True)
    with small_disk(tmp_path / "state"):
        async with serving(tmp_path, "serve", config) as client:
            await client.initialize()
            await client.request("tools/list")
            assert not (await execute(client, "before")).get("isError")
            fill(tmp_path / "state" / "filler")
            refused = await execute(client, "refused")
            assert refused["structuredContent"]["outcome"] == "not_sent"
            assert "audit_required" in refused["content"][0]["text"]
            (tmp_path / "state" / "filler").unlink()
            await client.logged("audit.written_again")
            assert not (await execute(client, "after")).get("isError")
            assert len(ears.of("call")) == 2
            await client.close_input()
            await client.exit_code()
        assert [line["outcome"] for line in lines(tmp_path)] == ["ok", "not_sent", "ok"]


def test_the_log_is_shown_and_looked_through_in_the_terminal(tmp_path):
    config = write_config(tmp_path, {"s": entry()}, login_shell=False)
    assert run_cli(tmp_path, "audit").stdout == ""
    for words in (("s", "echo", "text=a value"), ("s", "ehco"), ("t", "echo")):
        run_cli(tmp_path, "exec", *words, "--config", config)
    shown = run_cli(tmp_path, "audit").stdout.splitlines()
    assert len(shown) == 3
    assert "s.echo(text)  ok" in shown[0]
    assert "not_sent unknown_tool" in shown[1]
    assert "a value" not in str(shown)
    only = run_cli(tmp_path, "audit", "--code", "unknown_tool", "--since", "1h", "--json").stdout
    line = json.loads(only)
    assert (line["server"], line["name"], line["transport"]) == ("s", "ehco", "control")
    assert line["client"].startswith("mcpx/")
    assert run_cli(tmp_path, "audit", "--server", "t", "-n", "1").stdout.count("\n") == 1
    assert run_cli(tmp_path, "audit", "--since", "2999-01-01").stdout == ""
    assert run_cli(tmp_path, "audit", "--since", "soon").returncode == 2


def test_a_changed_line_is_found_in_the_terminal(tmp_path):
    config = write_config(tmp_path, {"s": entry()}, login_shell=False)
    run_cli(tmp_path, "exec", "s", "echo", "text=x", "--config", config)
    done = run_cli(tmp_path, "audit", "verify")
    assert (done.returncode, done.stdout) == (0, "1 lines in 1 chain: nothing is changed or missing\n")
    [file] = (tmp_path / "state" / "audit").glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'"ok"', b'"no"'))
    done = run_cli(tmp_path, "audit", "verify", "--json")
    assert done.returncode == 1
    [problem] = json.loads(done.stdout)["problems"]
    assert problem == {"file": file.name, "line": 1, "problem": "line 1 was changed"}


async def test_each_attempt_is_written_once_whichever_way_it_takes(tmp_path):
    script = {"resources": [{"uri": "mem://a", "name": "a", "text": "a"}]}
    config = write_config(tmp_path, {"s": entry(**script)}, login_shell=False)
    exec_of = {"server_name": "s", "tool_name": "echo"}
    attempts = [
        ("tools/call", {"name": "exec", "arguments": {**exec_of, "arguments": {"text": "x"}}}, "ok", None),
        (
            "tools/call",
            {"name": "exec", "arguments": {**exec_of, "arguments": {"n": 1}}},
            "not_sent",
            "invalid_arguments",
        ),
        (
            "tools/call",
            {"name": "exec", "arguments": {**exec_of, "tool_name": "no"}},
            "not_sent",
            "unknown_tool",
        ),
        (
            "tools/call",
            {"name": "exec", "arguments": {**exec_of, "server_name": "t"}},
            "not_sent",
            "unknown_server",
        ),
        ("tools/call", {"name": "exec", "arguments": {"tool_name": "no"}}, "not_sent", "invalid_arguments"),
        ("tools/call", {"name": "s__echo", "arguments": {}}, "not_sent", "unknown_tool"),
        (
            "tools/call",
            {"name": "resources", "arguments": {"server_name": "s", "uri": "mem://a"}},
            "ok",
            None,
        ),
        (
            "tools/call",
            {"name": "resources", "arguments": {"server_name": "s", "uri": "mem://b"}},
            "not_sent",
            "unknown_resource",
        ),
        ("resources/read", {"uri": "mem://a"}, "ok", None),
        ("resources/read", {"uri": "mem://b"}, "not_sent", "unknown_resource"),
        ("resources/subscribe", {"uri": "mem://b"}, "not_sent", "unknown_resource"),
        ("prompts/get", {"name": "s.no"}, "not_sent", "unknown_prompt"),
    ]
    async with serving(tmp_path, "serve", config) as client:
        await client.initialize()
        await client.request("tools/list")
        for method, params, outcome, code in attempts:
            before = len(lines(tmp_path))
            await client.answer(await client.ask(method, params))
            with anyio.fail_after(50):
                while len(lines(tmp_path)) == before:
                    await client.request("ping")
            written = [(line["outcome"], line["code"]) for line in lines(tmp_path)[before:]]
            assert written == [(outcome, code)], (method, params)
        await client.close_input()
        await client.exit_code()
    assert {(line["client"], line["transport"]) for line in lines(tmp_path)} == {("test/1", "stdio")}


async def test_the_logs_of_two_gateways_are_merged_while_both_run(tmp_path):
    places = [tmp_path / name for name in ("eu", "us")]
    configs = []
    for place in places:
        place.mkdir()
        configs.append(write_config(place, {"s": entry()}, login_shell=False))
    async with (
        serving(places[0], "serve", configs[0]) as eu,
        serving(places[1], "serve", configs[1]) as us,
    ):
        for client in (eu, us):
            await client.initialize()
            await client.request("tools/list")
        for number in range(3):
            await execute(eu, f"eu {number}")
            await execute(us, f"us {number}")
        merge = ["--config", configs[0], *("--merge", f"us={places[1] / 'state'}")]
        with anyio.fail_after(50):
            found: list[str] = []
            while len(found) < 6:
                await anyio.sleep(0.05)
                found = run_cli(places[0], "audit", *merge, "--json").stdout.splitlines()
        assert [json.loads(line)["gateway"] for line in found] == ["here", "us"] * 3
        whole = run_cli(places[0], "audit", "verify", *merge)
        assert (whole.returncode, whole.stdout.count("3 lines in 1 chain: nothing is changed")) == (0, 2)
