"""Large calls, taken apart: what is left of them, and where their arguments stand."""

from __future__ import annotations

import json

import anyio
import msgspec
import pytest

from mcpx.core.calls.results import large_requests
from mcpx.core.calls.results.large_requests import LargeRequests, NotTakenApart
from mcpx.core.wire.workers.pool import WorkerPool

pytestmark = pytest.mark.anyio
OWN = '{"a": [1, "]}", {"arguments": 2}]}'
PARAMS = {
    "exec": f'{{"name":"exec","arguments":{{"server_name":"s","tool_name":"t","arguments":{OWN}}}}}',
    "first, and spaced": f' {{ "arguments" : {{ "arguments" : {OWN} , "tool_name":"t" }} , "name":"exec" }} ',
    "escaped names": f'{{"n\\u0061me":"exec","argu\\u006dents":{{"\\u0061rguments":{OWN}}}}}',
    "named twice": f'{{"arguments":1,"name":"exec","arguments":{{"arguments":[2],"arguments":{OWN}}}}}',
    "the same bytes twice": f'{{"name":"exec","_meta":{OWN},"arguments":{{"arguments":{OWN}}}}}',
    "a text": '{"name":"exec","arguments":{"arguments":"{\\"a\\": 1}"}}',
    "none inside": '{"name":"t","_meta":{"progressToken":1},"arguments":{"a":1}}',
    "no object": '{"name":"t","arguments":[1]}',
    "none": '{"name":"t"}',
}


@pytest.fixture
async def requests():
    pool = WorkerPool()
    yield LargeRequests(pool)
    pool.close()


async def test_what_is_left_and_the_arguments_are_the_whole(requests):
    for kind, params in PARAMS.items():
        with anyio.fail_after(50):
            call = await requests.call(msgspec.Raw(params.encode()), None)
        whole = json.loads(params)
        given = whole.get("arguments")
        rest = json.loads(call.params)
        if call.arguments:
            rest["arguments"] = json.loads(bytes(call.arguments))
        assert rest == whole, kind
        inside = json.loads(call.exec_params)
        if call.tool_arguments:
            inside["arguments"]["arguments"] = json.loads(bytes(call.tool_arguments))
        assert inside == whole | {"arguments": given if isinstance(given, dict) else {}}, kind


@pytest.mark.parametrize("params", ['{"arguments":{}},"b":{"name":"x"}', '{"arguments":{"a":}}', "[1]", "{"])
async def test_what_is_no_object_is_unreadable(requests, params):
    with anyio.fail_after(50), pytest.raises(NotTakenApart) as raised:
        await requests.call(msgspec.Raw(params.encode()), None)
    assert raised.value.unreadable


async def test_what_is_large_beside_the_arguments_is_left_alone(requests, monkeypatch):
    params = b'{"name":"t","_meta":{"a":"%b"},"arguments":{}}' % (b"x" * (large_requests.LARGE_BYTES + 1))
    with anyio.fail_after(50):
        assert await requests.call(msgspec.Raw(params), None) is None


async def test_it_says_why_nobody_had_the_time(requests, monkeypatch):
    requests._pool.close()
    with anyio.fail_after(50), pytest.raises(NotTakenApart, match="no process was free") as raised:
        await requests.call(msgspec.Raw(b"{}"), None)
    assert not raised.value.unreadable
