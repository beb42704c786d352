"""Every way to get a configuration wrong, with the one line its author sees."""

from __future__ import annotations

import json

import pytest

from mcpx.core.config import Stdio, parse
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


def reason(text: str, name: str = "fs") -> str | None:
    """Why the server of that name cannot be used."""
    config = parse(text, where="c.json", environ={})
    assert all(server.disabled is None for server in config.servers.values() if server.name != name)
    return config.servers[name].disabled


NOT_JSON = {
    "": 'c.json:1:1: the file is empty; it needs at least {"mcpServers": {}}',
    " \n ": 'c.json:1:1: the file is empty; it needs at least {"mcpServers": {}}',
    '{"a": {': "c.json:1:8: not JSON: it ends too early: the { of line 1 is not closed",
    '{"a": "b': "c.json:1:7: not JSON: the closing quote of this string is missing",
    "{'a': 1}": 'c.json:1:2: not JSON: single quotes; JSON has double ones only: "',
    '{"a" 1}': "c.json:1:5: not JSON: a colon is missing between the key and its value",
    '{"a": 1}}': "c.json:1:9: not JSON: one } too many",
    '{"a": 1,, "b": 2}': "c.json:1:9: not JSON: a comma too many",
    r'{"a": "C:\Users"}': r'c.json:1:10: not JSON: a single backslash; double it, also in paths: "C:\\Users"',
    '{"queue_size": NaN}': "c.json:1:16: not JSON: NaN and Infinity are not JSON; write a number, or null",
    "\n\n[mcp_servers.a]\ncommand = 'x'": (
        "c.json:3:2: not JSON: this looks like TOML, not JSON; mcpx import reads such files"
    ),
    "[" * 200_000: "c.json:1:129: not JSON: this is nested too deeply",
}


@pytest.mark.parametrize(("text", "line"), NOT_JSON.items(), ids=range(len(NOT_JSON)))
def test_what_is_not_json_is_told_by_line_and_column(text: str, line: str) -> None:
    assert message(text) == line


def test_what_is_not_utf8_is_told_by_line_and_column() -> None:
    assert message(b'{\n "a": "\xff"}') == "c.json:2:8: not UTF-8 text (byte 0xff): save it as UTF-8"
    utf16 = "c.json:1:1: not UTF-8 text; it looks like UTF-16: save it as UTF-8"
    assert message('{"mcpServers": {}}'.encode("utf-16")) == utf16


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"fs": {"command": "npx",},},}',
        '// my servers\n{"mcpServers": {"fs": /* files */ {"command": "npx" // all\n}}}',
        '\ufeff{\r\n"mcpServers": {"fs": {"command": "npx"},\r\n},\r\n}\r\n',
    ],
)
def test_comments_and_trailing_commas_are_read(text: str) -> None:
    assert parse(text.encode(), where="c.json", environ={}).servers["fs"].transport == Stdio(command="npx")


STRUCTURE = {
    "[]": "$: expected an object, got an array",
    "null": "$: expected an object, got null",
    "{}": '$: no servers; give at least one under "mcpServers"',
    '{"mcpservers": {"a": {}}}': '$: no servers; did you mean "mcpServers" where it says "mcpservers"?',
    '{"servers": "a"}': "$.servers: expected an object, got a string",
    '{"mcp": 3}': "$.mcp: expected an object, got a number",
    '{"mcp": {"servers": true}}': "$.mcp.servers: expected an object, got a boolean",
    '{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {}}': "$.mcpServers: this key is given twice",
}


@pytest.mark.parametrize(("text", "line"), STRUCTURE.items(), ids=range(len(STRUCTURE)))
def test_a_wrong_structure_is_told_by_its_path(text: str, line: str) -> None:
    assert message(text) == f"c.json: {line}"


MISFITS = {
    '{"mcpServers": {"my server": 1}}': ("my server", "expected an object, got a number", '["my server"]'),
    '{"mcpServers": {"资料": 1}}': ("资料", "expected an object, got a number", ".资料"),
    '{"mcpServers": {"资 料": 1}}': ("资 料", "expected an object, got a number", '["资 料"]'),
    f'{{"mcpServers": {{"{"a b" * 30}": 1}}}}': (
        "a b" * 30,
        "expected an object, got a number",
        f'["{"a b" * 19}..."]',
    ),
    '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}, "a": {"command": "y"}}}': (
        "a",
        'the server name "a" is used twice',
        ".a",
    ),
    '{"mcpServers": {"a": {"command": "x", "command": "y"}, "b": {"command": "x"}}}': (
        "a",
        "this key is given twice",
        ".a.command",
    ),
    '{"mcpServers": {"a": {"command": "x", "env": {"K": "1", "K": "2"}}}}': (
        "a",
        "this key is given twice",
        ".a.env.K",
    ),
}


@pytest.mark.parametrize(("text", "told"), MISFITS.items(), ids=range(len(MISFITS)))
def test_what_is_no_entry_disables_that_server_alone(text: str, told: tuple[str, str, str]) -> None:
    name, problem, path = told
    assert reason(text, name) == f"{problem} (in $.mcpServers{path})"


def test_a_name_that_two_forms_have_disables_that_server_alone() -> None:
    text = (
        '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}, "servers": {"a": {"command": "y"}}}'
    )
    told = 'the server name "a" is already used at $.mcpServers.a (in $.servers.a)'
    assert reason(text, "a") == told
    text = '{"mcp_servers": [{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]}'
    told = 'the server name "a" is already used at $.mcp_servers[0] (in $.mcp_servers[1])'
    assert reason(text, "a") == told


NAMELESS = {
    '"mcp_servers": [{"command": "a"}]': ("mcp_servers[0]", 'this server has no "name"', ""),
    '"mcp_servers": [{"name": 1}]': ("mcp_servers[0]", "expected a string, got a number", ".name"),
    '"mcp_servers": ["a"]': ("mcp_servers[0]", "expected an object, got a string", ""),
    '"servers": {"": {}}': ('servers[""]', "the name of a server cannot be empty", ""),
    '"mcp_servers": [{"name": " "}]': ("mcp_servers[0]", "the name of a server cannot be empty", ".name"),
    r'"servers": {"a\nb": {}}': (
        r'servers["a\nb"]',
        "the name of a server cannot hold control characters or line breaks",
        "",
    ),
    r'"servers": {"\ud800": {}}': (
        r'servers["\ud800"]',
        "the name of a server cannot hold control characters or line breaks",
        "",
    ),
}


@pytest.mark.parametrize(("form", "told"), NAMELESS.items(), ids=range(len(NAMELESS)))
def test_an_entry_without_a_name_that_can_be_used_is_named_by_its_place(
    form: str, told: tuple[str, str, str]
) -> None:
    name, problem, inside = told
    text = f'{{"mcpServers": {{"fs": {{"command": "npx"}}}}, {form}}}'
    assert reason(text, name) == f"{problem} (in $.{name}{inside})"


def test_no_servers_yet_is_a_configuration() -> None:
    for text in ('{"mcpServers": {}}', '{"mcpServers": []}', '{"mcp": {"servers": {}}}'):
        config = parse(text, where="c.json", environ={})
        assert config.servers == {}
        assert config.notices == (
            "$: there are no servers yet; add one with: mcpx add --config c.json NAME -- COMMAND",
        )


ENTRIES: list[tuple[dict[str, object], str]] = [
    ({}, 'fs: neither "command" nor "url": MCPX cannot know how to reach this server'),
    (
        {"comand": "npx"},
        'fs.comand: neither "command" nor "url"; did you mean "command" where it says "comand"?',
    ),
    (
        {"type": "stdio", "command": "a", "url": "http://b"},
        'fs: type "stdio" with "url": over stdio a server has no address',
    ),
    (
        {"command": "a", "args": ["${port}"], "url": "http://b:80"},
        "fs: ${port} in args or env, but not in the URL: MCPX would look at another port",
    ),
    (
        {"command": "a", "args": ["80"], "url": "http://b:${port}"},
        "fs: ${port} in the URL, but not in args or env: the program would not know it",
    ),
    (
        {"command": "a", "url": "http://b:80", "sessions": "per_project"},
        (
            "fs.url: each project has a process, and these cannot share one port; write ${port} in its place,"
            " here and in args or env"
        ),
    ),
    (
        {"command": "a", "url": "http://b", "mcpx": True},
        "fs.mcpx: another MCPX is reached by a command or a URL, not by both",
    ),
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
        {"transport": "websocket", "url": "http://a"},
        'fs.transport: unknown transport "websocket", expected "stdio", "http" or "sse"',
    ),
    (
        {"type": "http", "transport": "sse", "url": "http://b"},
        'fs.transport: "sse" contradicts the type "http" of the same entry',
    ),
    ({"type": 1, "command": "a"}, "fs.type: expected a string, got a number"),
    (
        {"command": ["npx", "-y"]},
        'fs.command: expected a string, got an array; only its first item belongs here, the others in "args"',
    ),
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
def test_a_wrong_entry_disables_that_server_alone(entry: dict[str, object], line: str) -> None:
    path, _, problem = line.partition(": ")
    around = {"before": {"command": "a"}, "fs": entry, "after": {"url": "http://b"}}
    text = json.dumps({"mcpServers": around})
    assert reason(text) == f"{problem} (in $.mcpServers.{path})"


def test_all_that_is_wrong_with_an_entry_is_a_reason() -> None:
    told = reason(server(command=3, args="-y", call_timeout="3", env={"A": "${NOT_SET}"}))
    assert told == (
        "expected a string, got a number (in $.mcpServers.fs.command);"
        " expected an array of strings, got a string (in $.mcpServers.fs.args);"
        f" {NO_DURATION} a string (in $.mcpServers.fs.call_timeout);"
        " environment variable NOT_SET is not set (used in $.mcpServers.fs.env.A)"
    )


def test_each_wrong_item_is_told() -> None:
    told = "expected a string, got a number (in $.mcpServers.fs.args[{}])"
    assert reason(server(command="a", args=["x", 1, "y", 2])) == f"{told.format(1)}; {told.format(3)}"


def test_null_stands_for_what_is_not_given() -> None:
    assert reason(server(command="a", args=None, env=None, cwd=None)) is None
    assert reason(server(url="http://a", headers=None)) is None


def test_a_wrong_entry_that_is_switched_off_is_just_that() -> None:
    assert reason(server(comand="npx", disabled=True)) == "disabled in the configuration"


NO_DURATION = "expected a number of seconds above 0 and at most 31536000, got"

SETTINGS: list[tuple[str, object, str]] = [
    ("connect_timeout", 0, f"{NO_DURATION} 0"),
    ("call_timeout", -3, f"{NO_DURATION} -3"),
    ("queue_timeout", True, f"{NO_DURATION} a boolean"),
    ("startup_wait", "3", f"{NO_DURATION} a string"),
    ("idle_stop", -1, "expected a number of seconds from 0 and at most 31536000, got -1"),
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
    assert "hunter2" not in str(reason(server(url="https://me:hunter2@exa mple.com")))
    assert "hunter2" not in str(reason(server(url="hunter2://example.com")))


def test_all_mistakes_outside_of_entries_are_counted() -> None:
    told = message(setting(http=3, queue_size="1", profiles={"a": {"server": []}, "servers": {}}))
    assert told == (
        "c.json: $.queue_size: expected a whole number from 1 to 1000000, got a string;"
        " and 3 more mistakes, see: mcpx check --config c.json"
    )
