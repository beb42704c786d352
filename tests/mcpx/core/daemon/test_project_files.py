"""Servers that the files of a project name: for its clients alone, and run after a person has agreed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcpx.core.config.project_entries import read_project
from mcpx.core.daemon import project_files
from mcpx.core.policy.agreements import shown
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.core.daemon.test_projects import call, client, inspected, server, told, where
from tests.mcpx.serving import PATIENCE_S, alive_in_group

pytestmark = pytest.mark.anyio
CHANGED = "notifications/tools/list_changed"
FILES = {
    ".mcp.json": "mcpServers",
    ".vscode/mcp.json": "servers",
    ".cursor/mcp.json": "mcpServers",
}


@pytest.fixture
def folders(house):
    made = [house.folder / name for name in ("a", "shop")]
    for each in made:
        each.mkdir()
    house.write({"plain": server()})
    return made


def named(folder, file=".mcp.json", name="db", **more):
    """Write a file of a project, which names one scripted server that leaves a mark where it starts."""
    entry = {**server(stderr="started"), "env": {"MARK": "1"}, **more}
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({FILES[file]: {name: entry}}))
    return path


def approve(house, folder, *options):
    return house.run("approve", "--project", str(folder), *options)


async def refused(of, name):
    result = await call(of, name)
    assert result["isError"], result
    return result["structuredContent"]["code"]


@pytest.mark.parametrize("file", FILES)
async def test_nothing_runs_before_it_was_agreed_to_and_then_for_its_clients_alone(house, folders, file):
    a, shop = folders
    named(shop, file)
    async with client(house, shop) as one, client(house, a) as other:
        assert await refused(one, "shop/db") == "unknown_server"
        await until(lambda: "project.file" not in str(house.log()))
        assert "mcpx approve --project" in await waiting(one)
        assert "mcpx approve" not in await inspected(other)
        shown = approve(house, shop)
        assert (shown.returncode, "nothing was approved; to do it: mcpx approve" in shown.stderr) == (1, True)
        assert "scripted_server.py" in shown.stdout
        assert "MARK" in shown.stdout
        assert await refused(one, "shop/db") == "unknown_server"
        done = approve(house, shop, "--yes")
        assert (done.returncode, done.stderr) == (0, "")
        found = await where(one, "shop/db")
        assert (found["cwd"], found["env"]["MARK"]) == (str(shop), "1")
        assert "shop/db" in await inspected(one)
        assert "shop/db" not in await inspected(other)
        assert await refused(other, "shop/db") == "unknown_server"
        assert (await where(other, "plain"))["pid"] == (await where(one, "plain"))["pid"]
        assert approve(house, shop).stdout.rstrip().endswith("approved already")
        undone = house.run("undo", "--yes")
        assert (undone.returncode, "approve --project" in undone.stdout) == (0, True)
        await until(lambda: not alive_in_group(found["pid"]))
        assert await refused(one, "shop/db") == "unknown_server"


async def waiting(of):
    """What `inspect` says, once it knows that something waits."""
    with anyio.fail_after(PATIENCE_S):
        while "agreement" not in (text := await noted(of)):
            pass
    return text


async def noted(of):
    result = await of.request("tools/call", {"name": "inspect", "arguments": {}})
    return " ".join(each["text"] for each in result["content"])


async def test_a_change_ends_it_at_once_and_asks_again(house, folders):
    _, shop = folders
    path = named(shop)
    approve(house, shop, "--yes")
    async with client(house, shop) as one:
        await until_there(one, shop)
        pid = (await where(one, "shop/db"))["pid"]
        # the same words in another order are no change
        document = json.loads(path.read_text())
        path.write_text(json.dumps(document, indent=1))
        await until_there(one, shop)
        assert (await where(one, "shop/db"))["pid"] == pid
        document["mcpServers"]["db"]["args"].append("more")
        path.write_text(json.dumps(document))
        assert await refused(one, "shop/db") in {"server_unavailable", "unknown_server"}  # at once
        await until(lambda: not alive_in_group(pid))
        assert "agreement" in await waiting(one)
        assert await refused(one, "shop/db") == "unknown_server"
        path.write_text(json.dumps({"mcpServers": {}}))
        await until(lambda: not house.status()["servers"][1:])
    assert approve(house, shop).stdout.endswith("no file of it names a server\n")


async def until_there(one, folder):
    with anyio.fail_after(PATIENCE_S):
        while (await call(one, f"{folder.name}/db")).get("isError"):
            pass


async def test_servers_follow_the_roots_of_a_client_that_says_its_project_by_them_alone(house, folders):
    a, shop = folders
    named(shop)
    approve(house, shop, "--yes")
    async with client(house, Path("/"), roots=[shop.as_uri()]) as one, client(house, a) as other:
        assert "shop/db" in await inspected(one)
        assert (await where(one, "shop/db"))["cwd"] == str(shop)
        await one.moved(a.as_uri())
        await told(one, CHANGED)
        assert "shop/db" not in await inspected(one)
        assert await refused(one, "shop/db") == "unknown_server"
        assert (await where(one, "plain"))["pid"] == (await where(other, "plain"))["pid"]
        one.noticed.clear()
        await one.moved(shop.as_uri(), a.as_uri())
        await told(one, CHANGED)
        assert (await where(one, "shop/db"))["cwd"] == str(shop)


async def test_a_client_that_was_there_before_the_file_sees_its_servers(house, folders):
    _, shop = folders
    async with client(house, shop) as one:
        await inspected(one)
        named(shop)
        await waiting(one)
        approve(house, shop, "--yes")
        await told(one, CHANGED)
        await where(one, "shop/db")


async def test_what_was_agreed_to_is_remembered(house, folders):
    _, shop = folders
    named(shop)
    approve(house, shop, "--yes")
    house.run("daemon", "restart")
    async with client(house, shop) as one:
        await until_there(one, shop)


async def test_what_was_shown_is_what_is_agreed_to(house, folders):
    _, shop = folders
    path = named(shop)
    house.run("daemon", "start")
    seen = json.loads(approve(house, shop, "--json", "--yes").stdout)
    assert seen["approved"]
    path.write_text(json.dumps({"mcpServers": {"db": {"command": "evil"}}}))
    seen = json.loads(approve(house, shop, "--json").stdout or "{}")
    assert seen == {}  # it wants --yes


@pytest.mark.parametrize(
    "given", ['{"args": ["\\ud800"]}', '{"env": {"\\udfff": "1"}}', '{"command": "\\ud800"}']
)
def test_half_a_character_costs_its_entry_alone(tmp_path, given):
    odd = f'"odd": {{"command": "x", {given[1:]}'
    (tmp_path / ".mcp.json").write_text(f'{{"mcpServers": {{{odd}, "good": {{"command": "x"}}}}}}')
    found = read_project(str(tmp_path))
    assert list(found.entries) == ["good"]
    assert "odd: it holds half a character" in found.problems[0]


async def test_files_that_cannot_be_read_cost_their_project_alone(house, folders, monkeypatch):
    def read(_project, _claude=None):
        raise KeyError("nobody has thought of it")

    monkeypatch.setattr(project_files, "read_project", read)
    files = project_files.ProjectFiles(house.folder, changed=anyio.lowlevel.checkpoint)
    found = await files.answer(str(folders[1]), "")
    assert (found["servers"], found["problems"]) == ([], ["its files cannot be read (KeyError)"])


def test_files_that_are_odd_harm_nobody_and_are_named(tmp_path):
    def problems():
        found = read_project(str(tmp_path))
        assert found.entries == {}
        return "\n".join(found.problems)

    file = tmp_path / ".mcp.json"
    assert problems() == ""
    for text, said in (("{", ".mcp.json:1:"), ("[]", "expected an object"), ("[" * 9000, ".mcp.json")):
        file.write_text(text)
        assert said in problems()
    file.write_bytes(b'{"mcpServers": "\xff"}')
    assert ".mcp.json" in problems()
    file.write_text(" " * (1 << 20) + "{}")
    assert "larger than 1 MiB" in problems()
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert "it is a link" in problems()
    file.unlink()
    os.mkfifo(file)
    assert "it is no file" in problems()
    file.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mcp.json").write_text('{"servers": {"x": {"command": "x"}}}')
    (tmp_path / ".vscode").symlink_to(elsewhere)
    assert "its folder is a link" in problems()


def test_only_how_a_server_is_started_counts(tmp_path):
    entries = {
        "one": {
            "command": "a",
            "args": ["b c"],
            "env": {"K": "${K}"},
            "annotations": {"*": {}},
            "approve": "off",
        },
        "secret": {"command": "a", "args": ["${cmd:touch x}"]},
        "key": {"url": "https://x/${keychain:TOKEN}"},
        "off": {"command": "a", "disabled": True},
        "odd": 1,
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    found = read_project(str(tmp_path))
    assert list(found.entries) == ["one"]
    assert found.entries["one"].given == {"command": "a", "args": ["b c"], "env": {"K": "${K}"}}
    assert [each.split(": ")[1] for each in found.problems] == ["secret", "key", "odd"]
    (one,) = shown(found)
    assert (one["starts"], one["with"]) == ('a "b c"', ["variable: K=${K}"])
    digest = found.digest
    entries["one"]["args"] = ["b", "c"]
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert read_project(str(tmp_path)).digest != digest
    entries["one"]["command"] = "\x1b[2J\r\nrm"
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert "\x1b" not in json.dumps(shown(read_project(str(tmp_path))), ensure_ascii=False)


def test_what_claude_code_has_for_a_project_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shop = tmp_path / "shop"
    shop.mkdir()
    projects = {str(shop): {"mcpServers": {"git": {"command": "uvx"}}}, "/other": {"mcpServers": {"x": {}}}}
    (tmp_path / ".claude.json").write_text(json.dumps({"projects": projects, "mcpServers": {"user": {}}}))
    assert list(read_project(str(shop)).entries) == ["git"]


def test_of_a_program_behind_a_url_both_are_shown(tmp_path):
    entry = {"command": "docs", "args": ["--port", "${port}"], "url": "http://127.0.0.1:${port}/mcp"}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"docs": entry}}))
    (one,) = shown(read_project(str(tmp_path)))
    assert one["starts"] == "docs --port ${port}"
    assert one["with"][0] == "reached at: http://127.0.0.1:${port}/mcp"
