"""Which variables servers are given: the stated ones, those that are named, and never a key by accident."""

from __future__ import annotations

import os
import sys

import pytest
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

from mcpx.core.running import ClientVariables, Environment
from mcpx.core.running.inherited import chosen, is_key, without_password
from mcpx.core.system.environment import BASIC, GROUPS, LOGINS, UNASKED, environment_of_client, loads_code

EVERYTHING = {name: f"value of {name}" for name in UNASKED}
FOREIGN = {
    "GITHUB_TOKEN": "t",
    "MY_API_KEY": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "PGPASSWORD": "p",
    "NPM_CONFIG__AUTH": "a",
    "LD_PRELOAD": "/x.so",
    "NODE_OPTIONS": "--require /x.js",
    "MCPX_STATE_DIR": "/s",
    "MINE": "m",
    "MY_HOST": "h",
    "DATABASE_URL": "postgres://me:pw@db/x",
}


def test_every_server_is_given_exactly_the_stated_variables():
    assert chosen(EVERYTHING | FOREIGN) == EVERYTHING
    assert chosen({"PATH": "/p", "SHELL": "() { :; }", "LANG": "C"}) == {"PATH": "/p", "LANG": "C"}


def test_no_stated_variable_is_a_key_by_its_name_or_loads_code():
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE")
    assert not [name for name in UNASKED if any(word in name.upper() for word in words) or loads_code(name)]
    assert set(BASIC) == set(DEFAULT_INHERITED_ENV_VARS)
    assert len(UNASKED) == sum(len(group.names) for group in GROUPS)  # each stands once


@pytest.mark.parametrize(
    ("inherit", "more"),
    [
        ("all", {"MINE", "MY_HOST"}),
        (("all",), {"MINE", "MY_HOST"}),
        (("MY_*",), {"MY_HOST"}),
        (("MY_*", "MY_API_KEY", "NODE_OPTIONS"), {"MY_HOST", "MY_API_KEY", "NODE_OPTIONS"}),
        (("MCPX_STATE_DIR", "DATABASE_URL", "UNSET"), {"MCPX_STATE_DIR", "DATABASE_URL"}),
        (("*_KEY", "*TOKEN*", "LD_*", "MCPX_*", "*_URL"), set()),
    ],
)
def test_a_pattern_adds_what_is_no_key_and_a_name_adds_whatever_it_names(inherit, more):
    assert set(chosen(EVERYTHING | FOREIGN, inherit)) == set(EVERYTHING) | more


def test_none_leaves_what_few_programs_run_without_and_what_is_named_beside_it():
    assert set(chosen(EVERYTHING | FOREIGN, "none")) == set(BASIC)
    assert set(chosen(EVERYTHING | FOREIGN, ("none", "LANG", "MINE"))) == {*BASIC, "LANG", "MINE"}


def test_keys_are_known_by_any_part_of_their_names_and_passwords_by_their_urls():
    keys = (
        "GH_TOKEN",
        "KEY",
        "my_secret_x",
        "DbPassword",
        "X_CREDENTIALS",
        "NPM_AUTH",
        "GH_PAT",
        "MYSQL_PWD",
        "DB_PASS",
    )
    assert all(map(is_key, keys))
    assert not any(
        map(is_key, ("SSH_AUTH_SOCK", "XAUTHORITY", "HTTPS_PROXY", "MY_HOST", "MY_PATH", "OLDPWD"))
    )
    assert without_password("http://u:p@proxy:3128/") == "http://***@proxy:3128/"
    assert without_password("a=https://token@h/x,b=http://h2/@") == "a=https://***@h/x,b=http://h2/@"
    assert without_password("/tmp/a@b:c") == "/tmp/a@b:c"


def test_what_is_shown_has_no_key_and_no_password():
    environment = Environment({"HTTPS_PROXY": "http://u:p@proxy", "MY_TOKEN": "t", "LANG": "C"})
    shown = environment.inherited(("MY_TOKEN",)).shown()
    assert {each["name"]: each["value"] for each in shown} == {
        "HTTPS_PROXY": "http://***@proxy",
        "LANG": "C",
        "MY_TOKEN": "***",
    }


def test_an_entrys_own_variable_counts_in_any_letters():
    environment = Environment({"https_proxy": "http://a", "HTTPS_PROXY": "http://b", "LANG": "C"})
    assert environment.inherited((), {"HTTPS_PROXY": "http://own"}).variables == {"LANG": "C"}


def test_a_client_says_what_is_text_and_stated_and_not_endless():
    odd = os.fsdecode(b"/caf\xe9")
    said = environment_of_client({"LANG": "C", "TZ": odd, "NO_PROXY": "x" * 99_999, "MINE": "1"})
    assert said == {"LANG": "C"}


# --- clients

OWN = {"PATH": "/p", "LANG": "C", "DISPLAY": ":9", "XAUTHORITY": "/old"}


def seen(clients: ClientVariables) -> dict[str, str]:
    return Environment(OWN).with_clients(clients).inherited().variables


def test_the_rest_is_of_the_clients_that_are_attached_or_the_last_that_was():
    clients = ClientVariables()
    first = clients.attach({"LANG": "de", "TZ": "UTC", "HTTPS_PROXY": "http://a", "MINE": "1", "TMP": "a\0"})
    assert seen(clients) == OWN | {"TZ": "UTC", "HTTPS_PROXY": "http://a"}
    second = clients.attach({"HTTPS_PROXY": "http://b"})
    assert seen(clients)["HTTPS_PROXY"] == "http://b"
    clients.leave(second)
    assert seen(clients)["HTTPS_PROXY"] == "http://a"
    clients.leave(first)
    assert seen(clients) == OWN | {"TZ": "UTC", "HTTPS_PROXY": "http://a"}
    clients.attach({})
    assert seen(clients) == OWN


def test_a_login_is_that_of_the_client_that_attached_last_and_is_there_and_is_taken_whole():
    clients = ClientVariables()
    first = clients.attach({"DISPLAY": ":1", "XAUTHORITY": "/a", "SSH_AUTH_SOCK": "/agent1"})
    second = clients.attach({"WAYLAND_DISPLAY": "wayland-1"})
    assert seen(clients) == {
        "PATH": "/p",
        "LANG": "C",
        "WAYLAND_DISPLAY": "wayland-1",  # and neither DISPLAY nor XAUTHORITY of another login
        "SSH_AUTH_SOCK": "/agent1",
    }
    clients.attach({"SSH_AUTH_SOCK": "/agent3", "XDG_SESSION_TYPE": "tty"})  # by ssh: it has no display
    assert (seen(clients)["WAYLAND_DISPLAY"], seen(clients)["SSH_AUTH_SOCK"]) == ("wayland-1", "/agent3")
    clients.leave(second)
    assert seen(clients)["DISPLAY"] == ":1"
    clients.leave(first)
    assert seen(clients)["DISPLAY"] == ":1"  # nobody is there who knows better


def test_of_clients_that_say_the_same_the_last_that_is_there_counts():
    clients = ClientVariables()
    clients.attach({"DISPLAY": ":1", "TZ": "UTC"})
    clients.attach({"DISPLAY": ":2", "TZ": "CET"})
    third = clients.attach({"DISPLAY": ":1", "TZ": "UTC"})
    assert (seen(clients)["DISPLAY"], seen(clients)["TZ"]) == (":1", "UTC")
    clients.leave(third)
    assert (seen(clients)["DISPLAY"], seen(clients)["TZ"]) == (":2", "CET")


def test_no_client_that_comes_or_leaves_has_all_others_looked_at(monkeypatch):
    module = sys.modules[ClientVariables.__module__]
    looks, has = [], module._has
    monkeypatch.setattr(module, "_has", lambda *asked: looks.append(asked) or has(*asked))
    clients = ClientVariables()
    numbers = [clients.attach({"DISPLAY": ":1"}) for _ in range(200)]
    for number in numbers:
        clients.leave(number)
    assert len(looks) <= 2 * len(numbers) * len(LOGINS)


def test_a_login_is_gone_when_no_client_has_it():
    clients = ClientVariables()
    first = clients.attach({"DISPLAY": ":1"})
    given = seen(clients)
    clients.attach({"DISPLAY": ":2"})
    assert not clients.are_gone(given)
    clients.leave(first)
    assert clients.are_gone(given)
    assert not clients.are_gone(seen(clients))


def test_the_source_of_each_is_known():
    clients = ClientVariables()
    clients.attach({"DISPLAY": ":1", "TZ": "UTC", "LANG": "C"})
    environment = Environment(OWN, shell="/bin/sh", of_shell={"PATH"}).with_clients(clients)
    assert environment.inherited().sources == {
        "PATH": "the login shell /bin/sh",
        "LANG": "the program that started MCPX",
        "TZ": "the client that attached last",
        "DISPLAY": "the client that attached last",
    }
