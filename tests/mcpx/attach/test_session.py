"""What the shim knows of a session, without any input or output."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcpx.attach.refusals import PendingRequest, unavailable
from mcpx.attach.session import OWN_ID_PREFIX, Session
from mcpx.daemon.protocol import SETTLED_KEY

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
CHANGED = "notifications/tools/list_changed"
CLOSING = {"code": -32000, "message": "Connection closed"}


def line(**message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def read(lines) -> list[dict]:
    assert all(each.endswith(b"\n") and each.count(b"\n") == 1 for each in lines)
    return [json.loads(each) for each in lines]


@pytest.fixture
def opened() -> Session:
    """A session past its opening, whose client has listed the tools."""
    session = Session()
    ask(session, 0, "initialize", HELLO)
    answer(session, 0)
    session.from_client(line(method="notifications/initialized"))
    ask(session, 1, "tools/list", {})
    answer(session, 1, {"tools": [{"name": "one"}]})
    return session


def ask(session: Session, request, method: str, params) -> None:
    passed = session.from_client(line(id=request, method=method, params=params))
    assert passed is not None
    assert json.loads(passed) == {"jsonrpc": "2.0", "id": request, "method": method, "params": params}


def answer(session: Session, request, result=None) -> None:
    given = line(id=request, result=result or {})
    assert session.from_daemon(given) == [given + b"\n"]


def move(session: Session, *unsent: bytes) -> tuple[list[dict], list[dict]]:
    """To the next daemon: what the client is told, and what the daemon hears first."""
    told, kept = session.daemon_lost(unsent)
    lines = session.replay(kept)
    own, session.to_daemon = session.to_daemon, []
    return read(told), read(lines + own)


def test_the_opening_is_replayed_and_its_answer_goes_no_further(opened):
    told, heard = move(opened)
    assert told == []
    assert [each["method"] for each in heard] == ["initialize", "notifications/initialized", "tools/list"]
    assert heard[0]["params"] == HELLO
    assert str(heard[0]["id"]).startswith(OWN_ID_PREFIX)
    assert opened.from_daemon(line(id=heard[0]["id"], result={})) == []


def test_what_is_in_force_is_replayed_and_what_was_taken_back_is_not(opened):
    ask(opened, 2, "logging/setLevel", {"level": "debug"})
    answer(opened, 2)
    for request, uri in ((3, "a:1"), (4, "a:2")):
        ask(opened, request, "resources/subscribe", {"uri": uri})
        answer(opened, request)
    ask(opened, 5, "resources/unsubscribe", {"uri": "a:1"})
    answer(opened, 5)
    ask(opened, 6, "resources/subscribe", {"uri": "refused"})
    opened.from_daemon(line(id=6, error={"code": -32002, "message": "none"}))
    _, heard = move(opened)
    replayed = [(each["method"], each["params"]) for each in heard[2:-1]]
    assert replayed == [("logging/setLevel", {"level": "debug"}), ("resources/subscribe", {"uri": "a:2"})]
    for each in heard:
        if "id" in each:
            assert opened.from_daemon(line(id=each["id"], result={"tools": [{"name": "one"}]})) == []


def test_what_was_in_flight_is_told_as_unknown_once(opened):
    ask(opened, "x", "tools/call", {"name": "exec", "arguments": {"server_name": "s", "tool_name": "t"}})
    ask(opened, 8, "resources/read", {"uri": "a:1"})
    told, _ = move(opened)
    call, read_error = told
    assert call["id"] == "x"
    assert call["result"]["structuredContent"]["outcome"] == "unknown"
    assert call["result"]["structuredContent"]["tool"] == "t"
    assert read_error["id"] == 8
    assert read_error["error"]["data"]["code"] == "server_died"
    assert move(opened)[0] == []


def test_a_request_of_which_nothing_was_written_goes_to_the_next_daemon(opened):
    unsent = opened.from_client(line(id=9, method="tools/call", params={"name": "exec"}))
    assert unsent is not None
    told, kept = opened.daemon_lost([unsent])
    assert (told, kept) == ([], [unsent])


def test_a_cancelled_request_is_not_answered(opened):
    ask(opened, 9, "tools/call", {"name": "exec"})
    opened.from_client(line(method="notifications/cancelled", params={"requestId": 9}))
    assert move(opened)[0] == []


def test_an_error_of_a_daemon_that_leaves_is_no_answer(opened):
    ask(opened, 9, "tools/call", {"name": "exec"})
    assert opened.from_daemon(line(id=9, error=CLOSING)) == []
    told, _ = move(opened)
    assert told[0]["result"]["structuredContent"]["outcome"] == "unknown"


def test_an_opening_that_was_not_answered_is_asked_again_under_its_own_id():
    session = Session()
    ask(session, 0, "initialize", HELLO)
    told, heard = move(session)
    assert told == []
    assert heard == [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}]
    answer(session, 0, {"protocolVersion": "2025-06-18"})


def test_questions_to_the_client_keep_apart_over_daemons(opened):
    (first,) = read(opened.from_daemon(line(id=1, method="sampling/createMessage", params={})))
    told, _ = move(opened)
    assert told == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": first["id"], "reason": "the daemon went away"},
        }
    ]
    (second,) = read(opened.from_daemon(line(id=1, method="sampling/createMessage", params={})))
    assert second["id"] != first["id"]
    assert opened.from_client(line(id=first["id"], result={"late": 1})) is None
    passed = opened.from_client(line(id=second["id"], result={"now": 1}))
    assert json.loads(passed or b"") == {"jsonrpc": "2.0", "id": 1, "result": {"now": 1}}
    (third,) = read(opened.from_daemon(line(id="q", method="elicitation/create", params={})))
    (gone,) = read(opened.from_daemon(line(method="notifications/cancelled", params={"requestId": "q"})))
    assert gone["params"]["requestId"] == third["id"]


@pytest.mark.parametrize(("tools", "said"), [([{"name": "one"}], []), ([{"name": "two"}], [CHANGED])])
def test_changed_tools_are_announced_only_if_they_are_not_those_the_client_has(opened, tools, said):
    _, heard = move(opened)
    listing = heard[-1]
    assert listing["params"]["_meta"] == {SETTLED_KEY: True}
    assert opened.from_daemon(line(method=CHANGED)) == []  # while they are compared
    assert opened.from_daemon(line(id=listing["id"], result={"tools": tools})) == []
    (again,) = read(opened.to_daemon)
    told = opened.from_daemon(line(id=again["id"], result={"tools": tools}))
    assert [each["method"] for each in read(told)] == said


def test_changed_tools_are_announced_on_the_streams_that_want_them():
    session = Session()
    ask(session, 1, "tools/list", {"_meta": {"a": 1}})
    answer(session, 1, {"tools": []})
    ask(session, 2, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    ask(session, "s", "subscriptions/listen", {"notifications": {"promptsListChanged": True}})
    told, heard = move(session)
    assert told == []
    assert [each["id"] for each in heard[:2]] == [2, "s"]
    ack = line(
        method="notifications/subscriptions/acknowledged",
        params={"_meta": {"io.modelcontextprotocol/subscriptionId": 2}},
    )
    assert session.from_daemon(ack) == []
    assert session.from_daemon(ack) == [ack + b"\n"]
    said = read(session.from_daemon(line(id=heard[-1]["id"], result={"tools": [1]})))
    assert [each["params"]["_meta"] for each in said] == [{"io.modelcontextprotocol/subscriptionId": 2}]


def test_a_client_that_never_listed_tools_hears_of_changes_as_they_come():
    session = Session()
    changed = line(method=CHANGED)
    assert session.from_daemon(changed) == [changed + b"\n"]


def test_the_answer_to_the_revision_without_a_handshake_is_complete():
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    params = msgspec.Raw(json.dumps({"name": "exec", "_meta": meta}).encode())
    told = json.loads(unavailable(1, PendingRequest("tools/call", params), "because"))
    assert told["result"]["resultType"] == "complete"
    assert told["result"]["structuredContent"]["outcome"] == "not_sent"


@pytest.mark.parametrize(
    "rubbish",
    [
        b"x",
        b"[]",
        b"\xff",
        b'{"id": [], "method": 3}',
        b"[" * 100_000,
        b'{"method": "notifications/cancelled"}',
    ],
)
def test_rubbish_passes_for_the_daemon_to_judge(opened, rubbish):
    assert opened.from_client(rubbish) == rubbish + b"\n"
    assert opened.from_daemon(rubbish) == [rubbish + b"\n"]
