"""Every way to get a configuration wrong, with the one line its author sees."""

from __future__ import annotations

import json

import pytest

from mcpx.config import parse
from mcpx.errors import ConfigError

OK = {"fs": {"command": "npx"}}


def message(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, where="c.json", environ={})
    line = str(caught.value)
    assert "\n" not in line
    return line


def server(**entry: object) -> str:
    return json.dumps({"mcpServers": {"fs": entry}})


def setting(**settings: object) -> str:
    return json.dumps({"mcpServers": OK, **settings})


NOT_JSON = {
    "": 'c.json:1:1: the file is empty; it needs at least {"mcpServers": {...}}',
    " \n ": 'c.json:1:1: the file is empty; it needs at least {"mcpServers": {...}}',
    '{\n  "servers": {},\n}': "c.json:2:16: not JSON: a comma after the last item is not allowed; remove it",
    '{"a": [1, 2 , ]}': "c.json:1:13: not JSON: a comma after the last item is not allowed; remove it",
    '{"a": 1, // why\n "b": 2}': "c.json:1:10: not JSON: comments are not allowed; remove it",
    '{"a": 1 /* why */}': "c.json:1:9: not JSON: comments are not allowed; remove it",
    '{"a": {': "c.json:1:8: not JSON: it ends too early, a bracket or a quote is not closed",
    '{"a": "b': "c.json:1:7: not JSON: unterminated string",
    "{'a': 1}": "c.json:1:2: not JSON: expecting property name enclosed in double quotes",
    '{"a" 1}': "c.json:1:6: not JSON: expecting ':' delimiter",
    '{"a": 1}}': "c.json:1:9: not JSON: extra data",
    "\n\nmcpServers": "c.json:3:1: not JSON: expecting value",
    "[" * 200_000: "c.json: the JSON is nested too deeply",
}


@pytest.mark.parametrize(("text", "line"), NOT_JSON.items(), ids=range(len(NOT_JSON)))
def test_what_is_not_json_is_told_by_line_and_column(text: str, line: str) -> None:
    assert message(text) == line


def test_what_is_not_utf8_is_told_by_line_and_column() -> None:
    assert message(b'{\n "a": "\xff"}') == "c.json:2:8: not UTF-8 text (byte 0xff): save it as UTF-8"
    utf16 = "c.json:1:1: not UTF-8 text; it looks like UTF-16: save it as UTF-8"
    assert message('{"mcpServers": {}}'.encode("utf-16")) == utf16


STRUCTURE = {
    "[]": "$: expected an object, got an array",
    "null": "$: expected an object, got null",
    "{}": '$: no servers; give at least one under "mcpServers"',
    '{"mcpServers": {}}': '$: no servers; give at least one under "mcpServers"',
    '{"mcpservers": {"a": {}}}': '$: no servers; did you mean "mcpServers" where it says "mcpservers"?',
    '{"mcpServers": []}': "$.mcpServers: expected an object, got an array",
    '{"servers": "a"}': "$.servers: expected an object, got a string",
    '{"mcp": 3}': "$.mcp: expected an object, got a number",
    '{"mcp": {"servers": true}}': "$.mcp.servers: expected an object, got a boolean",
    '{"mcp_servers": {}}': "$.mcp_servers: expected an array of servers, got an object",
    '{"mcp_servers": [{"command": "a"}]}': '$.mcp_servers[0]: this server has no "name"',
    '{"mcp_servers": [{"name": 1}]}': "$.mcp_servers[0].name: expected a string, got a number",
    '{"mcp_servers": ["a"]}': "$.mcp_servers[0]: expected an object, got a string",
    '{"mcpServers": {"my server": 1}}': '$.mcpServers["my server"]: expected an object, got a number',
    '{"mcpServers": {"资料": 1}}': "$.mcpServers.资料: expected an object, got a number",
    '{"mcpServers": {"资 料": 1}}': '$.mcpServers["资 料"]: expected an object, got a number',
    f'{{"mcpServers": {{"{"a b" * 30}": 1}}}}': (
        f'$.mcpServers["{"a b" * 19}..."]: expected an object, got a number'
    ),
    '{"mcpServers": {"": {}}}': '$.mcpServers[""]: the name of a server cannot be empty',
    '{"mcp_servers": [{"name": " "}]}': "$.mcp_servers[0].name: the name of a server cannot be empty",
    r'{"mcpServers": {"a\nb": {}}}': (
        r'$.mcpServers["a\nb"]: the name of a server cannot hold control characters or line breaks'
    ),
    r'{"mcpServers": {"\ud800": {}}}': (
        r'$.mcpServers["\ud800"]: the name of a server cannot hold control characters or line breaks'
    ),
    '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}': (
        '$.mcpServers.a: the server name "a" is used twice'
    ),
    '{"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "y"}}}': (
        '$.servers.a: the server name "a" is already used at $.mcpServers.a'
    ),
    '{"mcp_servers": [{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]}': (
        '$.mcp_servers[1]: the server name "a" is already used at $.mcp_servers[0]'
    ),
    '{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {}}': "$.mcpServers: this key is given twice",
    '{"mcpServers": {"a": {"command": "x", "command": "y"}}}': (
        "$.mcpServers.a.command: this key is given twice"
    ),
    '{"mcpServers": {"a": {"command": "x", "env": {"K": "1", "K": "2"}}}}': (
        "$.mcpServers.a.env.K: this key is given twice"
    ),
}


@pytest.mark.parametrize(("text", "line"), STRUCTURE.items(), ids=range(len(STRUCTURE)))
def test_a_wrong_structure_is_told_by_its_path(text: str, line: str) -> None:
    assert message(text) == f"c.json: {line}"


ENTRIES: list[tuple[dict[str, object], str]] = [
    ({}, 'fs: neither "command" nor "url": MCPX cannot know how to reach this server'),
    (
        {"comand": "npx"},
        'fs: neither "command" nor "url"; did you mean "command" where it says "comand"?',
    ),
    ({"command": "a", "url": "http://b"}, 'fs: both "command" and "url": a server has one or the other'),
    (
        {"url": "http://a", "serverUrl": "http://b"},
        'fs: both "url" and "serverUrl": a server has one address',
    ),
    ({"type": "http", "command": "a"}, 'fs: type "http" needs "url", but the entry has "command"'),
    ({"type": "stdio", "url": "http://b"}, 'fs: type "stdio" needs "command", but the entry has "url"'),
    (
        {"type": "stdoi", "command": "a"},
        'fs.type: unknown transport "stdoi", expected "stdio", "http" or "sse"; did you mean "stdio"?',
    ),
    (
        {"transport": "websocket", "url": "ws://a"},
        'fs.transport: unknown transport "websocket", expected "stdio", "http" or "sse"',
    ),
    (
        {"type": "http", "transport": "sse", "url": "http://b"},
        'fs.transport: "sse" contradicts the type "http" of the same entry',
    ),
    ({"type": 1, "command": "a"}, "fs.type: expected a string, got a number"),
    ({"command": ["npx", "-y"]}, "fs.command: expected a string, got an array"),
    ({"command": ""}, "fs.command: expected a string, got an empty one"),
    ({"command": "a", "args": "-y"}, "fs.args: expected an array of strings, got a string"),
    ({"command": "a", "args": ["-y", 3]}, "fs.args[1]: expected a string, got a number"),
    ({"command": "a", "args": ["\0"]}, "fs.args[0]: the string holds a character that is not text (U+0000)"),
    ({"command": "a", "env": ["A=1"]}, "fs.env: expected an object, got an array"),
    ({"command": "a", "env": {"my key": True}}, 'fs.env["my key"]: expected a string, got a boolean'),
    (
        {"command": "a", "env": {"A=1": "b"}},
        'fs.env["A=1"]: "A=1" cannot be the name of an environment variable',
    ),
    (
        {"command": "a", "env": {"\ud800": "b"}},
        r'fs.env["\ud800"]: "\ud800" cannot be the name of an environment variable',
    ),
    ({"command": "a", "cwd": 5}, "fs.cwd: expected a string, got a number"),
    ({"url": None}, "fs.url: expected a string, got null"),
    ({"url": "localhost:80/mcp"}, "fs.url: expected a URL that starts with http:// or https://"),
    ({"url": "ftp://a/mcp"}, "fs.url: expected a URL that starts with http:// or https://"),
    ({"url": "http:///mcp"}, "fs.url: the host or the port of the URL cannot be read"),
    ({"url": "http://[::1/mcp"}, "fs.url: the host or the port of the URL cannot be read"),
    ({"url": "http://a:99999/mcp"}, "fs.url: the host or the port of the URL cannot be read"),
    ({"url": "http://a/b c"}, "fs.url: the URL holds a space or a control character"),
    ({"url": "http://a", "headers": {"X": 1}}, "fs.headers.X: expected a string, got a number"),
    ({"url": "http://a", "headers": {"X:": "1"}}, 'fs.headers["X:"]: "X:" cannot be the name of a header'),
    (
        {"url": "http://a", "headers": {"X": "a\r\nb"}},
        "fs.headers.X: a header can hold printable ASCII only, and no line break",
    ),
    ({"command": "a", "disabled": "yes"}, "fs.disabled: expected true or false, got a string"),
    ({"command": "a", "enabled": 0}, "fs.enabled: expected true or false, got a number"),
    (
        {"command": "a", "call_timeout": -1},
        "fs.call_timeout: expected a number of seconds above 0 and at most 31536000, got -1",
    ),
    (
        {"command": "a", "restart": {"cap": "1"}},
        "fs.restart.cap: expected a number of seconds above 0 and at most 31536000, got a string",
    ),
]


@pytest.mark.parametrize(("entry", "line"), ENTRIES, ids=range(len(ENTRIES)))
def test_a_wrong_server_is_told_by_its_path(entry: dict[str, object], line: str) -> None:
    assert message(server(**entry)) == f"c.json: $.mcpServers.{line}"


NO_DURATION = "expected a number of seconds above 0 and at most 31536000, got"

SETTINGS: list[tuple[str, object, str]] = [
    ("connect_timeout", 0, f"{NO_DURATION} 0"),
    ("call_timeout", -3, f"{NO_DURATION} -3"),
    ("queue_timeout", True, f"{NO_DURATION} a boolean"),
    ("startup_wait", "3", f"{NO_DURATION} a string"),
    ("idle_stop", -1, "expected a number of seconds from 0 and at most 31536000, got -1"),
    (
        "shutdown_grace",
        float("inf"),
        f"{NO_DURATION} Infinity",
    ),
    (
        "health_check_interval",
        float("nan"),
        f"{NO_DURATION} NaN",
    ),
    (
        "health_check_timeout",
        10**40,
        f"{NO_DURATION} 100000000000000000000000...",
    ),
    ("health_check_failure_threshold", 0, "expected a whole number from 1 to 1000000, got 0"),
    ("health_check_enabled", 1, "expected true or false, got a number"),
    ("queue_size", 1.5, "expected a whole number from 1 to 1000000, got 1.5"),
    ("max_concurrency", False, "expected a whole number from 1 to 1000000, got a boolean"),
    ("toon_compression_min_size", -1, "expected a whole number from 0 to 1073741824, got -1"),
    ("max_message_bytes", 10, "expected a whole number from 1024 to 1073741824, got 10"),
    ("include_structured_content", "sometimes", 'expected one of "always", "auto", "never", got "sometimes"'),
    ("include_structured_content", True, 'expected one of "always", "auto", "never", got a boolean'),
    ("restart", [], "expected an object, got an array"),
    ("http", 8765, "expected an object, got a number"),
]


@pytest.mark.parametrize(("key", "value", "problem"), SETTINGS, ids=[key for key, _, _ in SETTINGS])
def test_a_wrong_setting_is_told_by_its_path(key: str, value: object, problem: str) -> None:
    assert message(setting(**{key: value})) == f"c.json: $.{key}: {problem}"


def test_settings_inside_objects_are_told_by_their_whole_path() -> None:
    assert message(setting(http={"port": 65536})) == (
        "c.json: $.http.port: expected a whole number from 0 to 65535, got 65536"
    )
    assert message(setting(http={"allowed_hosts": ["a", 1]})) == (
        "c.json: $.http.allowed_hosts[1]: expected a string, got a number"
    )
    assert message(setting(restart={"park_after": 0})) == (
        "c.json: $.restart.park_after: expected a whole number from 1 to 1000000, got 0"
    )


def test_an_endless_number_is_out_of_range_and_not_a_crash() -> None:
    text = '{"mcpServers": {"a": {"command": "x"}}, "queue_size": ' + "9" * 10_000 + "}"
    assert message(text) == "c.json: $.queue_size: expected a whole number from 1 to 1000000, got Infinity"


def test_a_url_with_a_password_is_not_shown() -> None:
    assert "hunter2" not in message(server(url="https://me:hunter2@exa mple.com"))
    assert "hunter2" not in message(server(url="hunter2://example.com"))
