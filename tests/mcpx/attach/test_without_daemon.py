"""A session without any daemon: it opens, and once there is one, what the client was given has changed."""

from __future__ import annotations

import json

import pytest

from mcpx.attach.session import Session
from mcpx.attach.without_daemon import TOOLS
from mcpx.core.gateway.tools import definitions
from mcpx.core.rendering.descriptions import Descriptions, describe
from tests.mcpx.attach.test_at_once import HELLO, INITIALIZED, MODERN, STREAM_KEY, acknowledged, line, read

NAMES = ["inspect", "exec", "resources"]
LISTEN = {"notifications": {"toolsListChanged": True, "promptsListChanged": False}} | MODERN
CHANGED = "notifications/tools/list_changed"


class Client:
    """A client on a session that has no daemon."""

    def __init__(self, *, transparent: bool = False) -> None:
        self.session = Session(transparent=transparent)

    def ask(self, method: str, params: dict | None = None, *, number: int = 1) -> dict:
        """The one response to a request."""
        (answered,) = self.say(id=number, method=method, params=params or {})
        assert answered["id"] == number
        return answered

    def say(self, **message) -> list[dict]:
        passed = self.session.from_client(line(**message))
        return read(self.session.refuse([passed] if passed else [], "The disk is full"))

    def connected(self) -> list[dict]:
        """What the next daemon gets."""
        lines = self.session.replay([])
        return read([*lines, *self.session.to_daemon])


def test_the_tools_are_those_of_the_daemon():
    texts = {tool["name"]: tool["description"] for tool in TOOLS}
    described = Descriptions(**texts)
    tools = json.loads(json.dumps(definitions.tools(described)))
    tools[0]["_meta"].pop("anthropic/searchHint")  # there is nothing to find
    assert json.loads(json.dumps(TOOLS)) == tools
    real = describe([], budget=1000)
    assert texts["exec"] == real.exec
    assert real.resources.startswith(texts["resources"])


@pytest.mark.parametrize(("asked", "agreed"), [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")])
def test_a_session_opens_and_inspect_says_why_there_is_nothing(asked, agreed):
    client = Client()
    opened = client.ask("initialize", HELLO | {"protocolVersion": asked})["result"]
    assert opened["protocolVersion"] == agreed
    assert client.say(**INITIALIZED) == []
    assert client.ask("ping")["result"] == {}
    assert client.ask("logging/setLevel", {"level": "info"})["result"] == {}
    assert [each["name"] for each in client.ask("tools/list")["result"]["tools"]] == NAMES
    for kind in ("prompts", "resources"):
        assert client.ask(f"{kind}/list")["result"] == {kind: []}
    assert client.ask("resources/templates/list")["result"] == {"resourceTemplates": []}
    told = client.ask("tools/call", {"name": "inspect", "arguments": {}})["result"]
    assert told["isError"] is False
    assert "The disk is full. " in told["content"][0]["text"]
    for name in ("exec", "resources"):
        refused = client.ask("tools/call", {"name": name, "arguments": {"server_name": "s"}})["result"]
        assert refused["isError"] is True
        details = refused["structuredContent"]
        assert (details["outcome"], details["server"]) == ("not_sent", "s")
        assert "The disk is full" in details["error"]
    assert "The disk is full" in client.ask("prompts/get", {"name": "p"})["error"]["message"]
    assert "already" not in client.ask("initialize", HELLO)["error"]["message"]


def test_the_texts_are_always_the_same():
    first, second = Client(), Client()
    for method in ("initialize", "tools/list"):
        params = HELLO if method == "initialize" else {}
        asked = [
            each.session.from_client(line(id=1, method=method, params=params)) for each in (first, second)
        ]
        one = first.session.refuse([asked[0]], "this")
        assert one == second.session.refuse([asked[1]], "that")


def test_a_daemon_that_comes_is_given_the_opening_and_the_client_hears_of_its_tools():
    client = Client()
    client.ask("initialize", HELLO)
    client.say(**INITIALIZED)
    client.ask("tools/list")
    opening, *rest = client.connected()
    assert (opening["method"], [each["method"] for each in rest]) == (
        "initialize",
        ["notifications/initialized"],
    )
    assert client.session.news_of_replay() == []  # not before the daemon has opened the session
    heard = read(client.session.from_daemon(line(id=opening["id"], result={"capabilities": {}})))
    assert [each["method"] for each in heard] == [CHANGED]
    # and it is not told twice
    client.session.from_client(line(id=5, method="tools/list"))
    assert len(read(client.session.from_daemon(line(id=5, result={"tools": []})))) == 1
    assert [each["method"] for each in client.connected()][-1] == "tools/list"  # compared from now on


def test_in_the_revision_without_sessions():
    client = Client()
    found = client.ask("server/discover", MODERN)["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    listed = client.ask("tools/list", MODERN)["result"]
    assert [each["name"] for each in listed["tools"]] == NAMES
    assert (listed["resultType"], listed["ttlMs"]) == ("complete", 0)
    told = client.ask("tools/call", {"name": "inspect", "arguments": {}} | MODERN)["result"]
    assert told["resultType"] == "complete"
    (opened,) = client.say(id=7, method="subscriptions/listen", params=LISTEN)
    assert opened["method"] == "notifications/subscriptions/acknowledged"
    assert opened["params"] == {"_meta": {STREAM_KEY: 7}, "notifications": {"toolsListChanged": True}}
    sent = client.connected()
    assert sorted(each["method"] for each in sent) == ["server/discover", "subscriptions/listen"]
    assert client.session.from_daemon(line(**acknowledged(7))) == []
    (discover,) = [each for each in sent if each["method"] == "server/discover"]
    heard = read(client.session.from_daemon(line(id=discover["id"], result={"supportedVersions": []})))
    assert [(each["method"], each["params"]["_meta"]) for each in heard] == [(CHANGED, {STREAM_KEY: 7})]


def test_without_an_opening_the_client_hears_of_the_tools_at_once():
    client = Client()
    client.say(id=7, method="subscriptions/listen", params=LISTEN)
    client.ask("tools/list", MODERN)
    client.connected()
    assert [each["method"] for each in read(client.session.news_of_replay())] == [CHANGED]


def test_the_client_of_one_server_is_given_inspect_alone():
    client = Client(transparent=True)
    client.ask("initialize", HELLO)
    assert [each["name"] for each in client.ask("tools/list")["result"]["tools"]] == ["inspect"]
    assert "The disk is full" in client.ask("tools/call", {"name": "inspect"})["result"]["content"][0]["text"]
    assert "error" in client.ask("tools/call", {"name": "own"})


def test_a_server_that_cannot_be_had_does_not_fail_the_opening():
    client = Client(transparent=True)
    client.session.from_client(line(id=1, method="initialize", params=HELLO))
    error = {"code": -32603, "message": "s is parked", "data": {"code": "server_unavailable"}}
    assert client.session.from_daemon(line(id=1, error=error)) == []
    assert (client.session.refused, client.session.waits_for_server) == ("s is parked", True)
    client.session.daemon_lost([])
    (opened,) = read(client.session.refuse([], "s is parked"))
    assert opened["result"]["serverInfo"]["name"] == "mcpx"


def test_an_opening_that_is_wrong_itself_is_refused_by_the_daemon():
    client = Client()
    client.session.from_client(line(id=1, method="initialize", params={}))
    error = {"code": -32602, "message": "Invalid request parameters", "data": ""}
    (told,) = read(client.session.from_daemon(line(id=1, error=error)))
    assert told["error"] == error


def test_a_client_need_not_wait_for_ever():
    client = Client()
    asked = client.session.from_client(line(id=1, method="initialize", params=HELLO))
    called = client.session.from_client(line(id=2, method="tools/call", params={"name": "exec"}))
    assert client.session.answer([asked, called]) == ([], [asked, called])
    client.session.wait_no_longer("It is starting")
    (opened,), waiting = client.session.answer([asked, called])
    assert "result" in json.loads(opened)
    assert waiting == [called]
