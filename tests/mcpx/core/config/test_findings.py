"""All that is wrong or odd with a file: whatever it holds, each finding has its place, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpx.core.config import parse
from mcpx.core.config.findings import Examination, examine, safe_excerpt
from mcpx.errors import ConfigError
from tests.mcpx.core.config.test_properties import documents

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/home/me"}
ANY_FILE = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "c.json"


def found(file: Path, text: str | bytes) -> Examination:
    file.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    return examine(file, environ=ENVIRON, resolve=False)


def places(examination: Examination, level: str = "error") -> list[tuple[int | None, int | None, str | None]]:
    return [(each.line, each.column, each.path) for each in examination.findings if each.level == level]


@ANY_FILE
@given(documents, st.sampled_from([None, 1]))
def test_every_finding_in_any_json_has_a_place_and_errors_are_what_parse_says(
    file: Path, document: Any, indent: int | None
) -> None:
    text = json.dumps(document, indent=indent)
    examination = found(file, text)
    lines = text.splitlines()
    for each in examination.findings:
        if each.path is not None:
            assert each.line is not None
            assert each.column is not None
            assert each.column <= len(lines[each.line - 1])
            assert each.excerpt is not None
    try:
        config = parse(text, where=str(file), environ=ENVIRON)
    except ConfigError:
        config = None
    assert (examination.config is None) == (config is None)
    if config is not None:
        assert {each.server for each in examination.errors} <= config.servers.keys()


@ANY_FILE
@given(st.text() | st.binary() | st.text(alphabet='{}[]",:01 \n/*a\\\r'))
def test_any_text_is_examined(file: Path, text: str | bytes) -> None:
    examination = found(file, text)
    assert examination.config is not None or examination.errors


def test_a_wrong_value_is_found_where_it_begins_and_a_key_where_it_does(file: Path) -> None:
    text = """\ufeff{\r
      "mcpServers": { // all
        "a": {"command": "sh", "args": ["x", 3]},
        "b": {"command": "sh", "command": "sh"},
        "c": {"url": "http://h", "headers": {"A:": "1"}},
        "c": {}
      },
      "profiles": {"p": {"servers": ["a", "nope"]}, "servers": {}}
    }"""
    assert places(found(file, text)) == [
        (3, 46, "$.mcpServers.a.args[1]"),
        (4, 32, "$.mcpServers.b.command"),
        (6, 14, "$.mcpServers.c"),
        (8, 43, "$.profiles.p.servers[1]"),
        (8, 53, "$.profiles.servers"),
    ]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sh", None),
        ("/bin/sh", None),
        ("./run", None),
        ("not-there", "command not found: not-there; searched: /usr/bin:/bin"),
        ("/not/there", "no such file: /not/there"),
        ("./data", "not a program that can be run: ./data"),
        ("npx -y server", 'write "npx" here, and its other 2 words as items of "args"'),
        ("${HOME}/x", "no such file: /home/me/x"),
    ],
)
def test_a_command_is_looked_for_as_it_is_run(file: Path, command: str, told: str | None) -> None:
    (file.parent / "run").write_text("#!/bin/sh\n")
    (file.parent / "run").chmod(0o755)
    (file.parent / "data").write_text("")
    entry = {"command": command, "cwd": "."}
    text = json.dumps({"mcpServers": {"s": entry, "off": entry | {"disabled": True}}})
    warnings = [each for each in found(file, text).findings if each.level == "warning"]
    assert [each.server for each in warnings] == ["s"] * (told is not None)
    assert all(told in each.text for each in warnings if told)


def test_a_secret_in_a_command_is_not_shown(file: Path) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "/opt/${WHERE}/run", "cwd": "/opt/${WHERE}"}}})
    file.write_text(text)
    examination = examine(file, environ=ENVIRON | {"WHERE": "s3cret-s3cret"}, resolve=False)
    assert len(examination.findings) == 2
    assert "s3cret" not in repr(examination.findings)
    assert "no such file: /opt/***WHERE***/run" in examination.findings[0].text


def test_the_path_of_an_entry_counts_for_its_command(file: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine").write_text("#!/bin/sh\n")
    (own / "mine").chmod(0o755)
    entry = {"command": "mine", "env": {"PATH": str(own)}}
    text = json.dumps({"mcpServers": {"s": entry, "t": {"command": "sh", "env": {"PATH": "/nowhere"}}}})
    (warning,) = (each for each in found(file, text).findings if each.level == "warning")
    assert warning.text == "command not found: sh; searched: /nowhere (the PATH of its env)"


# --- excerpts


SECRETS = [
    '"env": {"TOKEN": "s3cret"},',
    '"env": {"TOKEN": "s3cret',
    '"TOKEN": s3cret',
    "'TOKEN': 's3cret'",
    "\u201cTOKEN\u201d: \u201cs3cret\u201d",
    '"args": ["--token", "s3cret", "--key=s3cret"]',
    '"s3cret",',
    '"url": "https://u:s3cret@host/?key=s3cret"',
    '"headers": {"Authorization": "Bearer s3cret"} // s3cret',
    "TOKEN: s3cret",
    'TOKEN = "s3cret"',
    r'"TOKEN": "a\"s3cret"',
]  # fmt: skip


@pytest.mark.parametrize("line", SECRETS)
def test_a_value_that_may_be_secret_is_not_shown(line: str) -> None:
    text = "{\r\n" + line + "\r\n}"
    for offset in range(len(text)):
        assert "s3cret" not in safe_excerpt(text, offset)


def test_keys_and_harmless_values_are_shown_with_the_caret_beneath_the_place() -> None:
    line = '  "a": {"command": "npx", "args": ["-y", "x", 3], "call_timeout": "5", "disabled": true}'
    text = "{\n" + line + "\n}"
    shown, caret = safe_excerpt(text, text.index("3]")).splitlines()
    assert shown == line.replace('"x"', '"*"')
    assert shown[caret.index("^")] == "3"


@given(st.text(alphabet="\"{}[]:, ab\\/*'\n", max_size=60), st.integers(0, 60))
def test_any_text_has_an_excerpt_in_two_lines(text: str, offset: int) -> None:
    assert len(safe_excerpt(text, min(offset, len(text))).split("\n")) == 2


def test_a_reference_is_shown_and_its_default_is_not() -> None:
    text = '"env": {"SECRET": "${SECRET}", "A": "${keychain:a-b}", "B": "${B:-s3cret}", "C": "x${C}"}'
    shown = safe_excerpt(text, 0).splitlines()[0]
    assert '"SECRET": "${SECRET}", "A": "${keychain:a-b}", "B": "${*:-******}"' in shown
