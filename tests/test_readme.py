"""What README.md says is so: its examples run and print what it says, its tables are the program's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mcpx
from mcpx.cli.main import cli
from mcpx.config import json_schema, parse
from mcpx.errors import CallError, Code

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", README, re.DOTALL)
CONFIGS = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in README.splitlines() if line[:1] == "|"
]


def rows(columns):
    return [row for row in ROWS if len(row) == columns]


def test_it_opens_with_the_two_commands_and_they_are_there():
    opening = README.split("```")[1].splitlines()
    commands = [line.split()[0] for line in opening if line.startswith("scripts/")]
    assert commands == ["scripts/demo", "scripts/test"]
    assert README.startswith("# MCPX\n\n```")
    for command in commands:
        assert os.access(ROOT / command, os.X_OK)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=["the Python API", "supervisors"])
def test_an_example_runs_and_prints_what_the_readme_says(code, printed, tmp_path):
    (tmp_path / "example.py").write_text(code, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=45,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed


def test_both_examples_and_every_block_of_python_are_run():
    assert len(EXAMPLES) == README.count("```python") == 2


@pytest.mark.parametrize("text", CONFIGS, ids=["client", "VS Code", "servers"])
def test_a_configuration_in_the_readme_is_one(text):
    config = parse(text, where="README.md", environ={"SEARCH_TOKEN": "x"})
    assert config.notices == ()
    assert [server.disabled for server in config.servers.values()] == [None] * len(config.servers)


def test_the_transports_of_the_example_are_those_it_speaks_of():
    servers = parse(CONFIGS[-1], where="README.md", environ={"SEARCH_TOKEN": "x"}).servers
    assert [server.transport.kind for server in servers.values()] == ["stdio", "http", "sse"]
    assert servers["old"].limits.call_timeout == 30


def test_the_table_of_settings_is_that_of_the_program():
    schema = json_schema()
    forms = {"mcpServers", "servers", "mcp", "mcp_servers"}
    for_one = schema["$defs"]["server"]["properties"]
    expected = []
    for key, value in schema["properties"].items():
        if key not in forms:
            inner = {f"{key}.{name}": one for name, one in value.get("properties", {}).items()} or {
                key: value
            }
            expected += [
                [
                    f"`{name}`",
                    f"`{json.dumps(one['default'])}`",
                    "yes" if key in for_one else "",
                    one["description"],
                ]
                for name, one in inner.items()
            ]
    start = next(
        number for number, row in enumerate(rows(4)) if row == ["setting", "default", "one server", "meaning"]
    )
    assert rows(4)[start + 1 :][: len(expected)] == expected
    assert len(expected) > 20


def test_the_table_of_commands_names_every_command():
    listed = {row[0].split()[1] for row in rows(2) if row[0].startswith("`mcpx ")}
    assert listed == set(cli.commands)


def test_the_table_of_outcomes_is_that_of_the_errors():
    listed = {
        code: row[0].strip("`")
        for row in rows(3)
        if row[0] in {"`not_sent`", "`unknown`", "`failed`"}
        for code in re.findall(r"`(\w+)`", row[1])
    }
    assert listed == {str(code): str(CallError(code, "", server="").outcome) for code in Code}


def test_the_table_of_the_python_api_names_what_can_be_imported():
    table = README.split("| name in `mcpx` |")[1].split("\n\n")[0]
    names = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert names == set(mcpx.__all__) - {"__version__"}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_a_link_leads_somewhere(target):
    assert (ROOT / target).exists()
