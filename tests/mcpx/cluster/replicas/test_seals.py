"""What is sealed, what is opened, and what is left as it is."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.cluster.replicas.seals import AlteredError, Kind, Seals, read, seal
from mcpx.core.protocol.result_address import PREFIX, read_address
from tests.mcpx.cluster.replicas.site import SECRET

HERE = Seals("http://10.0.0.3:8765", SECRET)
THERE = Seals("http://10.0.0.4:8765", SECRET)
STRANGER = Seals("http://10.0.0.4:8765", "another secret of many bytes")


@given(st.text(max_size=300))
def test_any_state_comes_back_as_it_was_and_names_its_holder(state):
    opened = THERE.open(HERE.seal_state(state))
    assert (opened.url, opened.text) == (HERE.url, state)
    with pytest.raises(AlteredError):
        STRANGER.open(HERE.seal_state(state))


@given(st.text(max_size=50), st.data())
def test_one_character_that_differs_is_enough(state, data):
    sealed = HERE.seal_state(state)
    at = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.characters().filter(lambda each: each != sealed[at]))
    with pytest.raises(AlteredError):
        THERE.open(sealed[:at] + other + sealed[at + 1 :])


def test_kinds_are_not_taken_for_each_other():
    kinds = {
        "mcpx-held-x": Kind.HELD,
        "mcpx-approval-x": Kind.APPROVAL,
        "x": Kind.STATE,
        None: Kind.STATELESS,
    }
    assert {state: HERE.open(HERE.seal_state(state)).kind for state in kinds} == kinds
    body = {"method": "tools/call", "id": 1, "params": {"requestState": HERE.seal_task("1")}}
    with pytest.raises(AlteredError):
        read(msgspec.json.encode(body), HERE)
    body = {"method": "tasks/get", "id": 1, "params": {"taskId": HERE.seal_state("1")}}
    with pytest.raises(AlteredError):
        read(msgspec.json.encode(body), HERE)


def test_the_address_of_a_kept_result_is_one_and_its_seal_is_checked():
    kept = HERE.seal_kept("0123456789abcdef")
    address = read_address(f"{PREFIX}{kept}?from=60")
    assert (address.id, address.start) == (kept, 60)
    assert THERE.holder_of(f"{PREFIX}{kept}?from=60").url == HERE.url
    assert THERE.holder_of(f"{PREFIX}0123") is None
    assert THERE.holder_of("file:///etc/passwd") is None
    with pytest.raises(AlteredError):
        STRANGER.holder_of(f"{PREFIX}{kept}")


def test_only_members_of_the_result_itself_are_sealed():
    inside = {"content": [{"type": "text", "text": '"requestState":"x","taskId":"y"'}], "taskId": "z"}
    message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": inside | {"resultType": "complete"}})
    assert seal(message, "tools/call", HERE) is message
    wanting = {"resultType": "input_required", "inputRequests": {"a": {"requestState": "b"}}}
    event = b"event: message\r\ndata: %b\r\n\r\n"
    given = event % msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": wanting})
    sealed = seal(given, "tools/call", HERE)
    result = json.loads(sealed.removeprefix(b"event: message\r\ndata: "))["result"]
    assert HERE.open(result.pop("requestState")).kind is Kind.STATELESS
    assert result == wanting
    assert sealed.endswith(b"}\r\n\r\n")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"7", b'{"method": 7}', b'{"method": "x", "params": 7}'])
def test_what_is_no_request_is_for_others_to_refuse(body):
    assert read(body, HERE) is None


def test_a_request_that_brings_nothing_passes_as_it_is():
    body = b'{"jsonrpc": "2.0",  "id": 1, "method": "tools/call", "params": {"name": "exec", "x": 1.0}}'
    request = read(body, HERE)
    assert (request.body, request.holder) == (body, None)


def test_what_two_replicas_hold_is_refused():
    params = {"taskId": HERE.seal_task("1"), "requestState": THERE.seal_state("x")}
    with pytest.raises(AlteredError):
        read(msgspec.json.encode({"method": "tasks/update", "id": 1, "params": params}), HERE)


def test_a_stream_that_wants_tasks_goes_where_they_all_are():
    def listening(*ids):
        params = {"notifications": {"taskIds": list(ids)}}
        return read(msgspec.json.encode({"method": "subscriptions/listen", "id": 1, "params": params}), HERE)

    assert listening(THERE.seal_task("1"), THERE.seal_task("2")).holder == THERE.url
    mixed = listening(HERE.seal_task("1"), THERE.seal_task("2"))
    assert mixed.holder is None
    assert json.loads(mixed.body)["params"]["notifications"]["taskIds"] == ["1"]
    assert listening().holder is None
