"""Why a server over HTTP cannot be reached, and what a call is told that needs a person."""

from __future__ import annotations

import json
import socket

import pytest

from mcpx.core.config import parse
from mcpx.core.servers.call_errors import SignInNeeded, call_error
from mcpx.core.servers.causes import cause_of
from mcpx.core.servers.transport.exchange import PersonNeeded, Unreachable
from mcpx.core.wire.unreachable import OFFLINE
from mcpx.errors import Code, Outcome

URL = "https://me:word@example.com:9/mcp?key=secret#x"


def caused_by(system: BaseException) -> Unreachable:
    """As it is wrapped what the system says of the last address that was tried."""
    attempts = OSError("All connection attempts failed")
    attempts.__cause__ = system
    error = Unreachable("All connection attempts failed")
    error.__cause__ = attempts
    return error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            caused_by(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)")),
            "Connection refused",
        ),
        (caused_by(ExceptionGroup("", [OSError(113, "x"), OSError(111, "y")])), "No route to host"),
        (Unreachable("[Errno -2] Name or service not known"), "Name or service not known"),
        (caused_by(socket.gaierror(-2, "Name or service not known")), OFFLINE),
        (caused_by(OSError(101, "Network is unreachable")), OFFLINE),
        (Unreachable(""), "Unreachable"),
    ],
)
def test_it_names_the_url_and_the_reason_and_nothing_secret(error, why):
    config = parse(json.dumps({"mcpServers": {"s": {"url": URL}}}), where="x").servers["s"]
    cause = cause_of(ExceptionGroup("", [error]), config)
    assert cause.text == f"the server cannot be reached: https://example.com:9/mcp: {why}"


@pytest.mark.parametrize(
    ("scopes", "details"),
    [
        (None, {"state": "needs sign-in", "cause": "why", "sign_in": "mcpx login s"}),
        (("a", "b"), {"cause": "why", "sign_in": "mcpx login s", "wanted_scopes": ["a", "b"]}),
        ((), {"cause": "why", "sign_in": "mcpx login s"}),
    ],
)
def test_a_call_that_a_person_has_to_act_for_was_not_run_and_says_the_command(scopes, details):
    error = call_error(PersonNeeded("why", command="mcpx login s", scopes=scopes), server="s", tool="t")
    assert isinstance(error, SignInNeeded)
    assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
    assert str(error) == "s did not take the call (why); it was not run"
    assert error.details == details
    assert error.wants_more is (scopes is not None)
