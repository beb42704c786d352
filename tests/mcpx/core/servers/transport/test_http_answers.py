"""What HTTP answers mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from mcpx.core.servers.call_errors import call_error, ends_session
from mcpx.core.servers.transport.exchange import ConnectionDropped, NotExecuted, Refused
from mcpx.core.servers.transport.http_answers import answer_to, is_server_error, read_answer, read_error_body
from mcpx.core.servers.transport.http_connection import Head
from mcpx.core.wire.outgoing import MalformedMessage
from mcpx.core.wire.unreachable import retry_after
from mcpx.errors import Code, Outcome


def answered(status=200, **headers):
    head = Head(status)
    for name, value in headers.items():
        head.add(name.replace("_", "-").encode(), value.encode())
    return head


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("0", 0.0), ("", None), ("soon", None), ("-3", None)]
)
def test_retry_after_in_seconds(value, seconds):
    assert retry_after(answered(retry_after=value)) == seconds


@pytest.mark.parametrize(("ahead", "least", "most"), [(60, 55, 60), (-60, 0, 0)])
def test_retry_after_as_a_date(ahead, least, most):
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    assert least <= retry_after(answered(retry_after=at)) <= most


@pytest.mark.parametrize("request_id", [3, "3"])
def test_an_answer_is_known_by_its_id(request_id):
    data = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"x": 1}}).encode()
    answer = answer_to(3, data, raw=True)
    assert (answer.id, bytes(answer.result), answer.error) == (request_id, b'{"x": 1}', None)


@pytest.mark.parametrize("raw", [True, False])
def test_an_error_may_be_without_an_id(raw):
    error = {"code": -32600, "message": "no", "data": {"kept": None}}
    answer = answer_to(3, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(), raw=raw)
    assert json.loads(bytes(answer.error.raw)) == error
    assert (answer.error.code, answer.error.message, answer.error.data) == (-32600, "no", {"kept": None})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a JSON-RPC message"),
        (b"[]", "not a JSON-RPC message"),
        (b'{"jsonrpc": "2.0", "method": "notifications/x"}', "of another kind"),
        (b'{"jsonrpc": "2.0", "id": 4, "result": {}}', "to another request"),
        (b'{"id":3,"result":{"x":NaN}}', "NaN or an infinity"),
        (b'{"id":3,"result":{"x":"\xff"}}', "not a JSON-RPC message"),
        (b'{"id":3,"result":' + b"[" * 5000, "nested too deeply"),
        (b'{"id":1.5,"result":{}}', "not a JSON-RPC message"),
        (b'{"id":null,"result":{}}', "to another request, or to none"),
        (b'{"id":3}', "neither a request nor an answer"),
    ],
)
def test_what_is_no_answer_is_unreadable(data, says):
    with pytest.raises(MalformedMessage, match=says):
        answer_to(3, data, raw=True)


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":1e400}}', b'{"x":1e400}'),
        (b'{"id":3,"result":{"x":[1e2]},"error":null}', b'{"x":[1e2]}'),
        (b'{"id":3,\r\n"result":{"x":\n1}}', b'{"x": 1}'),
        (b'{"id":3,"result":{"x":"\\ud83d"}}', b'{"x":"\\ufffd"}'),
    ],
)
def test_a_result_is_taken_as_it_came_on_one_line_and_mended(data, result):
    assert bytes(answer_to(3, data, raw=True).result) == result


def test_numbers_that_are_no_json_are_null_for_who_reads_the_result():
    answer = read_answer(b'{"jsonrpc": "2.0", "id": "a", "result": {"x": NaN}}', raw=False)
    assert (answer.id, bytes(answer.result)) == ("a", b'{"x": null}')


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":NaN}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
    ],
)
def test_what_answers_nothing_is_no_answer(data):
    assert read_answer(data, raw=True) is None


def test_a_servers_explanation_is_shown_and_a_page_is_not():
    text = read_error_body(answered(429, content_type="text/plain"), b"  too \n many" + b"x" * 500, str).text
    assert text.startswith("too manyxxx")
    assert len(text) == 200 + len("...")
    assert read_error_body(answered(503, content_type="text/html"), b"<html>", str).text == ""


@pytest.mark.parametrize("named", [{}, {"id": None}, {"id": "3"}])
def test_the_servers_own_error_is_found_with_and_without_an_id(named):
    error = {"code": -32000, "message": "no session", "data": {"kept": None}}
    body = json.dumps({"jsonrpc": "2.0", "error": error, **named}).encode()
    found = read_error_body(answered(503, content_type="application/json"), body, str)
    own = is_server_error(found, 503, 3, in_session=False)
    assert (found.text, own) == ("no session", named.get("id") is not None)
    assert json.loads(bytes(found.error.raw)) == error


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
