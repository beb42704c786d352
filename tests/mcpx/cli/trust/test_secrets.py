"""`mcpx token` and `mcpx secret list`: what they print, what is kept, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from mcpx.cli.known_names import complete_token
from mcpx.cli.main import cli
from mcpx.core.policy.tokens import NamedTokens, digest_of, issue, load_named
from tests.mcpx.core.daemon.conftest import house
from tests.mcpx.scripted import entry
from tests.mcpx.serving import write_config

__all__ = ["house"]


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    servers = {"a": {"command": "x"}}
    monkeypatch.setenv("MCPX_CONFIG", write_config(tmp_path, servers, profiles={"work": {"servers": ["a"]}}))


def run(*arguments):
    return CliRunner().invoke(cli, ["token", *arguments])


def test_what_is_printed_is_the_token_and_nothing_else():
    done = run("new", "ci")
    assert done.exit_code == 0, done.output
    secret = done.stdout.rstrip("\n")
    assert NamedTokens().find(secret, datetime.now(UTC)).name == "ci"
    assert done.stderr == "ci shows everything, until it is revoked; it is not shown again\n"
    assert secret not in run("list").output + run("list", "--json").output


def test_a_token_with_a_profile_and_an_end():
    made = json.loads(run("new", "ci", "--profile", "work", "--expires", "30d", "--json").stdout)
    (token,) = load_named()
    assert digest_of(made.pop("token")) == token.sha256
    assert token.expires - token.created == timedelta(days=30)
    assert made == json.loads(run("list", "--json").stdout)["tokens"][0]
    assert (made["profile"], made["expired"]) == ("work", False)
    assert "profile work" in run("list").stdout


@pytest.mark.parametrize(("given", "seconds"), [("30s", 30), ("90m", 5400), ("12h", 43200), ("4w", 2419200)])
def test_times_are_of_several_units(given, seconds):
    assert run("new", "ci", "--expires", given).exit_code == 0
    (token,) = load_named()
    assert (token.expires - token.created).total_seconds() == seconds


@pytest.mark.parametrize("given", ["", "0d", "30", "d", "1y", "-1d", "1.5h", "999999d", "30d "])
def test_a_time_that_is_none_is_refused(given):
    done = run("new", "ci", "--expires", given)
    assert (done.exit_code, "is no time such as 90m, 12h, 30d or 4w" in done.stderr) == (2, True)
    assert load_named() == ()


def test_a_profile_that_is_not_configured_is_refused():
    done = run("new", "ci", "--profile", "wrok")
    assert (done.exit_code, done.stderr) == (1, 'mcpx: there is no profile "wrok"; did you mean "work"?\n')
    assert load_named() == ()


def test_an_expired_one_is_listed_as_such_and_can_be_made_again():
    past = datetime(2020, 1, 1, tzinfo=UTC)
    issue("ci", profile=None, expires=past + timedelta(days=1), now=past)
    assert "expired 2020-01-0" in run("list").stdout
    assert json.loads(run("list", "--json").stdout)["tokens"][0]["expired"] is True
    assert run("new", "ci").exit_code == 0
    assert run("new", "ci").stderr.startswith("mcpx: there is a token ci already; choose another name")


def test_names_are_completed():
    for name in ("ci", "cat", "other"):
        run("new", name)
    assert [item.value for item in complete_token(None, None, "c")] == ["ci", "cat"]


def test_one_is_revoked():
    assert run("revoke", "ci").stderr == "mcpx: there is no token ci; none was made: mcpx token list\n"
    run("new", "ci")
    run("new", "other")
    assert run("revoke", "ci").stdout == "revoked ci; the sessions of its clients end\n"
    assert json.loads(run("revoke", "other", "--json").stdout) == {"revoked": "other"}
    done = run("list")
    assert (done.stdout, done.stderr) == ("", "no token was made; begin with: mcpx token new NAME\n")


# --- secrets


def secrets_listed(*arguments):
    return CliRunner().invoke(cli, ["secret", "list", *arguments])


VALUES = {
    "a": {"command": "x", "env": {"T": "${cmd:echo hidden-argument}", "U": "${keychain:NAME}"}},
    "b": {"url": "https://b.example", "headers": {"X": "plain"}},
    "c": {"command": "x", "env_file": ["one.env", "two.env"]},
    "off": {"command": "x", "env": {"T": "${cmd:other}"}, "disabled": True},
}


def test_the_values_that_servers_fetch_are_named_without_a_daemon_too(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_CONFIG", write_config(tmp_path, VALUES))
    said = json.loads(secrets_listed("--json").stdout)["values"]
    shown = [(each["server"], each["value"]) for each in said]
    assert shown == [
        ("a", "${cmd:echo ...}"),
        ("a", "${keychain:NAME}"),
        ("c", "env_file one.env"),
        ("c", "env_file two.env"),
    ]
    told = secrets_listed().stdout
    assert "hidden" not in told
    assert told.count("not by a daemon") == 4


def test_how_old_they_are_is_said_by_the_daemon(house):
    house.write({"s": entry() | {"env": {"T": "${cmd:echo value}"}}, "plain": entry()}, login_shell=False)
    assert house.run("daemon", "start").returncode == 0
    (value,) = json.loads(house.run("secret", "list", "--json").stdout)["values"]
    assert (value["server"], value["value"]) == ("s", "${cmd:echo ...}")
    assert 0 <= value["fetched_s"] <= 60 and value["fetched_s"] == value["changed_s"]
    row = house.run("secret", "list").stdout.splitlines()[-1].split()
    assert row[0] == "s" and row.count("ago") == 2
