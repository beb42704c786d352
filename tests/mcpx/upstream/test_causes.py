"""Why a server over HTTP cannot be reached, as `status` says it."""

from __future__ import annotations

import json

import httpx2
import pytest

from mcpx.config import parse
from mcpx.upstream.errors import cause_of

URL = "https://me:word@example.com:9/mcp?key=secret#x"


def caused_by(system: BaseException) -> httpx2.ConnectError:
    """As anyio and httpx wrap what the system says of the last address that was tried."""
    attempts = OSError("All connection attempts failed")
    attempts.__cause__ = system
    error = httpx2.ConnectError("All connection attempts failed")
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
        (httpx2.ConnectError("[Errno -2] Name or service not known"), "[Errno -2] Name or service not known"),
        (httpx2.ConnectError(""), "ConnectError"),
    ],
)
def test_it_names_the_url_and_the_reason_and_nothing_secret(error, why):
    config = parse(json.dumps({"mcpServers": {"s": {"url": URL}}}), where="x").servers["s"]
    cause = cause_of(ExceptionGroup("", [error]), config)
    assert cause.text == f"the server cannot be reached: https://example.com:9/mcp: {why}"
