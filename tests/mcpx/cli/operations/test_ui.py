"""`mcpx ui`, with a real daemon: the address, the browser, and a daemon that ends while the page is open."""

import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.mcpx.core.daemon.conftest import house
from tests.mcpx.serving import run_cli

__all__ = ["house"]
SERVERS = {"s": {"command": "true", "disabled": True}}


def opened(url):
    """The origin and the cookie that an address leads to."""
    with urlopen(url, timeout=50) as answer:
        return url.partition("/ui/")[0], answer.headers["set-cookie"].split(";")[0]


def status(url, cookie=None):
    try:
        with urlopen(Request(url, headers={"Cookie": cookie} if cookie else {}), timeout=50) as answer:
            return answer.status
    except HTTPError as error:
        with error:
            return error.code


def test_print_gives_the_address_alone_and_a_daemon_is_started_for_it(house):
    house.write(SERVERS)
    done = house.run("ui", "--print")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    assert done.stderr == f"no daemon ran; one is started, serving {house.config}\n"
    origin, cookie = opened(done.stdout.strip())
    assert status(f"{origin}/ui/", cookie) == 200
    assert status(f"{origin}/ui/") == 401
    assert status(done.stdout.strip()) == 401
    again = house.run("ui", "--print")
    assert (again.stdout.partition("=")[0], again.stderr) == (done.stdout.partition("=")[0], "")
    with urlopen(
        Request(f"{origin}/ui/api/events?topic=none", headers={"Cookie": cookie}), timeout=50
    ) as stream:
        assert stream.readline() == b"event: daemon\n"
        while stream.readline() != b"event: failed\n":
            pass
        began = time.monotonic()
        assert house.run("daemon", "stop").returncode == 0
        assert time.monotonic() - began < 5.0
        stream.read()  # to its end in order; else IncompleteRead
    assert [line for line in house.log() if line["level"] in {"error", "critical"}] == []


def test_the_browser_of_the_environment_gets_the_address(house):
    house.write(SERVERS)
    seen = house.folder / "seen"
    browser = house.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o700)
    done = run_cli(house.folder, "ui", "--config", house.config, BROWSER=f"{browser} %s")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == "the page opens in your browser; if it does not: mcpx ui --print"
    deadline = time.monotonic() + 20
    while not seen.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    origin, cookie = opened(seen.read_text().strip())
    assert status(f"{origin}/ui/", cookie) == 200


def test_without_a_browser_it_says_how_to_get_there(house):
    house.write(SERVERS)
    gone = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}
    done = run_cli(house.folder, "ui", "--config", house.config, **gone)
    assert done.returncode == 0
    port = done.stdout.split(":")[2].partition("/")[0]
    assert "there is no browser here; open this address, once, on this computer:\n" in done.stderr
    assert f"ssh -L {port}:127.0.0.1:{port} " in done.stderr
    assert opened(done.stdout.strip())


@pytest.mark.parametrize("http", [None, {"port": 0}])
def test_where_it_is_turned_off_the_command_says_so(house, http):
    house.write(SERVERS, ui=False, **({} if http is None else {"http": http}))
    for runs in (False, True):
        done = house.run("ui", "--print")
        assert (done.returncode, done.stdout) == (1, "")
        assert 'the page is off: take "ui": false out of ' in done.stderr
        assert (house.pid is not None) == runs
        assert house.run("daemon", "start").returncode == 0


def test_a_configuration_that_cannot_be_used_is_named_and_nothing_is_started(house):
    (house.folder / "config.json").write_text('{"mcpServers": {}, "ui": 1}')
    done = house.run("ui", "--print")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "ui" in done.stderr
    assert house.pid is None
