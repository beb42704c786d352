"""Servers per project: real shims in folders, a real daemon, and servers that say where they run."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, PATIENCE_S, alive_in_group, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
WHERE = {"tools/call where": '{"cwd": @{cwd:json}, "pid": @{pid}, "env": @{env:json}}'}
FOLDER = {"cwd": "${project}"}


def server(settings=None, **script):
    return entry(answers=WHERE, offers={"tools": ["where"]}, settings=settings, **script)


@pytest.fixture
def folders(house):
    made = [house.folder / name for name in ("a", "b", "c")]
    for each in made:
        each.mkdir()
    return made


class Rooted:
    """A client that has roots, and says them when it is asked."""

    def __init__(self, served, roots):
        self.served, self.roots, self.asked = served, roots, 0
        self.questions, self.words, self.noticed = [], [], []

    async def request(self, method, params):
        """The result; meanwhile what the server asks is answered."""
        served = self.served
        key = await served.ask(method, params)
        with anyio.fail_after(PATIENCE_S):
            while key not in served._replies:
                served._take(await served._line())
                while served.notifications:
                    await self.heard(served.notifications.pop(0))
        answer = served._replies.pop(key)
        assert "result" in answer, answer
        return answer["result"]

    async def heard(self, message):
        if message["method"] == "elicitation/create":
            self.questions.append(message["params"])
            if not self.words:  # its person thinks about it
                return
            result = self.words.pop(0)
        elif message["method"] == "roots/list":
            self.asked += 1
            result = {"roots": [{"uri": uri, "name": "r"} for uri in self.roots]}
        else:
            self.noticed.append(message["method"])
            return
        line = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        await self.served.send_bytes(json.dumps(line).encode() + b"\n")

    async def moved(self, *roots):
        self.roots = roots
        await self.served.send("notifications/roots/list_changed")


@asynccontextmanager
async def client(house, cwd, *options, roots=None, words=None, **variables):
    """A client in that folder; with `words` its person is asked, and says them, one after the other."""
    async with house.attached(*options, cwd=cwd, **variables) as served:
        rooted = Rooted(served, roots or ())
        about = {"name": "test", "version": "1"}
        can = {} if roots is None else {"roots": {"listChanged": True}}
        if words is not None:
            can["elicitation"] = {}
            rooted.words = words
        opening = {"protocolVersion": LEGACY, "capabilities": can, "clientInfo": about}
        await rooted.request("initialize", opening)
        await served.send("notifications/initialized")
        yield rooted


async def told(of, method):
    """Wait until a client has had that notification; it asks meanwhile, as clients do."""
    with anyio.fail_after(PATIENCE_S):
        while method not in of.noticed:
            await inspected(of)


async def call(of, name="s"):
    params = {"name": "exec", "arguments": {"server_name": name, "tool_name": "where", "arguments": {}}}
    return await of.request("tools/call", params)


async def where(of, name="s"):
    result = await call(of, name)
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


async def inspected(of, **arguments):
    result = await of.request("tools/call", {"name": "inspect", "arguments": arguments})
    return result["content"][0]["text"]


async def tools_of(of):
    """The tools of the server, as a client is shown them."""
    arguments = {"name": "inspect", "arguments": {"server_name": "s"}}
    result = await of.request("tools/call", arguments)
    return sorted(each["name"] for each in result["structuredContent"]["tools"])


async def test_each_project_has_a_process_that_all_clients_in_it_share(house, folders):
    a, b, _ = folders
    house.write({"s": server(FOLDER)}, toon_compression_enabled=False)
    async with client(house, a) as one, client(house, a) as two, client(house, b) as other:
        first, same, different = await where(one), await where(two), await where(other)
        assert (first["cwd"], different["cwd"]) == (str(a), str(b))
        assert first["pid"] == same["pid"] != different["pid"]
        assert [(await where(one))["pid"] for _ in range(3)] == [first["pid"]] * 3
        (shown,) = house.status()["servers"]
        assert (shown["state"], shown["sessions"]) == ("ready", 2)
        found = {(each["project"], each["pid"], each["state"]) for each in shown["instances"]}
        assert found == {(str(a), first["pid"], "ready"), (str(b), different["pid"], "ready")}
        assert "instances" in house.run("status", "--json").stdout
        table = house.run("status").stdout
        assert str(a) in table
        assert str(b) in table
    # the process of a project outlives its clients, until it has been idle
    assert alive_in_group(first["pid"])


async def test_an_entry_for_one_project_is_offered_to_the_clients_there_alone(house, folders):
    a, b, link = *folders[:2], house.folder / "link"
    link.symlink_to(a)
    own = server({"project": str(link), "env": {"ROOT": "${project}/src"}})
    house.write({"a/s": own, "s": server()}, toon_compression_enabled=False)
    async with client(house, a) as one, client(house, b) as other:
        found = await where(one, "a/s")
        assert (found["cwd"], found["env"]["ROOT"]) == (str(a), f"{a}/src")
        assert (await where(one))["pid"] == (await where(other))["pid"] != found["pid"]
        assert "a/s" in await inspected(one)
        assert "a/s" not in await inspected(other)
        assert (await call(other, "a/s"))["structuredContent"]["code"] == "unknown_server"


@pytest.mark.parametrize("spelling", ["${project}", "${workspaceFolder}", "${CLAUDE_PROJECT_DIR}"])
async def test_the_project_stands_in_arguments_and_variables_too(house, folders, spelling):
    given = server({"env": {"ROOT": f"{spelling}/src", "OWN": "${CLAUDE_PROJECT_DIR:-none}"}})
    house.write({"s": given})
    async with client(house, folders[0]) as one:
        found = await where(one)
        assert found["env"]["ROOT"] == f"{folders[0]}/src"
        assert found["env"]["OWN"] == str(folders[0])
        assert found["cwd"] == str(folders[0])  # it has no working folder of its own


async def test_roots_count_before_the_folder_and_are_followed(house, folders):
    a, b, c = folders
    house.write({"s": server(FOLDER)})
    remote = "https://example.org/x"
    async with client(house, a, roots=[remote, b.as_uri()]) as one, client(house, c) as other:
        assert (await where(one))["cwd"] == str(b)
        assert one.asked == 1
        await where(one)
        assert one.asked == 1
        await one.moved(c.as_uri(), b.as_uri())
        moved = await where(one)
        assert (moved["cwd"], one.asked) == (str(c), 2)
        assert moved["pid"] == (await where(other))["pid"]
        await one.moved()  # none is left: where it was started
        assert (await where(one))["cwd"] == str(a)


async def test_a_variable_counts_before_the_folder_and_reaches_the_server(house, folders):
    a, b, _ = folders
    house.write(
        {"s": server(FOLDER), "own": server({"sessions": "per_client"})}, forward_env=["*_DIR", "X_*"]
    )
    more = {"CLAUDE_PROJECT_DIR": str(b), "X_SESSION": "one", "SECRET": "no"}
    async with client(house, a, **more) as one:
        found = await where(one)
        assert (found["cwd"], found["env"]["X_SESSION"]) == (str(b), "one")
        own = (await where(one, "own"))["env"]
        assert (own["X_SESSION"], own["CLAUDE_PROJECT_DIR"]) == ("one", str(b))
        assert "SECRET" not in found["env"].keys() | own.keys()


async def test_without_a_project_the_server_says_so_and_others_are_not_disturbed(house, folders):
    house.write({"s": server(FOLDER), "plain": server()})
    async with client(house, Path("/")) as nowhere, client(house, folders[0]) as one:
        assert (await where(one))["cwd"] == str(folders[0])
        result = await call(nowhere)
        told = result["structuredContent"]
        assert (told["code"], told["outcome"]) == ("server_unavailable", "not_sent")
        for text in (result["content"][0]["text"], await inspected(nowhere, server_name="s")):
            assert "once for each project, and this client is in none" in text
            assert "start the client in the folder of a project" in text
        assert "in none" not in await inspected(one, server_name="s")
        assert (await where(nowhere, "plain"))["pid"] == (await where(one, "plain"))["pid"]
        assert house.status()["servers"][0]["state"] == "ready"


async def test_each_client_may_have_a_process_in_its_project(house, folders):
    a, b, c = folders
    own = {"sessions": "per_client"}
    house.write({"s": server({**FOLDER, **own}), "t": server({"cwd": f"${{project:-{c}}}", **own})})
    async with client(house, Path("/")) as nowhere, client(house, a) as one, client(house, b) as other:
        assert (await call(nowhere))["structuredContent"]["code"] == "server_unavailable"
        found = [await where(each) for each in (one, other)]
        assert [each["cwd"] for each in found] == [str(a), str(b)]
        assert found[0]["pid"] != found[1]["pid"]
        assert [(await where(each, "t"))["cwd"] for each in (nowhere, one)] == [str(c), str(a)]
        assert {each["state"] for each in house.status()["servers"]} == {"ready"}


async def test_a_default_counts_where_there_is_no_project(house, folders):
    house.write({"s": server({"cwd": f"${{project:-{folders[2]}}}"})})
    async with client(house, Path("/")) as nowhere, client(house, folders[0]) as one:
        assert (await where(nowhere))["cwd"] == str(folders[2])
        assert (await where(one))["cwd"] == str(folders[0])


async def test_a_project_whose_server_cannot_start_disturbs_no_other(house, folders):
    a, b, _ = folders
    (b / "here").touch()
    given = server({"env": {"NEED": "${project}/here"}}, wants="here")
    house.write({"s": {**given, "queue_timeout": 5, "restart": {"initial": 0.05, "park_after": 2}}})
    async with client(house, a) as broken, client(house, b) as well:
        assert (await call(broken))["isError"]
        assert (await where(well))["cwd"] == str(b)
        assert (await call(broken))["isError"]
        assert (await where(well))["cwd"] == str(b)


async def test_what_is_idle_stops_and_is_started_again(house, folders):
    house.write({"s": server({**FOLDER, "idle_stop": 0.3})})
    async with client(house, folders[0]) as one:
        first = await where(one)
        await until(lambda: not alive_in_group(first["pid"]))
        await until(lambda: house.status()["servers"][0]["sessions"] == 0)
        assert house.status()["servers"][0]["state"] == "asleep"
        assert (await where(one))["pid"] != first["pid"]


async def test_the_project_is_said_again_to_the_next_daemon(house, folders):
    house.write({"s": server(FOLDER)})
    async with client(house, folders[1]) as one:
        before = await where(one)
        house.run("daemon", "restart")
        after = await where(one)
        assert after["cwd"] == before["cwd"] == str(folders[1])
        assert after["pid"] != before["pid"]


async def test_clients_of_one_server_alone_are_in_their_projects_too(house, folders):
    house.write({"s": server(FOLDER)})
    async with client(house, folders[1], "--server", "s") as one:
        result = await one.request("tools/call", {"name": "where", "arguments": {}})
        assert json.loads(result["content"][0]["text"])["cwd"] == str(folders[1])


async def test_projects_that_offer_different_things_are_each_shown_their_own(house, folders):
    a, b, _ = folders
    for folder, names in ((a, ["where", "only_a"]), (b, ["where", "only_b"])):
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        (folder / "tools.json").write_text(json.dumps(tools))
    given = entry(answers={**WHERE, "tools/call only_b": "b"}, tools="tools.json", settings=FOLDER)
    house.write({"s": given})
    async with client(house, a) as one, client(house, b) as other:
        await where(one)
        await where(other)
        assert await tools_of(one) == ["only_a", "where"]
        assert await tools_of(other) == ["only_b", "where"]
        exec_b = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "only_b", "arguments": {}}}
        assert (await other.request("tools/call", exec_b))["content"][0]["text"] == "b"
        refused = await one.request("tools/call", exec_b)
        assert refused["structuredContent"]["code"] == "unknown_tool"


async def test_a_value_that_ages_is_fetched_for_each_project(house, folders):
    (house.folder / "token").write_text("a-token-of-one-day")
    house.write({"s": server({"env": {"ROOT": "${project}", "TOKEN": f"${{cmd:cat {house.folder}/token}}"}})})
    async with client(house, folders[0]) as one, client(house, folders[1]) as other:
        for of, folder in ((one, folders[0]), (other, folders[1])):
            found = await where(of)
            assert (found["env"]["ROOT"], found["env"]["TOKEN"]) == (str(folder), "a-token-of-one-day")


async def test_a_shared_server_without_a_folder_runs_in_the_home_folder(house, folders):
    house.write({"s": server()})
    home = house.folder / "home"
    home.mkdir()
    async with client(house, folders[0], HOME=str(home)) as one:
        assert (await where(one))["cwd"] == str(home)
    house.run("daemon", "stop")
    # started by hand in another folder, it is the same
    arguments = "daemon", "run", "--config", house.config
    async with serving(house.folder, *arguments, cwd=folders[1], HOME=str(home)) as daemon:
        await daemon.logged("socket.listening")
        async with client(house, folders[0], HOME=str(home)) as one:
            assert (await where(one))["cwd"] == str(home)
