"""What the shim knows of a session, without any input or output."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcpx.attach.pending import PendingRequest, unavailable
from mcpx.attach.session import OWN_ID_PREFIX, Session
from mcpx.core.system.endpoint import COUNTED_KEY, SETTLED_KEY

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
CHANGED = "notifications/tools/list_changed"


def line(**message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


ACKNOWLEDGED = line(
    method="notifications/subscriptions/acknowledged",
    params={"_meta": {"io.modelcontextprotocol/subscriptionId": 2}},
)
CLOSING = {"code": -32000, "message": "Connection closed"}


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


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "prompts/list", "ping"])
def test_what_changes_nothing_is_asked_of_the_next_daemon_again(opened, method):
    ask(opened, 8, method, {})
    told, heard = move(opened)
    assert told == []
    assert line(id=8, method=method, params={}) in [line(**each) for each in heard]
    answer(opened, 8, {"tools": []})


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
    assert listing["params"]["_meta"] == {SETTLED_KEY: True, COUNTED_KEY: True}
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
    assert session.from_daemon(ACKNOWLEDGED) == [ACKNOWLEDGED + b"\n"]
    told, heard = move(session)
    assert told == []
    assert [each["id"] for each in heard[:2]] == [2, "s"]
    assert session.from_daemon(ACKNOWLEDGED) == []
    assert session.from_daemon(ACKNOWLEDGED) == [ACKNOWLEDGED + b"\n"]
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


# --- batches


def array(*messages: dict) -> bytes:
    return json.dumps([{"jsonrpc": "2.0", **each} for each in messages]).encode()


CALL = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "t"}}


@pytest.fixture
def batching() -> Session:
    """A session of the revision that has batches."""
    session = Session()
    ask(session, 0, "initialize", HELLO | {"protocolVersion": "2025-03-26"})
    answer(session, 0, {"protocolVersion": "2025-03-26"})
    session.from_client(line(method="notifications/initialized"))
    return session


def test_a_batch_in_flight_is_answered_in_one_array_as_unknown(batching):
    ask(batching, "single", "resources/read", {"uri": "a:1"})
    batch = array(
        {"id": 1, "method": "tools/call", "params": CALL},
        {"method": "notifications/x"},
        {"id": 2, "method": "ping"},
    )
    assert json.loads(batching.from_client(batch)) == json.loads(batch)
    told, _ = move(batching)
    single, answers = told
    assert single["id"] == "single"
    assert [each["id"] for each in answers] == [1, 2]
    assert answers[0]["result"]["structuredContent"]["outcome"] == "unknown"
    assert answers[1]["error"]["data"]["code"] == "server_died"
    assert move(batching)[0] == []


def test_a_batch_that_was_answered_is_not_answered_again_and_what_it_put_in_force_is_replayed(batching):
    batching.from_client(
        array(
            {"id": 1, "method": "logging/setLevel", "params": {"level": "debug"}}, {"id": 2, "method": "ping"}
        )
    )
    answers = array({"id": 2, "result": {}}, {"id": 1, "result": {}})
    assert read(batching.from_daemon(answers)) == [json.loads(answers)]
    told, heard = move(batching)
    assert told == []
    assert [each["method"] for each in heard[2:]] == ["logging/setLevel"]


def test_what_a_daemon_that_leaves_drops_of_a_batch_is_lost_in_the_same_array(batching):
    batching.from_client(
        array({"id": 1, "method": "tools/call", "params": CALL}, {"id": 2, "method": "ping"})
    )
    (told,) = read(batching.from_daemon(array({"id": 1, "error": CLOSING}, {"id": 2, "result": {}})))
    assert told[0]["result"]["structuredContent"]["outcome"] == "unknown"
    assert told[1]["result"] == {}
    assert move(batching)[0] == []


def test_a_batch_of_which_nothing_was_written_goes_to_the_next_daemon(batching):
    unsent = batching.from_client(array({"id": 1, "method": "tools/call", "params": CALL}))
    told, kept = batching.daemon_lost([unsent])
    assert (told, kept) == ([], [unsent])
    assert not any(b'"id":1' in each for each in batching.replay(kept))
    (refused,) = read(batching.refuse(kept, "none"))
    assert refused[0]["result"]["structuredContent"]["outcome"] == "not_sent"
    assert batching.refuse([], "none") == []


def test_a_response_in_a_batch_goes_to_the_daemon_under_the_id_that_it_gave(batching):
    (asked,) = read(batching.from_daemon(line(id=77, method="roots/list")))
    batch = array({"id": asked["id"], "result": {"roots": []}}, {"id": 9, "result": {}})
    assert json.loads(batching.from_client(batch)) == [{"jsonrpc": "2.0", "id": 77, "result": {"roots": []}}]
    assert batching.from_client(array({"id": 9, "result": {}})) is None


@pytest.mark.parametrize(
    "refused",
    [array(), array({"id": 5, "method": "initialize", "params": {}}), b'[{"id":5,"method":"ping"'],
)
def test_a_batch_that_the_daemon_refuses_leaves_nothing_pending(batching, refused):
    assert batching.from_client(refused) == refused + b"\n"
    assert move(batching)[0] == []


def test_a_batch_in_another_revision_is_the_daemons_to_refuse(opened):
    batch = array({"id": 5, "method": "ping"})
    assert opened.from_client(batch) == batch + b"\n"
    assert move(opened)[0] == []
    (told,) = read(opened.refuse([batch + b"\n"], "none"))
    assert (told["id"], told["error"]["code"]) == (None, -32600)


def test_without_a_daemon_what_is_no_request_is_refused_as_a_daemon_does(opened):
    for wrong, found in ((line(id=5), 5), (line(id=None, method="ping"), None), (b"hello?", None)):
        assert opened.from_client(wrong) == wrong + b"\n"
        (told,) = read(opened.refuse([wrong + b"\n"], "none"))
        assert (told["id"], told["error"]["code"]) == (found, -32700 if wrong == b"hello?" else -32600)
    assert opened.refuse([line(method="notifications/x") + b"\n"], "none") == []
