"""A person at a browser who agrees to everything: `python -S -E scripted_browser.py PERSON URL`.

Goes to the authorize address as that person, and follows the way back to the callback. The program does so in
the background, as a browser does, and waits a while for whoever listens there. Standard library only.
"""

from __future__ import annotations

import http.client
import os
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

TIMEOUT_S = 20.0
OPENING_PATH = "/sign-in/"  # of the address that a browser is started with; it leads to the authorize address


def _get(url: str, cookie: str) -> tuple[http.client.HTTPResponse, bytes]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"cookie": cookie} if cookie else {})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def consent(url: str, person: str) -> str:
    """Agree; the address that the browser is sent back to. Fails where it is not sent back."""
    response, body = _get(url, f"person={person}")
    location = response.getheader("location")
    if response.status not in {302, 303} or location is None:
        raise AssertionError(f"not sent back: HTTP {response.status} {body[:500]!r}")
    if urlsplit(url).path.startswith(OPENING_PATH):
        return consent(location, person)
    return location


def fetch(url: str) -> tuple[int, str]:
    """The status and text of a page."""
    response, body = _get(url, "")
    return response.status, body.decode()


def browse(url: str, person: str) -> None:
    """Agree, and go back to the callback as soon as somebody listens there."""
    back = consent(url, person)
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        with suppress(ConnectionRefusedError):
            fetch(back)
            return
        time.sleep(0.05)


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(quiet, stream)
        browse(sys.argv[2], sys.argv[1])
