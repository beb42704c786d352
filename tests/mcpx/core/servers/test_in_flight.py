"""Whether a request may be sent again, by what became of it."""

from __future__ import annotations

import pytest

from mcpx.core.protocol.requests import CallTool
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.servers.transport.exchange import ConnectionDropped, NotExecuted, PersonNeeded, Refused


def in_flight(position=None, **options):
    return sent(CallTool(name="t", arguments=b"{}", **options), position)


def sent(request, position=None):
    return InFlight(request, RawReply(), position, 0.0, None, None)


@pytest.mark.parametrize("safe", [True, False])
def test_a_request_that_was_not_executed_goes_again_once(safe):
    again = in_flight(safe=safe).again_after(NotExecuted("x"))
    assert again.turned_away
    assert sent(again).again_after(NotExecuted("x")) is None


def test_a_request_that_was_dropped_goes_again_once_and_only_if_that_is_safe():
    again = in_flight(safe=True).again_after(ConnectionDropped("x"))
    assert not again.safe
    assert sent(again).again_after(ConnectionDropped("x")) is None


@pytest.mark.parametrize("scopes", [None, ("read",)])
def test_what_a_person_has_to_act_for_does_not_go_again(scopes):
    error = PersonNeeded("x", command="mcpx login s", scopes=scopes)
    assert in_flight(safe=True).again_after(error) is None


def test_a_refusal_is_an_answer():
    assert in_flight(safe=True).again_after(Refused(500)) is None


@pytest.mark.parametrize(("position", "unread"), [(10, 10), (10, 5)])
def test_what_was_never_read_goes_again_unchanged(position, unread):
    call = in_flight(position, safe=False)
    assert call.again_after_loss(unread) is call.request


def test_what_a_killed_server_never_saw_goes_again_though_its_bytes_were_taken():
    call = in_flight(10, safe=False)
    call.never_seen = True
    assert call.again_after_loss(20) is call.request


@pytest.mark.parametrize(("position", "unread"), [(10, 11), (10, None), (None, None)])
def test_what_may_have_been_read_goes_again_only_if_that_is_safe(position, unread):
    assert in_flight(position, safe=False).again_after_loss(unread) is None
    assert not in_flight(position, safe=True).again_after_loss(unread).safe
