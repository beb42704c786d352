"""A session whose client is answered before a daemon is there: what the daemon and the client then get."""

from __future__ import annotations

import json

import pytest

from mcpx.attach.remembered import RememberedAnswers
from mcpx.attach.session import OWN_ID_PREFIX, Session
from mcpx.core.store.paths import DaemonPaths, daemon_paths
from mcpx.core.system.endpoint import COUNTED_KEY, DEFAULT_ENDPOINT, SETTLED_KEY, greeting
from mcpx.version import __version__

HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {"_meta": ENVELOPE}
STREAM_KEY = "io.modelcontextprotocol/subscriptionId"
INITIALIZED = {"method": "notifications/initialized"}
LISTS = {
    "tools/list": {"tools": [{"name": "one"}]},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": [{"uri": "a:1"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


def line(**message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def read(lines) -> list[dict]:
    assert all(each.endswith(b"\n") and each.count(b"\n") == 1 for each in lines)
    return [json.loads(each) for each in lines]


class Client:
    """A client on a shim without its input and output: lines wait until `connected`."""

    def __init__(self, paths: DaemonPaths) -> None:
        self.paths = paths
        self.answers = RememberedAnswers(paths, greeting(DEFAULT_ENDPOINT))
        self.session = Session(self.answers)
        self.waiting: list[bytes] = []
        self.sent: list[dict] = []
        """What the daemon has been sent and has not answered."""

    def say(self, **message) -> list[dict]:
        """Send a message; what is answered at once."""
        passed = self.session.from_client(line(**message))
        answered, waiting = self.session.answer([passed] if passed else [])
        self.waiting += waiting
        return read(answered)

    def connected(self) -> None:
        self.answers.daemon_answers(self.paths, __version__)
        lines = self.session.replay(self.waiting)
        self.sent = read([*lines, *self.waiting])
        self.waiting = []
        self.take_own()

    def take_own(self) -> None:
        self.sent += read(self.session.to_daemon)
        self.session.to_daemon.clear()

    def hear(self, **message) -> list[dict]:
        """The daemon says that; what the client gets."""
        heard = read(self.session.from_daemon(line(**message)))
        self.take_own()
        return heard

    def answer(self, results: dict) -> list[dict]:
        """The daemon answers what it was sent; what the client gets."""
        heard = []
        asked, self.sent = self.sent, []
        for each in asked:
            if "id" in each:
                heard += self.hear(id=each["id"], result=results.get(each["method"], {}))
        return heard


@pytest.fixture
def shim(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    config = tmp_path / "config.json"
    config.write_text("{}")
    return lambda: Client(daemon_paths(str(config)))


@pytest.fixture
def known(shim):
    """Shims of a client program that has listed all there is, in both eras."""
    for opening, params in (("initialize", HELLO), ("server/discover", MODERN)):
        first = shim()
        assert first.say(id=0, method=opening, params=params) == []
        more = {} if opening == "initialize" else MODERN
        for number, method in enumerate(LISTS, 1):
            assert first.say(id=number, method=method, params=more) == []
        first.connected()
        first.answer({opening: {"protocolVersion": HELLO["protocolVersion"]}, **LISTS})
        first.answers.write()
    return shim


def test_a_known_client_is_answered_and_the_daemon_gets_the_opening_as_a_replay(known):
    client = known()
    (opened,) = client.say(id="i", method="initialize", params=HELLO | {"_meta": {"trace": 1}})
    assert opened == {"jsonrpc": "2.0", "id": "i", "result": {"protocolVersion": HELLO["protocolVersion"]}}
    assert client.say(**INITIALIZED) == []
    for number, (method, result) in enumerate(LISTS.items()):
        assert client.say(id=number, method=method) == [{"jsonrpc": "2.0", "id": number, "result": result}]
    assert client.say(id=9, method="ping") == [{"jsonrpc": "2.0", "id": 9, "result": {}}]
    assert client.say(id=10, method="tools/call", params={"name": "exec"}) == []
    client.connected()
    assert [each["method"] for each in client.sent] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ]
    own = [each for each in client.sent if str(each.get("id")).startswith(OWN_ID_PREFIX)]
    assert [each["params"]["_meta"] for each in own[1:]] == [{SETTLED_KEY: True, COUNTED_KEY: False}] * 4
    assert [each["id"] for each in client.answer(LISTS)] == [10]  # nothing differs, and nothing else is heard
    assert client.session.daemon_lost([]) == ([], [])


def test_a_notification_that_the_daemon_has_yet_to_get_is_sent_once(known):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    client.connected()
    assert [each["method"] for each in client.sent] == ["initialize"]
    passed = client.session.from_client(line(**INITIALIZED))
    assert json.loads(passed) == {"jsonrpc": "2.0", **INITIALIZED}


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
)
def test_what_differs_is_announced_and_known_at_the_next_start(known, method):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    client.say(**INITIALIZED)
    for number, each in enumerate(LISTS, 1):
        client.say(id=number, method=each)
    client.connected()
    (member,) = LISTS[method]
    changed = LISTS | {method: {member: [{"name": "new", "uri": "a:2"}]}}
    (told,) = client.answer(changed)
    kind = method.split("/")[0]
    assert told == {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}
    client.answers.write()
    again = known()
    again.say(id=0, method="initialize", params=HELLO)
    assert again.say(id=1, method=method)[0]["result"] == changed[method]


def test_in_the_revision_without_sessions_open_streams_hear_of_it(known):
    client = known()
    assert client.say(id=0, method="server/discover", params=MODERN) != []
    (listed,) = client.say(id=1, method="tools/list", params={"_meta": ENVELOPE | {"progressToken": 1}})
    assert listed["result"] == LISTS["tools/list"]
    assert client.say(id=2, method="ping", params=MODERN) == []
    for number, wanted in ((3, "toolsListChanged"), (4, "promptsListChanged"), (5, "toolsListChanged")):
        params = {"notifications": {wanted: True}} | MODERN
        assert client.say(id=number, method="subscriptions/listen", params=params) == []
    client.connected()
    assert [each["method"] for each in client.sent].count("server/discover") == 1
    assert client.sent[-1]["params"]["_meta"] == ENVELOPE | {SETTLED_KEY: True, COUNTED_KEY: False}
    assert [stream(each) for each in client.hear(**acknowledged(3))] == [("acknowledged", 3)]
    client.sent = [each for each in client.sent if str(each["id"]).startswith(OWN_ID_PREFIX)]
    told = client.answer({"tools/list": {"tools": [{"name": "two"}]}})
    assert [stream(each) for each in told] == [("list_changed", 3)]
    # a stream that opens later hears of it too, until the client has listed again
    assert [stream(each) for each in client.hear(**acknowledged(5))] == [
        ("acknowledged", 5),
        ("list_changed", 5),
    ]
    assert client.hear(**acknowledged(4))[1:] == []


def acknowledged(number: int) -> dict:
    return {
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {STREAM_KEY: number}},
    }


def stream(message: dict) -> tuple[str, int]:
    return message["method"].rpartition("/")[2], message["params"]["_meta"][STREAM_KEY]


def test_a_stream_that_opens_after_the_client_has_listed_again_hears_nothing(known):
    client = known()
    client.say(id=1, method="tools/list", params=MODERN)
    client.connected()
    changed = {"tools/list": {"tools": []}}
    assert client.answer(changed) == []
    client.sent = [
        json.loads(client.session.from_client(line(id=2, method="tools/list", params=MODERN))),
    ]
    assert [each["id"] for each in client.answer(changed)] == [2]
    listen = {"notifications": {"toolsListChanged": True}} | MODERN
    client.session.from_client(line(id=3, method="subscriptions/listen", params=listen))
    assert [stream(each) for each in client.hear(**acknowledged(3))] == [("acknowledged", 3)]


def test_a_client_that_is_not_known_waits(known):
    client = known()
    assert client.say(id=1, method="ping") == []
    assert client.say(id=2, method="tools/list") == []  # before the opening
    assert client.say(id=3, method="initialize", params=HELLO | {"capabilities": {"roots": {}}}) == []
    assert client.say(id=4, method="tools/list") == []
    assert client.say(id=5, method="server/discover", params={"_meta": ENVELOPE | {"x": 1}}) == []
    client.connected()
    assert [each["id"] for each in client.sent] == [1, 2, 3, 4, 5]


def test_a_second_opening_and_batches_wait(known):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    client.say(**INITIALIZED)
    assert client.say(id=1, method="initialize", params=HELLO) == []
    array = json.dumps([{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]).encode()
    passed = client.session.from_client(array)
    assert client.session.answer([passed]) == ([], [passed])
    client.waiting.append(passed)
    client.connected()
    assert [json.loads(array)] == [each for each in client.sent if isinstance(each, list)]
    (refused,) = read(client.session.refuse([passed], "none"))[-1:]
    assert [each["id"] for each in refused] == [2]


def test_a_request_that_was_cancelled_while_it_waited_is_not_answered(known):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    waiting = client.session.from_client(line(id=1, method="tools/list"))
    cancel = client.session.from_client(line(method="notifications/cancelled", params={"requestId": 1}))
    assert client.session.answer([waiting, cancel]) == ([], [waiting, cancel])


def test_what_the_client_has_not_been_given_is_neither_listed_nor_announced(known):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    client.connected()
    assert [each["method"] for each in client.sent] == ["initialize"]
    assert client.answer({}) == []
    changed = {"method": "notifications/resources/list_changed"}
    assert client.hear(**changed) == [{"jsonrpc": "2.0", **changed}]


def test_answers_go_on_to_be_known_where_the_daemon_says_something_else_of_itself(known):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    client.connected()
    client.answer({"initialize": {"instructions": "new"}})
    client.answers.write()
    (opened,) = known().say(id=0, method="initialize", params=HELLO)
    assert opened["result"] == {"instructions": "new"}


def test_a_large_answer_that_is_no_json_is_not_kept(known):
    client = known()
    client.say(id=0, method="initialize", params=HELLO)
    client.connected()
    client.answer({})
    client.session.from_client(line(id=1, method="tools/list"))
    broken = b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [' + b"x" * 20_000 + b"]}}"
    assert client.session.from_daemon(broken) == [broken + b"\n"]
    client.answers.write()
    again = known()
    assert again.say(id=0, method="initialize", params=HELLO) != []
    assert again.say(id=1, method="tools/list")[0]["result"] == LISTS["tools/list"]


def test_without_a_store_nothing_is_known():
    session = Session()
    asked = session.from_client(line(id=0, method="initialize", params=HELLO))
    assert session.answer([asked]) == ([], [asked])
    assert session.replay([asked]) == []
