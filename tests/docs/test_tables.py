"""What the pages take from the code is what the code says now."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

import mcpx
from mcpx.cli.main import cli
from mcpx.errors import CallError, Code
from scripts.lab.documentation.__main__ import inserted
from scripts.lab.documentation.drawings import DRAWINGS
from scripts.lab.documentation.regions import regions, rewritten
from scripts.lab.documentation.tables import tables
from tests.docs import pages
from tests.faults.report import HOSTILE_COLUMNS
from tests.faults.rows import ROWS
from tests.faults.rows_hostile import HOSTILE_ROWS

DOCS = pages.ROOT / "docs"
GENERATED = tables()
REGIONS = {
    (pages.name(path), kind, name): body
    for path in pages.PATHS
    for kind, name, body in regions(pages.read(path))
}
SOURCES = [
    path.read_text("utf-8") for folder in ("mcpx", "scripts") for path in (pages.ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("region", [key for key in REGIONS if key[1] == "generated"], ids=lambda key: key[2])
def test_a_generated_part_is_up_to_date(region):
    assert REGIONS[region].strip() == GENERATED[region[2]].strip(), "run scripts/docs"


def test_every_part_that_can_be_generated_is_somewhere():
    assert {name for _, kind, name in REGIONS if kind == "generated"} == set(GENERATED)


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_a_drawing_is_up_to_date(drawing):
    assert (DOCS / "images" / drawing).read_text("utf-8") == DRAWINGS[drawing](), "run scripts/docs"


def test_a_part_that_drifted_is_found_and_mended():
    page = "before\n<!-- generated: errors -->\nold\n<!-- end -->\nafter\n"
    mended = rewritten(page, {"errors": "new"}, kind="generated")
    assert mended == page.replace("old", "new")
    assert rewritten(mended, {"errors": "newer"}, kind="measured") == mended


def test_a_region_that_nobody_writes_is_an_error():
    with pytest.raises(KeyError):
        rewritten("<!-- generated: no-such -->\n<!-- end -->", {}, kind="generated")


def test_the_settings_are_all_there():
    listed = [
        row[0]
        for row in pages.table(DOCS / "configuration.md", "setting", "default", "per server", "meaning")
    ]
    assert len(listed) == len(set(listed)) > 20


def test_the_errors_have_the_outcomes_of_the_program():
    listed = {
        row[0]: row[1]
        for row in pages.table(DOCS / "troubleshooting.md", "code", "outcome", "when", "what to do")
    }
    assert listed == {f"`{code}`": f"`{CallError(code, '', server='').outcome}`" for code in Code}


def test_the_table_of_commands_names_every_command():
    listed = {row[0].strip("`").split()[1] for row in pages.table(DOCS / "cli.md", "command", "does")}
    others = {"list", "mcp"}  # other names of status and add
    assert listed == set(cli.list_commands(click.Context(cli))) - others


def test_the_table_of_the_python_api_names_what_can_be_imported():
    rows = pages.table(DOCS / "architecture.md", "name in `mcpx`", "what it is")
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert names == set(mcpx.__all__) - {"__version__"}


def test_the_environment_variables_are_those_that_the_program_knows():
    listed = {name.strip("`") for name, _ in pages.table(DOCS / "configuration.md", "variable", "meaning")}
    known = set(re.findall(r"[\"'](MCPX_[A-Z_]*[A-Z])[\"']", "\n".join(SOURCES)))
    assert listed - {"NO_COLOR"} <= known
    everything = "\n".join(map(pages.read, pages.PATHS))
    assert {name for name in known if f"`{name}`" not in everything} == set()


def test_the_table_of_faults_has_a_row_for_each_fault_that_is_played():
    head = ("fault", "the caller saw", "after", "the server then", "after", "left over")
    assert [row[0] for row in pages.table(DOCS / "faults.md", *head)] == list(ROWS)


def test_the_readme_counts_the_faults_that_are_played():
    readme = pages.read(pages.ROOT / "README.md")
    assert f"{len(ROWS)} faults" in readme
    (at_least,) = re.findall(r"over (\d+) hostile or odd", readme)
    assert len(HOSTILE_ROWS) > int(at_least)


def test_the_table_of_what_is_hostile_has_a_row_for_each_that_is_played():
    assert [row[0] for row in pages.table(DOCS / "faults.md", *HOSTILE_COLUMNS)] == list(HOSTILE_ROWS)


def test_the_legend_of_the_second_table_explains_its_columns():
    legends = [[row[0] for row in table[1:]] for table in pages.tables(DOCS / "faults.md")]
    assert ", ".join(HOSTILE_COLUMNS) in [", ".join(legend) for legend in legends]


def test_the_fields_of_errors_are_fields_that_the_program_writes():
    rows = pages.table(DOCS / "troubleshooting.md", "field", "with", "content")
    fields = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert len(fields) > 10
    assert {name for name in fields if not re.search(rf"\b{name}(\"|=)", "\n".join(SOURCES))} == set()
    codes = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert codes <= set(map(str, Code))


def test_measured_tables_go_into_their_regions_and_nowhere_else():
    page = DOCS / "faults.md"
    ((path, text),) = inserted(("hostile",), "| a |\n|---|\n").items()
    assert path == page
    assert text == pages.read(page).replace(
        "<!-- measured: hostile -->\n" + REGIONS[pages.name(page), "measured", "hostile"],
        "<!-- measured: hostile -->\n| a |\n|---|\n",
    )


@pytest.mark.parametrize("names", [("hostile",), ("hostile", "no-such")])
def test_tables_without_a_region_are_refused(names):
    with pytest.raises(click.UsageError):
        inserted(names, "one\n\ntwo\n")


def test_the_packages_are_those_of_the_source():
    for place in ("mcpx", "mcpx/core"):
        folders = {f"`{path.parent.name}/`" for path in (pages.ROOT / place).glob("*/__init__.py")}
        rows = pages.table(DOCS / "architecture.md", f"folder in `{place}/`", "holds")
        assert {row[0] for row in rows} == folders


def test_the_files_that_a_page_on_the_code_names_are_there():
    text = pages.read(DOCS / "architecture.md")
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|mjs))`", text))
    assert len(named) > 40
    there = {str(path.relative_to(pages.ROOT)) for path in pages.ROOT.glob("mcpx/**/*.*")}
    there |= {str(path.relative_to(pages.ROOT)) for path in pages.ROOT.glob("s*/**/*.py")}
    there |= {name for name in named if name.startswith("tests/") and (pages.ROOT / name).is_file()}
    assert [
        name for name in sorted(named) if not any(path.endswith(f"/{name}") or path == name for path in there)
    ] == []


def test_each_best_practice_names_tests_that_there_are():
    text = (DOCS / "security.md").read_text()
    table = text.partition("## Against the specification")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", table)
    assert len(named) > 30
    there = []
    for folder, inner, files in os.walk(pages.ROOT / "tests"):
        inner[:] = [name for name in inner if name[0] not in "._" and name != "node_modules"]
        there += [f"{folder}/{name}" for name in files]
    for file, test in named:
        texts = [Path(path).read_text() for path in there if path.endswith(f"/{file}")]
        assert any(f"def {test}(" in text for text in texts), (file, test)
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    assert [row for row in rows if "::" not in row] == []
