"""Secrets of a configuration are known by their names, and taken out of texts."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.config import Redactor, parse, redaction, redactor_of
from mcpx.core.config.redaction import MIN_SECRET_LEN, named_secrets_of

TOKEN = "tok/en+5ecret=="


def redactor(entry, **environ):
    config = parse(
        json.dumps({"mcpServers": {"s": entry}}), where="c", environ={"HOME": "/home/me", **environ}
    )
    return redactor_of(config.servers["s"])


@pytest.mark.parametrize(
    ("entry", "said", "shown"),
    [
        ({"command": "x", "env": {"KEY": TOKEN}}, f"bad {TOKEN}!", "bad ***KEY***!"),
        ({"command": "x", "env": {"KEY": "${T}"}}, f"bad {TOKEN}!", "bad ***T***!"),
        ({"command": "x", "env": {"URL": "db://u:${T}@h"}}, f"db://u:{TOKEN}@h", "***URL***"),
        ({"command": "x", "env": {"URL": "db://u:${T}@h"}}, f"password {TOKEN}", "password ***T***"),
        ({"command": "x", "env": {"URL": "db://u:pass-word@h"}}, "no pass-word", "no ***URL***"),
        ({"command": "x", "args": ["--key=${T}"]}, f"--key={TOKEN}", "--key=***T***"),
        ({"command": "${T}/run"}, f"{TOKEN}/run", "***T***/run"),
        ({"command": "x", "cwd": "/at/${env:T}"}, f"/at/{TOKEN}", "/at/***T***"),
        ({"command": "x", "args": ["${NO:-${T}}"]}, TOKEN, "***T***"),
        ({"url": "http://h/?k=${T}"}, f"k={TOKEN}", "k=***T***"),
        (
            {"url": "https://h", "auth": {"client_id": "i", "client_secret": TOKEN}},
            f"s={quote(TOKEN)}",
            "s=***client_secret***",
        ),
        ({"url": "http://h/?k=longenough"}, "k=longenough", "k=***url***"),
        ({"url": "http://u:pass%2Dword@h/"}, "pass%2Dword, pass-word", "***url***, ***url***"),
        ({"url": "http://h", "headers": {"X-Key": TOKEN}}, TOKEN, "***X-Key***"),
        ({"url": "http://h", "headers": {"Authorization": f"Bearer {TOKEN}"}}, TOKEN, "***Authorization***"),
        (
            {"url": "http://h", "headers": {"Authorization": "Bearer ${T}"}},
            f"Bearer {TOKEN}",
            "Bearer ***T***",
        ),
        ({"url": "http://h", "headers": {"A": "Basic dXNlcjpwYXNzLXdvcmQ="}}, "no pass-word", "no ***A***"),
        ({"command": "x", "env": {"PEM": "-- begin\nMIIEvQIBAD\n-- end of"}}, "MIIEvQIBAD", "***PEM***"),
        ({"command": "x", "env": {"KEY": "a" * 7}}, "a" * 7, "a" * 7),
        ({"command": "x", "env": {"HOME": "/elsewhere"}}, "/elsewhere", "/elsewhere"),
        ({"command": "x", "args": ["${HOME}"]}, "/home/me", "/home/me"),
        ({"url": "http://h", "headers": {"Accept": "text/html"}}, "text/html", "text/html"),
        ({"command": "x", "args": ["plainly"]}, "plainly", "plainly"),
    ],
)
def test_a_secret_is_replaced_by_its_name(entry, said, shown):
    assert redactor(entry, T=TOKEN)(said) == shown


NAMED = {
    "GITHUB_TOKEN": "ghp_0123456789",
    "apiKey": "k-012345678",
    "DB_PASSWORD": "12345678",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
    "SIGNING_KEYS": "one-and-two",
}
ORDINARY = {
    "KEY_FILE": "/home/me/.ssh/id",
    "PRIVATE_KEY": "~/keys/private.pem",
    "TOKEN_URL": "https://login.example.com/token",
    "SECRET_HOST": "vault.example.com:8200",
    "ACCESS_KEY_ID": "AKIAIOSFODNN7",
    "API_KEY": "vault.example.com",
    "KEYBOARD": "qwerty-us",
    "MODE": "production",
    "DEBUG_TOKEN": "true",
}


def test_in_what_a_server_says_itself_only_named_secrets_are_taken_out():
    url = {"DATABASE_URL": "db://user:pass-word@db.example.com/production"}
    config = parse(
        json.dumps({"mcpServers": {"s": {"command": "x", "env": NAMED | ORDINARY | url}}}),
        where="c",
        environ={},
    )
    redact = Redactor(named_secrets_of(config.servers["s"]))
    said = {**NAMED, **ORDINARY, **url}
    shown = redact.data(said)
    assert {name: value for name, value in shown.items() if name in NAMED} == {
        name: f"***{name}***" for name in NAMED
    }
    assert {name: value for name, value in shown.items() if name in ORDINARY} == ORDINARY
    assert shown["DATABASE_URL"] == "db://user:***DATABASE_URL***@db.example.com/production"


def test_headers_are_named_too():
    entry = {
        "url": "https://h/?region=eu-central",
        "headers": {"Authorization": "Bearer ${T}", "X-Api-Key": "0123456789", "X-Region": "eu-central-1"},
    }
    config = parse(json.dumps({"mcpServers": {"s": entry}}), where="c", environ={"T": TOKEN})
    redact = Redactor(named_secrets_of(config.servers["s"]))
    said = f"{TOKEN} 0123456789 eu-central-1 eu-central"
    assert redact(said) == "***Authorization*** ***X-Api-Key*** eu-central-1 eu-central"


@pytest.mark.parametrize(
    "form",
    [
        json.dumps,
        repr,
        lambda value: quote(value, safe=""),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    ],
)
def test_so_is_one_that_is_written_in_another_way(form):
    value = 'se"cret\\ pass wörd'
    shown = Redactor([("K", value)])(f"<{form(value)}>")
    assert "***K***" in shown
    assert "secret" not in shown
    assert form(value).strip("'\"=") not in shown


def test_of_two_the_longer_is_replaced_first():
    assert Redactor([("A", "password"), ("B", "password-2")])("password-2, password") == "***B***, ***A***"


@given(
    st.text(min_size=MIN_SECRET_LEN).filter(lambda text: len(text.strip()) >= MIN_SECRET_LEN),
    st.text(),
    st.text(),
)
def test_no_secret_comes_through(value, before, after):
    shown = Redactor([("#", value)])(before + value + after)
    assert value.strip() not in shown


def test_neither_a_redactor_nor_an_entry_shows_its_secrets():
    config = parse(
        json.dumps({"mcpServers": {"s": {"command": "x", "args": ["${T}"]}}}), where="c", environ={"T": TOKEN}
    )
    entry = config.servers["s"]
    assert TOKEN not in repr(entry)
    assert TOKEN not in repr(redactor_of(entry))
    assert "'T'" in repr(entry)


@pytest.fixture
def hidden():
    """Values that came while MCPX runs, as the tokens of a sign-in do."""
    yield redaction.hide_values
    redaction._hidden.clear()
    redaction._hidden_forms.clear()


def test_tokens_that_came_later_are_taken_out_by_every_redactor(hidden):
    redact = Redactor([("K", "key-of-the-entry")])
    hidden("notes", {"access token": "first-token", "refresh token": None})
    shown = redact("first-token and key-of-the-entry")
    assert shown == "***access token*** and ***K***"
    assert Redactor().data({"a": ["first-token"]}) == {"a": ["***access token***"]}
    assert Redactor().replace_by_numbers(b'"first-token"') == b'"***access token***"'


def test_the_tokens_before_the_last_are_taken_out_for_a_while(hidden):
    for number in range(5):
        hidden("notes", {"access token": f"token-no-{number}"})
        hidden("notes", {"access token": f"token-no-{number}"})  # the same again is no other
    hidden("others", {"access token": "their-token"})
    shown = Redactor()("token-no-0 token-no-1 token-no-2 token-no-3 token-no-4 their-token")
    assert shown == " ".join(["token-no-0 token-no-1 token-no-2", *["***access token***"] * 3])


def test_a_token_cannot_make_json_unreadable(hidden):
    hidden("evil", {"access token": '"event":', "refresh token": '","level":"'})
    line = '{"event":"a","level":"b","cause":"\\"event\\":"}'
    assert json.loads(Redactor()(line)) == {"event": "a", "level": "b", "cause": "***access token***"}


def test_the_token_is_in_no_line_of_the_log_once_it_is_loaded(hidden):
    hidden("notes", {"access token": "a token/with+signs"})
    assert "with" not in Redactor()("GET /?t=a%20token%2Fwith%2Bsigns")
