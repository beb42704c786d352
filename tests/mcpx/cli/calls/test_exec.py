"""`mcpx inspect`, `exec` and `resources` as processes: what they print, and how they end."""

from __future__ import annotations

import base64
import io
import json

import click
import pytest

from mcpx.cli.calls.exec import read_arguments
from tests.mcpx.scripted import entry
from tests.mcpx.serving import alive_in_group, environment, run_cli, write_config
from tests.mcpx.terminal import CTRL_C, Terminal

# The arguments of a call on a command line: words, JSON, files and standard input.


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), {}),
        (("a=1", "b=x y", "c=[1, 2]", "d=null"), {"a": 1, "b": "x y", "c": [1, 2], "d": None}),
        (("e=", "f=a=b"), {"e": "", "f": "a=b"}),
        (('{"a": {"b": 1}}',), {"a": {"b": 1}}),
        (("a={b",), {"a": "{b"}),
        (('{"a": 1, "b": 2}', "b=3"), {"a": 1, "b": 3}),
        (("b=3", '{"a": 1, "b": 2}'), {"a": 1, "b": 2}),
    ],
)
def test_arguments_from_words(words, given):
    assert read_arguments(words).arguments == given


@pytest.mark.parametrize("words", [("a",), ("=1",), ("{a}",), ("a=1", "[]"), ("@/no/such",), ("[1]",)])
def test_words_that_are_no_arguments(words):
    with pytest.raises((click.BadParameter, OSError)):
        read_arguments(words)


@pytest.mark.parametrize(
    "words",
    [('{"a": 1e400}',), ("a=1e400",), ("a=[NaN]",), ('{"a": ' + "9" * 5000 + "}",), ("{" + '"a":{' * 5000,)],
)
def test_numbers_and_depths_that_json_cannot_carry_are_refused(words):
    with pytest.raises(click.BadParameter):
        read_arguments(words)


def test_the_words_stay_text_beside_what_they_may_mean():
    assert read_arguments(('{"a": 1}', "b=2", "b=x=y")).pairs == [("b", "2"), ("b", "x=y")]
    assert read_arguments(("b=2", '{"b": 1}')).pairs == []


def test_an_object_can_come_from_a_file_or_from_standard_input(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')
    assert read_arguments((f"@{file}",)).arguments == {"a": "é"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"b": 1}')))
    assert read_arguments((f"@{file}", "-", "c=2")).arguments == {"a": "é", "b": 1, "c": 2}


def test_a_file_that_is_no_object_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{'a': 1}")
    with pytest.raises(click.BadParameter, match=r"a\.json: not JSON"):
        read_arguments((f"@{tmp_path}/a.json",))


DOCUMENTS = [
    {"uri": "doc:///a", "name": "a", "mimeType": "text/plain", "description": "A text", "text": "the téxt"},
    {"uri": "doc:///b", "name": "b", "mimeType": "image/png", "size": 3, "blob": "AAEC"},
]


@pytest.fixture
def run(tmp_path, ears):
    """Runs a command on a config with a server `s`, one without resources, and one that cannot start."""
    servers = {
        "s": entry(ears, resources=DOCUMENTS),
        "plain": entry(ears),
        "broken": {"command": "there-is-no-such-command"},
    }
    config = write_config(tmp_path, servers)

    def run(*arguments: str):
        done = run_cli(tmp_path, *arguments, MCPX_CONFIG=config)
        for event in ears.of("started"):
            assert alive_in_group(event["pid"]) == []
        return done

    return run


def answered(done) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done
    return str(done.stdout)


def refused(done, *expected: str) -> None:
    assert (done.returncode, done.stdout) == (1, ""), done
    for each in expected:
        assert each in done.stderr


def test_inspect_shows_all_servers_and_their_states(run):
    lines = answered(run("inspect")).splitlines()
    assert lines[0].split() == ["server", "state", "tools", "resources", "title"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "ready" in rows["s"]
    assert rows["s"].split()[-2:] == ["2", "scripted"]
    assert "command not found: there-is-no-such-command" in rows["broken"]


def test_a_server_that_hangs_hides_no_other_at_a_terminal(tmp_path, ears):
    config = write_config(tmp_path, {"hangs": entry(ears, silent=True), "quick": entry(ears)})
    environ = environment(tmp_path, MCPX_CONFIG=config)
    with Terminal("-m", "mcpx", "inspect", env=environ, columns=100) as terminal:
        terminal.wait_for("quick   ready")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    for event in ears.of("started"):
        assert alive_in_group(event["pid"]) == []


def test_inspect_for_programs(run):
    servers = {each["name"]: each for each in json.loads(answered(run("inspect", "--json")))}
    assert (servers["s"]["state"], servers["s"]["resources"]) == ("ready", 2)
    assert (servers["broken"]["state"], servers["broken"]["tools"]) == ("parked", 0)


def test_inspect_shows_the_tools_of_one_server_and_starts_no_other(run, ears):
    assert "echo" in answered(run("inspect", "plain"))
    assert len(ears.of("started")) == 1


def test_inspect_shows_one_tool_with_its_original_schema(run):
    shown = json.loads(answered(run("inspect", "plain", "echo", "--json")))
    assert shown["structuredContent"]["input_schema"]["required"] == ["text"]
    assert "echo(text: string)\n" in answered(run("inspect", "plain", "echo"))
    assert "{text: string}" in answered(run("inspect", "plain", "echo", "--raw"))


def test_inspect_shows_several_tools_and_searches(run):
    shown = answered(run("inspect", "plain", "echo", "fail"))
    assert "echo" in shown
    assert "fail" in shown
    assert "echo(text: string)" in answered(run("inspect", "--query", "echo"))


def test_inspect_of_unknown_names_suggests_the_right_ones(run):
    refused(run("inspect", "plian"), "plian", "plain")
    refused(run("inspect", "plain", "ehco"), "ehco", "echo")


def test_exec_runs_a_tool_with_either_form_of_arguments(run):
    assert answered(run("exec", "plain", "echo", "text=hello there")) == "hello there\n"
    assert answered(run("exec", "plain", "echo", '{"text": "5"}')) == "5\n"


def test_exec_gives_a_word_the_type_that_the_tool_wants(run):
    for word in ("1.10", "[1,2]", "null", "007"):
        assert answered(run("exec", "plain", "echo", f"text={word}")) == f"{word}\n"


def test_exec_understands_a_tool_with_its_server_in_one_word(run, ears):
    assert answered(run("exec", "plain.echo", "text=hello")) == "hello\n"
    assert len(ears.of("started")) == 1


def test_exec_for_programs(run):
    shown = json.loads(answered(run("exec", "plain", "echo", "text=[1]x", "--json")))
    assert shown["content"] == [{"type": "text", "text": "[1]x"}]
    assert shown["isError"] is False


def test_exec_that_fails_tells_why_and_ends_with_1(run, ears):
    refused(run("exec", "plain", "echo", '{"text": 5}'), "$.text", "expected string", "text: string")
    refused(run("exec", "plain", "echo"), "$.text", "is missing")
    refused(run("exec", "plain", "fail", "text=no moon"), "no moon")
    refused(run("exec", "plain", "die"), "SIGKILL", "these are my last words")
    refused(run("exec", "broken", "anything"), "command not found: there-is-no-such-command")
    assert len(ears.of("call", tool="echo")) == 0


def test_resources_lists_all_or_those_of_one_server(run):
    listed = answered(run("resources"))
    assert listed.splitlines() == ["s  doc:///a  a  (text/plain)", "s  doc:///b  b  (image/png, 3 bytes)"]
    assert json.loads(answered(run("resources", "s", "--json")))["s"][1]["mime_type"] == "image/png"


def test_resources_without_any_says_so_aside(run):
    done = run("resources", "plain")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no resources\n")


def test_resources_reads_text_and_binary(run):
    assert answered(run("resources", "s", "doc:///a")) == "the téxt\n"
    assert "image/png" in answered(run("resources", "s", "doc:///b"))
    shown = json.loads(answered(run("resources", "s", "doc:///b", "--json")))
    assert base64.b64decode(shown["structuredContent"]["blob"]) == b"\x00\x01\x02"


def test_resources_of_unknown_names_tells_what_there_is(run):
    refused(run("resources", "s", "doc:///c"), "doc:///c")
    refused(run("resources", "z"), "Servers: s, plain, broken")
