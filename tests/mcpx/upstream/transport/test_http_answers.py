"""What HTTP answers mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from mcpx.errors import Code, Outcome
from mcpx.upstream.errors import ConnectionLost, Unwell, call_error, refused_probe
from mcpx.upstream.transport.exchange import Dropped, NotCarriedOut, Refused
from mcpx.upstream.transport.http_answers import Asked, answer_in, asked_in, explanation, retry_after
from mcpx.wire.outgoing import MalformedMessage

ASKED = Asked("tools/call", 3)


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
    def asked(**message):
        return asked_in(httpx2.Request("POST", "http://x/", json={"jsonrpc": "2.0", **message}))

    assert asked(id=3, method="ping") == Asked("ping", 3)
    assert asked(method="notifications/cancelled").id is None
    assert asked(id=3, result={}).id is None


@pytest.mark.parametrize("request_id", [3, "3"])
def test_an_answer_is_known_by_its_id(request_id):
    data = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}).encode()
    assert answer_in(data, ASKED) == data


def test_an_error_without_an_id_gets_that_of_the_request():
    error = {"code": -32600, "message": "no", "data": {"kept": None}}
    data = answer_in(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(), ASKED)
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
        answer_in(data, ASKED)


def test_a_servers_explanation_is_shown_and_a_page_is_not():
    said = explanation(answered(429, content_type="text/plain"), b"  too \n many" + b"x" * 500, str).said
    assert said.startswith("too manyxxx")
    assert len(said) == 200
    assert explanation(answered(503, content_type="text/html"), b"<html>", str).said == ""


@pytest.mark.parametrize("named", [{}, {"id": None}, {"id": "3"}])
def test_the_servers_own_error_is_found_with_and_without_an_id(named):
    error = {"code": -32000, "message": "no session", "data": {"kept": None}}
    body = json.dumps({"jsonrpc": "2.0", "error": error, **named}).encode()
    about = explanation(answered(400, content_type="application/json"), body, str)
    assert (about.said, about.names(ASKED)) == ("no session", named.get("id") is not None)
    assert json.loads(about.as_answer(ASKED)) == {"jsonrpc": "2.0", "id": 3, "error": error}


@pytest.mark.parametrize(
    ("error", "code", "outcome"),
    [
        (Refused(429), Code.OVERLOADED, Outcome.NOT_SENT),
        (Refused(503), Code.UPSTREAM_ERROR, Outcome.FAILED),
        (Refused(599), Code.UPSTREAM_ERROR, Outcome.FAILED),
        (Dropped("x"), Code.SERVER_DIED, Outcome.UNKNOWN),
        (NotCarriedOut("x"), Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT),
    ],
)
def test_what_a_caller_is_told(error, code, outcome):
    told = call_error(error, server="s", tool="t")
    assert (told.code, told.outcome) == (code, outcome)
    assert str(error) in str(told)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (NotCarriedOut("x"), Unwell),  # the link knows already
        (Refused(400), ConnectionLost),
        (Refused(429), Unwell),
        (Refused(503), Unwell),
        (Dropped("x"), Unwell),
    ],
)
def test_a_probe_that_is_refused_says_whether_the_session_is_over(failure, kind):
    assert type(refused_probe(failure)) is kind
