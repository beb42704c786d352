"""What HTTP answers mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from mcpx.core.servers.call_errors import call_error, ends_session
from mcpx.core.servers.transport.exchange import Answer, ConnectionDropped, NotExecuted, Refused
from mcpx.core.servers.transport.http_answers import (
    Posted,
    answer_to,
    encode_error,
    is_server_error,
    posted_in,
    read_answer,
    read_error_body,
    take_message,
)
from mcpx.core.wire.outgoing import MalformedMessage
from mcpx.core.wire.unreachable import retry_after
from mcpx.errors import Code, Outcome

CALL = Posted("tools/call", 3)


def answered(status=200, body=b"", **headers):
    return httpx2.Response(status, headers={k.replace("_", "-"): v for k, v in headers.items()}, content=body)


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("0", 0.0), ("", None), ("soon", None), ("-3", None)]
)
def test_retry_after_in_seconds(value, seconds):
    assert retry_after(answered(retry_after=value)) == seconds


@pytest.mark.parametrize(("ahead", "least", "most"), [(60, 55, 60), (-60, 0, 0)])
def test_retry_after_as_a_date(ahead, least, most):
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    assert least <= retry_after(answered(retry_after=at)) <= most


def test_a_request_has_an_id_and_a_notification_or_an_answer_of_ours_has_none():
    def posted(**message):
        return posted_in(httpx2.Request("POST", "http://x/", json={"jsonrpc": "2.0", **message}))

    assert posted(id=3, method="ping") == Posted("ping", 3)
    assert posted(method="notifications/cancelled").id is None
    assert posted(id=3, result={}).id is None


@pytest.mark.parametrize("request_id", [3, "3"])
def test_an_answer_is_known_by_its_id(request_id):
    data = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}).encode()
    assert answer_to(CALL, data) == (Answer(request_id, is_error=False), data)


def test_an_error_without_an_id_gets_that_of_the_request():
    error = {"code": -32600, "message": "no", "data": {"kept": None}}
    answer, data = answer_to(CALL, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
    assert answer.is_error
    assert json.loads(data) == {"jsonrpc": "2.0", "id": 3, "error": error}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a JSON-RPC message"),
        (b"[]", "not a JSON-RPC message"),
        (b'{"jsonrpc": "2.0", "method": "notifications/x"}', "of another kind"),
        (b'{"jsonrpc": "2.0", "id": 4, "result": {}}', "to another request"),
    ],
)
def test_what_is_no_answer_is_unreadable(data, says):
    with pytest.raises(MalformedMessage, match=says):
        answer_to(CALL, data)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b'{"jsonrpc": "2.0", "id": "a", "result": {"x": NaN}}', Answer("a", is_error=False)),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}, "error": null}', Answer(1, is_error=False)),
        (b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}', Answer(1, is_error=True)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', None),
    ],
)
def test_what_the_sdk_reads_is_read_in_the_same_way(data, answer):
    assert read_answer(data) == answer


@pytest.mark.parametrize(
    "data",
    [
        b'{"id": 1, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": []}',
        b'{"jsonrpc": "2.0", "id": 1.5, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xff"}}',
    ],
)
def test_what_the_sdk_refuses_is_refused(data):
    with pytest.raises(MalformedMessage, match="not a JSON-RPC message"):
        read_answer(data)


@pytest.mark.parametrize(
    ("data", "left"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":1e400}}', {"result": {}}),
        (b'{"id":3,"result":{"x":[1e2]},"error":null}', {"result": {}}),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":[1]}}', {"error": None}),
    ],
)
def test_of_an_answer_that_is_taken_as_it_came_the_sdk_sees_an_empty_one(data, left):
    answer, passed = answer_to(CALL, data, raw=True)
    message = json.loads(passed)
    assert (message["id"], message["jsonrpc"]) == (3, "2.0")
    if answer.is_error:
        assert "data" not in message["error"]
        assert (answer.error.code, answer.error.message, answer.error.data) == (-1, "m", [1])
    else:
        assert message["result"] == left["result"]
        assert bytes(answer.result) in data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"id":3,"result":{"x":NaN}}', "NaN or an infinity"),
        (b'{"id":3,"result":{"x":"\xff"}}', "not a JSON-RPC message"),
        (b'{"id":3,"result":' + b"[" * 5000, "nested too deeply"),
        (b'{"id":null,"result":{}}', "no id"),
        (b'{"id":3}', "neither a request nor an answer"),
    ],
)
def test_what_cannot_be_taken_as_it_came_is_malformed(data, says):
    with pytest.raises(MalformedMessage, match=says):
        answer_to(CALL, data, raw=True)


def test_a_notification_passes_whatever_its_numbers_are():
    data = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":NaN}}'
    assert take_message(data, raw=True) == (None, data)


def test_a_servers_explanation_is_shown_and_a_page_is_not():
    text = read_error_body(answered(429, content_type="text/plain"), b"  too \n many" + b"x" * 500, str).text
    assert text.startswith("too manyxxx")
    assert len(text) == 200 + len("...")
    assert read_error_body(answered(503, content_type="text/html"), b"<html>", str).text == ""


@pytest.mark.parametrize("named", [{}, {"id": None}, {"id": "3"}])
def test_the_servers_own_error_is_found_with_and_without_an_id(named):
    error = {"code": -32000, "message": "no session", "data": {"kept": None}}
    body = json.dumps({"jsonrpc": "2.0", "error": error, **named}).encode()
    response = answered(503, content_type="application/json")
    found = read_error_body(response, body, str)
    assert (found.text, is_server_error(found, response, CALL)) == ("no session", named.get("id") is not None)
    assert json.loads(encode_error(CALL, found.error)) == {"jsonrpc": "2.0", "id": 3, "error": error}


@pytest.mark.parametrize(
    ("error", "code", "outcome"),
    [
        (Refused(429), Code.OVERLOADED, Outcome.NOT_SENT),
        (Refused(503), Code.UPSTREAM_ERROR, Outcome.FAILED),
        (Refused(599), Code.UPSTREAM_ERROR, Outcome.FAILED),
        (ConnectionDropped("x"), Code.SERVER_DIED, Outcome.UNKNOWN),
        (NotExecuted("x"), Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT),
    ],
)
def test_what_a_caller_is_told(error, code, outcome):
    told = call_error(error, server="s", tool="t")
    assert (told.code, told.outcome) == (code, outcome)
    assert str(error) in str(told)


@pytest.mark.parametrize(
    ("failure", "over"),
    [
        (NotExecuted("x"), False),  # the link knows already
        (Refused(400), True),
        (Refused(429), False),
        (Refused(503), False),
        (ConnectionDropped("x"), False),
    ],
)
def test_a_probe_that_is_refused_says_whether_the_session_is_over(failure, over):
    assert ends_session(failure) is over
