"""The command line of `mcpx add`: its own syntax, and that of other clients."""

from __future__ import annotations

import click
import pytest

from mcpx.cli.setup.entry_arguments import arranged, kept_secret, pasted_entry, read_entry, with_secret

WITH_VALUE = {"-e", "--env", "-H", "--header", "-t", "--transport", "-s", "--scope", "--config"}
LINES = {
    "git -- uvx mcp-server-git": "-- git uvx mcp-server-git",
    "git uvx mcp-server-git": "-- git uvx mcp-server-git",
    "git uvx -- -y x": "-- git uvx -y x",
    "fs npx -y pkg --yes": "-- fs npx -y pkg --yes",
    "-e A=1 git -- uvx x": "-e A=1 -- git uvx x",
    "git -e A=1 --env B=2 -- uvx x": "-e A=1 --env B=2 -- git uvx x",
    "git --env=A=1 --yes -- uvx x": "--env=A=1 --yes -- git uvx x",
    "-e A=1 B=2 git -- uvx x": "-e A=1 -e B=2 -- git uvx x",
    "--env TOKEN git -- uvx x": "--env TOKEN -- git uvx x",
    "git docker run -e TOKEN -i img": "-- git docker run -e TOKEN -i img",
    "git uvx x -e A=1 -s user": "-e A=1 -s user -- git uvx x",
    "git -- uvx x -s user": "-- git uvx x -s user",
    "git npm run x -- -s user": "-- git npm run x -- -s user",
    "--transport http web https://x/mcp --yes": "--transport http --yes -- web https://x/mcp",
    "web https://x/mcp -s user --transport sse": "-s user --transport sse -- web https://x/mcp",
    "-- git uvx x": "-- git uvx x",
    "--config c.json git uvx": "--config c.json -- git uvx",
}


@pytest.mark.parametrize("line", LINES)
def test_options_are_told_from_the_servers_own(line):
    assert arranged(line.split(" "), WITH_VALUE) == LINES[line].split(" ")


def test_headers_may_follow_a_url():
    given = ["web", "https://x/mcp", "-H", "A: 1", "B: 2", "--yes"]
    assert arranged(given, WITH_VALUE) == ["-H", "A: 1", "-H", "B: 2", "--yes", "--", "web", "https://x/mcp"]


def test_entries_are_written_as_short_as_they_can_be():
    assert read_entry(["npx"]) == {"command": "npx"}
    assert read_entry(["npx", "-y", "x"], env=["A=1=2", "B="], transport="stdio") == {
        "command": "npx",
        "args": ["-y", "x"],
        "env": {"A": "1=2", "B": ""},
    }
    assert read_entry(["https://x/mcp"]) == {"url": "https://x/mcp"}
    assert read_entry(["HTTPS://x/sse"], headers=["A: b: c"], transport="sse") == {
        "type": "sse",
        "url": "HTTPS://x/sse",
        "headers": {"A": "b: c"},
    }
    assert read_entry(["https://x"], transport="streamable-http", bearer="TOKEN") == {
        "type": "http",
        "url": "https://x",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    }


def test_a_variable_without_a_value_is_that_of_the_environment():
    assert read_entry(["x"], env=["TOKEN"])["env"] == {"TOKEN": "${TOKEN}"}


def test_a_whole_command_line_in_one_word_is_split():
    assert read_entry(["npx -y 'a b'"]) == {"command": "npx", "args": ["-y", "a b"]}
    assert read_entry(["it's"]) == {"command": "it's"}


def test_a_file_of_the_current_folder_makes_that_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").touch()
    (tmp_path / "run").touch()
    assert read_entry(["python", "server.py"])["cwd"] == str(tmp_path)
    assert read_entry(["npx", "-y", "fs", "."])["cwd"] == str(tmp_path)
    assert read_entry(["./run"]) == {"command": f"{tmp_path}/run"}
    assert "cwd" not in read_entry(["npx", "run", "other.py", "@x/y", "/etc/passwd", "x" * 5000])
    assert read_entry(["npx"], cwd="sub")["cwd"] == f"{tmp_path}/sub"


REFUSED = [
    ((), {}, "say how it is started"),
    (("https://x", "y"), {}, "nothing can follow the URL"),
    (("https://x",), {"env": ["A=1"]}, "--header"),
    (("https://x",), {"transport": "stdio"}, "not stdio"),
    (("npx",), {"transport": "http"}, "begins with http://"),
    (("npx",), {"headers": ["A: b"]}, "--env"),
    (("npx",), {"env": ["=1"]}, "NAME=VALUE"),
    (("https://x",), {"headers": ["A"]}, "NAME: VALUE"),
    (("npx",), {"auth": {"client_id": "c"}}, "for a server with a URL"),
]


@pytest.mark.parametrize(("words", "options", "problem"), REFUSED)
def test_what_does_not_fit_together_is_refused(words, options, problem):
    with pytest.raises(click.UsageError, match=problem):
        read_entry(words, **options)


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "x"}',
        '{"mcpServers": {"n": {"command": "x"}}}',
        '{"servers": {"other": {"command": "x",}}} // from its page',
        '{"n": {"command": "x"}}',
        '{"mcpServers": {"n": {"command": "x"}, "m": {"command": "y"}}}',
    ],
)
def test_json_is_taken_as_a_page_shows_it(text):
    assert pasted_entry(text, "n") == {"command": "x"}


def test_a_client_that_is_registered_elsewhere_may_have_a_secret_in_the_keychain():
    auth = {"client_id": "c", "client_secret": kept_secret("n"), "callback_port": None}
    assert read_entry(["https://x"], auth=auth) == {
        "url": "https://x",
        "auth": {"client_id": "c", "client_secret": "${keychain:n}"},
    }
    assert read_entry(["https://x"], auth=dict.fromkeys(auth)) == {"url": "https://x"}
    given = {"url": "https://x", "oauth": {"clientId": "c"}}
    assert with_secret(given, "s") == {"url": "https://x", "oauth": {"clientId": "c", "client_secret": "s"}}
    with pytest.raises(click.UsageError, match="client_id"):
        with_secret({"url": "https://x", "auth": "oauth"}, "s")


@pytest.mark.parametrize("text", ["[]", "1", '"x"'])
def test_json_that_is_no_entry_is_refused(text):
    with pytest.raises(click.UsageError, match="no entry"):
        pasted_entry(text, "n")
    with pytest.raises(click.UsageError, match="JSON:1:13: a comma"):
        pasted_entry('{"command":1 "a": 2}', "n")
