"""`mcpx login` and `mcpx logout` as processes, through a daemon and alone, with a scripted issuer."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from urllib.parse import parse_qsl, urlsplit

import pytest

from mcpx.cli.operations.ui import has_browser
from tests.forking.client import Python
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.oauth.scripted_browser import fetch
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.test_names_of_accounts import id_token
from tests.mcpx.serving import environment, run_cli
from tests.mcpx.terminal import CTRL_C, Terminal
from tests.ports import free_port

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S*authorize\S*")


class Home(House):
    """A house whose servers want a sign-in."""

    def start(self, *, daemon, names=("notes",), **settings):
        servers = {name: {"type": "http", "url": self.issuer.mcp_url} for name in names}
        self.port = free_port()
        self.write(servers, login_port=self.port, **settings)
        if daemon:
            assert self.run("daemon", "start").returncode == 0

    def login(self, *words, person="alice", **more):
        """`mcpx login` with a browser that agrees."""
        browser = self.issuer.browser_command(person=person)
        return run_cli(self.folder, "login", *words, "--config", self.config, BROWSER=browser, **more)

    @contextmanager
    def waiting(self, *words, stdin=subprocess.DEVNULL):
        """`mcpx login --no-browser`, once it has printed the address; with that address."""
        command = [sys.executable, "-m", "mcpx", "login", *words, "--no-browser", "--config", self.config]
        pipe = subprocess.PIPE
        with Python(command, env=environment(self.folder), stdin=stdin, stdout=pipe, stderr=pipe) as process:
            try:
                yield process, process.stdout.readline().decode().strip()
            finally:
                if process.poll() is None:
                    process.kill()

    def records(self):
        return [json.loads(path.read_text()) for path in (self.folder / "state" / "oauth").glob("*.json")]

    def calls(self, *names):
        """What a call to each server comes to."""
        return [self.run("exec", name, "whoami").stdout.strip() for name in names]


@pytest.fixture
def issuer():
    with scripted_issuer() as made:
        yield made


@pytest.fixture
def home(issuer):
    with Home.opened() as made:
        made.issuer = issuer
        yield made


ways = pytest.mark.parametrize("daemon", [False, True], ids=["alone", "daemon"])


@ways
def test_a_person_signs_in_once_and_out(home, issuer, daemon):
    home.start(daemon=daemon)
    done = home.login("notes")
    assert done.returncode == 0, done
    assert LINK.search(done.stdout)
    assert "signed in to notes" in done.stdout
    assert "alice" in home.calls("notes")[0]
    assert issuer.asked == 1
    assert not issuer.leaked_in(home.folder)
    done = home.run("logout", "notes")
    assert (done.returncode, done.stdout) == (0, "signed out of notes\n")
    assert len(issuer.seen("revoke")) == 2
    assert not home.records()
    assert not issuer.holding(home.folder)
    assert "you were not signed in to notes" in home.run("logout", "notes").stdout
    refused = home.run("exec", "notes", "whoami")
    assert refused.returncode == 1
    assert issuer.calls == ["whoami"]


def listed_processes():
    """What another user of the computer sees in the list of processes."""
    look = ["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline"]
    seen = subprocess.run(look, user=NOBODY, capture_output=True, check=False)
    return seen.stdout.decode(errors="replace")


@contextmanager
def another_user():
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.linux("whose sockets are (sock_diag)")
@needs_root
@ways
def test_another_user_sees_no_state_and_finishes_no_sign_in(home, issuer, daemon):
    home.start(daemon=daemon)
    (wait := home.folder / "go").touch()
    browser = home.folder / "browser"
    agree = issuer.browser_command().replace("%s", '"$1"')
    browser.write_text(f"#!/bin/sh\nwhile [ -e {wait} ]; do sleep 0.05; done\nexec {agree}\n")
    browser.chmod(0o755)
    command = [sys.executable, "-m", "mcpx", "login", "notes", "--config", str(home.config)]
    env = environment(home.folder) | {"BROWSER": f"{browser} %s"}
    pipe = subprocess.PIPE
    with Python(command, env=env, stdout=pipe, stderr=pipe) as process, ExitStack() as stack:
        stack.callback(process.kill)
        link = process.stdout.readline().decode().strip()
        state = dict(parse_qsl(urlsplit(link).query))["state"]
        listed = ""
        while f":{home.port}/sign-in/" not in listed:
            listed = listed_processes()
        assert state not in listed
        back = issuer.consent(link, person="mallory")
        with another_user():
            status, page = fetch(back)
        assert (status, state in page) == (403, False)
        assert process.poll() is None
        wait.unlink()
        assert process.wait(30) == 0, process.stderr.read()
    assert "alice" in home.calls("notes")[0]


@ways
def test_the_account_is_named_where_the_server_tells_it_and_stays_named(home, issuer, daemon):
    issuer.token_answer = {"id_token": id_token(b'{"preferred_username": "alice@x.example"}')}
    home.start(daemon=daemon)
    assert "signed in to notes as alice@x.example" in home.login("notes").stdout
    home.calls("notes")
    home.run("daemon", "stop")
    home.run("daemon", "start")
    assert home.calls("notes")
    (server,) = json.loads(home.run("status", "--json").stdout)["servers"]
    assert server["sign_in"]["account"] == "alice@x.example"
    assert "signed in as alice@x.example" in home.run("status").stdout
    issuer.token_answer = {}
    result = json.loads(home.login("notes", "--json").stdout.splitlines()[-1])
    assert (result["signed_in"], "account" in result) == (True, False)


@ways
def test_where_the_token_goes_to_another_host_it_is_said_before(home, issuer, daemon):
    with scripted_issuer(discovery="none") as second:
        second.grants = issuer.grants
        issuer.metadata = {"authorization_endpoint": f"{second.issuer}/authorize"}
        home.start(daemon=daemon)
        done = home.login("notes")
        agree, token = (each.issuer.removeprefix("http://") for each in (second, issuer))
        assert f"you agree at {agree}; {token} gets the token" in done.stderr
        assert done.returncode == 0, done


@ways
def test_programs_get_a_line_with_the_address_and_one_at_the_end(home, issuer, daemon):
    home.start(daemon=daemon)
    done = home.login("notes", "--json", "--scopes", "read write")
    assert done.returncode == 0, done
    link, result = map(json.loads, done.stdout.splitlines())
    assert set(link) == {"server", "url", "redirect_uri"}
    assert LINK.fullmatch(link["url"])
    assert link["redirect_uri"] == f"http://127.0.0.1:{home.port}/callback"
    assert (result["server"], result["signed_in"], result["scopes"]) == ("notes", True, ["read", "write"])
    assert result["expires_at"].endswith("+00:00")
    assert json.loads(home.run("logout", "notes", "--json").stdout) == {"server": "notes", "signed_out": True}


@ways
def test_a_sign_in_that_fails_is_said_and_typed(home, issuer, daemon):
    home.start(daemon=daemon)
    issuer.options.consent = "deny"
    done = home.login("notes", "--json")
    assert done.returncode == 1
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["server"], end["problem"]) == ("notes", "denied")
    done = home.login("notes")
    assert (done.returncode, done.stderr.count("mcpx: ")) == (1, 1)
    assert not [each for each in home.records() if each.get("tokens")]


@ways
def test_the_address_that_the_browser_ends_at_can_be_given_back(home, issuer, daemon):
    home.start(daemon=daemon)
    with home.waiting("notes", stdin=subprocess.PIPE) as (process, link):
        out, error = process.communicate(issuer.consent(link).encode() + b"\n", timeout=50)
    assert process.returncode == 0, error
    assert b"signed in to notes" in out


@ways
def test_what_cannot_be_that_address_ends_a_program(home, issuer, daemon):
    home.start(daemon=daemon)
    with home.waiting("notes", stdin=subprocess.PIPE) as (process, link):
        other = issuer.consent(link).replace("state=", "state=x")
        out, error = process.communicate(other.encode(), timeout=50)
    assert process.returncode == 1
    assert b"belongs to another sign-in" in error
    assert out == b""


@ways
def test_without_a_browser_and_without_input_it_waits_for_the_browser_elsewhere(home, issuer, daemon):
    home.start(daemon=daemon)
    with home.waiting("notes") as (process, link):
        assert issuer.browse(link)[0] == 200
        assert process.wait(30) == 0


@ways
def test_at_a_terminal_junk_is_asked_about_again_and_an_address_may_be_long(home, issuer, daemon):
    home.start(daemon=daemon)
    words = ("-m", "mcpx", "login", "notes", "--no-browser", "--config", home.config)
    with Terminal(*words, env=environment(home.folder), columns=400) as terminal:
        terminal.wait_for("address: ")
        link = LINK.search(terminal.written).group(0)
        at = terminal.wait_for("address: ", after=0)
        terminal.type("junkk\x7f\n")
        at = terminal.wait_for("that is not the address", after=at)
        terminal.wait_for("address: ", after=at)
        terminal.type(issuer.consent(link) + "&more=" + "m" * 6000 + "\n")
        assert terminal.end() == 0, terminal.written
    assert "signed in to notes" in terminal.written
    assert terminal.written.count("address: ") == 2


@ways
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_a_sign_in_that_is_broken_off_leaves_nothing(home, issuer, daemon, number, code):
    home.start(daemon=daemon)
    with home.waiting("notes") as (process, link):
        os.kill(process.pid, number)
        assert process.wait(30) == code
    if daemon:
        assert home.run("login", "notes", "--timeout", "1", "--no-browser").returncode == 1
    with pytest.raises(OSError):
        issuer.browse(link)
    assert not [each for each in home.records() if each.get("tokens")]
    done = home.login("notes")
    assert done.returncode == 0, done


@ways
def test_the_end_of_input_at_a_terminal_leaves_the_browser(home, issuer, daemon):
    home.start(daemon=daemon)
    words = ("-m", "mcpx", "login", "notes", "--no-browser", "--config", home.config)
    with Terminal(*words, env=environment(home.folder), columns=400) as terminal:
        terminal.wait_for("address: ")
        terminal.type("\x04")
        terminal.wait_for("waiting for the browser")
        assert issuer.browse(LINK.search(terminal.written).group(0))[0] == 200
        assert terminal.end() == 0, terminal.written
    assert terminal.written.count("address: ") == 1


def test_ctrl_c_at_a_terminal_gives_it_back_as_it_was(home, issuer):
    home.start(daemon=False)
    words = ("-m", "mcpx", "login", "notes", "--no-browser", "--config", home.config)
    with Terminal(*words, env=environment(home.folder)) as terminal:
        terminal.wait_for("address: ")
        terminal.type(CTRL_C)
        assert terminal.end() == 130


@ways
def test_time_is_bounded(home, issuer, daemon):
    home.start(daemon=daemon)
    done = home.run("login", "notes", "--no-browser", "--timeout", "1")
    assert done.returncode == 1
    assert "nobody has signed in to notes within 1 s" in done.stderr


@ways
def test_all_that_need_it_are_signed_in_to_one_after_the_other(home, issuer, daemon):
    home.start(daemon=daemon, names=("one", "two"))
    done = home.login("--all")
    assert done.returncode == 0, done
    results = [line for line in done.stdout.splitlines() if "signed in" in line]
    assert [line.split()[3].rstrip(":") for line in results] == ["one", "two"]
    assert issuer.asked == 2
    done = home.login("--all")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no server needs a sign-in" in done.stderr
    done = home.run("logout", "--all")
    assert done.stdout == "signed out of one\nsigned out of two\n"
    assert not home.records()


@ways
def test_one_that_fails_does_not_stop_the_rest(home, issuer, daemon):
    home.start(daemon=daemon, names=("one", "two"))
    issuer.faults["token:authorization_code"] = Fault(status=400, times=1)
    done = home.login("--all")
    assert done.returncode == 1
    assert "signed in to two" in done.stdout
    assert "signed in to one" not in done.stdout


@ways
def test_a_daemon_that_was_signed_in_without_it_is_asked_for_nothing(home, issuer, daemon):
    home.start(daemon=False)
    assert home.login("notes").returncode == 0
    if daemon:
        assert home.run("daemon", "start").returncode == 0
    assert "alice" in home.calls("notes")[0]
    assert issuer.asked == 1


@ways
def test_names_that_cannot_be_signed_in_to_are_refused(home, issuer, daemon):
    servers = {
        "prog": {"command": "true", "disabled": False},
        "open": {"type": "http", "url": issuer.mcp_url, "auth": False},
        "header": {"type": "http", "url": issuer.mcp_url, "headers": {"Authorization": "Bearer x"}},
        "off": {"type": "http", "url": issuer.mcp_url, "disabled": True},
    }
    home.write(servers, login_port=free_port())
    if daemon:
        assert home.run("daemon", "start").returncode == 0
    said = {name: home.login(name) for name in (*servers, "opne")}
    assert {done.returncode for done in said.values()} == {1}
    assert "a program on this computer" in said["prog"].stderr
    assert '"auth": false' in said["open"].stderr
    assert "has a header Authorization" in said["header"].stderr
    assert "disabled" in said["off"].stderr
    assert "did you mean open?" in said["opne"].stderr.lower()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a", "--all"),
        ("--all", "--scopes", "x"),
        ("a", "--timeout", "0"),
        ("a", "b"),
        ("a", "--nothing"),
        ("a", "--scopes", "x \x1b[31m"),
    ],
    ids=str,
)
def test_wrong_words_are_usage(home, issuer, words):
    home.start(daemon=False)
    assert home.login(*words).returncode == 2


def test_a_daemon_that_stops_ends_it_at_once(home):
    home.start(daemon=True, shutdown_grace=50)
    with home.waiting("notes") as (process, _):
        assert home.run("daemon", "stop").returncode == 0
        _, error = process.communicate(timeout=50)
    assert process.returncode == 1
    assert b"cancelled: MCPX ends" in error


def test_a_token_that_the_server_refuses_all_the_same_is_said(home, issuer):
    home.start(daemon=True)
    issuer.faults["token:authorization_code"] = Fault(200, {"access_token": "x", "token_type": "Bearer"})
    done = home.login("notes")
    assert done.returncode == 1
    assert "signed in to notes, but that does not suffice: the server refuses its token" in done.stdout


def test_a_lost_daemon_ends_it(home, issuer):
    home.start(daemon=True)
    with home.waiting("notes") as (process, _):
        os.kill(home.pid, signal.SIGKILL)
        _, error = process.communicate(timeout=50)
    assert process.returncode == 1
    assert b"the daemon went away" in error


def test_a_second_login_joins_the_first(home, issuer):
    home.start(daemon=True)
    with home.waiting("notes") as (first, link), home.waiting("notes") as (second, same):
        assert link == same
        with home.waiting("notes", "--scopes", "write") as (third, other):
            assert other != link
            assert [first.wait(30), second.wait(30)] == [1, 1]
            assert b"was cancelled" in first.stderr.read()
            issuer.browse(other)
            assert third.wait(30) == 0


def test_adding_a_server_that_wants_a_sign_in_says_how(home, issuer):
    home.start(daemon=True, names=())
    done = home.run("add", "notes", issuer.mcp_url, "--yes")
    assert done.returncode == 0, done
    assert f"notes wants you to sign in: mcpx login notes --config {home.config}" in done.stdout


@pytest.mark.parametrize(
    ("environ", "platform", "there"),
    [
        ({}, "linux", False),
        ({"SSH_CONNECTION": "x"}, "linux", False),
        ({"BROWSER": "x"}, "linux", True),
        ({"BROWSER": "x", "SSH_CONNECTION": "x"}, "darwin", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "x"}, "darwin", False),
    ],
)
def test_a_browser_opens_only_where_the_person_sees_it(environ, platform, there):
    assert has_browser(environ, platform) is there
