"""`http.replica`: what it may hold, with variables, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcpx.core.config import json_schema, parse
from mcpx.core.config.model import Replica
from mcpx.errors import ConfigError

SECRET = "0123456789abcdef"
ENVIRON = {"POD_IP": "10.0.0.3", "SHARED": SECRET, "SHORT": "0123456789abcde"}


def read(replica: Any) -> Replica:
    document = {"mcpServers": {"s": {"command": "x"}}, "http": {"replica": replica}}
    assert Draft202012Validator(json_schema()).is_valid(document)
    return parse(json.dumps(document), where="c.json", environ=ENVIRON).http.replica


def test_variables_are_expanded_and_the_secret_is_not_shown() -> None:
    made = read({"url": "http://${POD_IP}:8765/", "secret": "${SHARED}"})
    assert (made.url, made.secret) == ("http://10.0.0.3:8765", SECRET)
    assert SECRET not in repr(made)
    assert read({}) == Replica()


@pytest.mark.parametrize(
    ("url", "secret", "says"),
    [
        ("http://a:1", "${SHORT}", "16 bytes or more"),
        ("http://a:1", "", "16 bytes or more"),
        ("http://a:1", "${MISSING}", "MISSING is not set"),
        ("http://a:1", "${keychain:x}", "only variables"),
        ("", SECRET, "starts with http"),
        ("ftp://a", SECRET, "starts with http"),
        ("http://a:99999", SECRET, "port"),
        ("http://a/mcp", SECRET, "scheme, host and port alone"),
        ("http://user:word@a", SECRET, "scheme, host and port alone"),
        ("http://a:1?x=1", SECRET, "scheme, host and port alone"),
        ("http://" + "a" * 300, SECRET, "scheme, host and port alone"),
    ],
)
def test_what_cannot_be_used_is_a_mistake_of_the_whole_file(url: str, secret: str, says: str) -> None:
    with pytest.raises(ConfigError) as failure:
        read({"url": url, "secret": secret})
    assert says in str(failure.value)
    assert SECRET not in str(failure.value)


def test_an_unknown_key_is_a_mistake() -> None:
    document = {"mcpServers": {}, "http": {"replica": {"url": "http://a", "secret": SECRET, "name": "b"}}}
    with pytest.raises(ConfigError, match="unknown key"):
        parse(json.dumps(document), where="c.json", environ={})
