"""README.md is short, opens with the two commands, and what it refers to is there."""

from __future__ import annotations

import os
import re
import tomllib

import pytest

from mcpx.core.gateway.tools.definitions import NAMES, SCHEMAS
from tests.docs import pages

README = pages.read(pages.ROOT / "README.md")
LARGEST = 8 * 1024  # bytes
PROJECT = tomllib.loads((pages.ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_it_is_short():
    assert len(README.encode()) <= LARGEST


def test_it_opens_with_two_sentences_and_the_two_commands_and_they_are_there():
    title, pitch, block = README.split("\n\n")[:3]
    assert title == "# MCPX"
    assert len(re.findall(r"[.:?!](?:\s|$)", re.sub(r"\(.*?\)", "", pitch).replace(": ", " "))) == 2
    commands = [line.split()[0] for line in block.splitlines() if line.startswith("scripts/")]
    assert commands == ["scripts/demo", "scripts/test"]
    for command in commands:
        assert os.access(pages.ROOT / command, os.X_OK)


def test_a_picture_follows_the_commands():
    assert README.split("\n\n")[3].startswith("<picture>")


def test_it_names_the_three_tools_with_their_parameters():
    rows = pages.table(pages.ROOT / "README.md", "tool", "purpose")
    assert [row[0] for row in rows] == [f"`{name}({parameters(SCHEMAS[name])})`" for name in NAMES]


def parameters(schema):
    required = schema.get("required", [])
    return ", ".join(name if name in required else f"{name}?" for name in schema["properties"])


def test_it_never_tells_to_install_somebody_elses_project():
    for path in pages.PATHS:
        assert not re.search(
            r"\b(pip3?|pipx|uv|uvx)\s+(\w+\s+)*(install|run|tool)\s+(-\S+\s+)*mcpx(?![-\w])", pages.read(path)
        )


def test_the_licence_is_that_of_the_project():
    licence = pages.read(pages.ROOT / "LICENSE")
    assert licence.startswith(
        f"{PROJECT['license'].split()[0]} License\n\nCopyright (c) 2026 The MCPX contributors"
    )
    assert PROJECT["license-files"][0] == "LICENSE"


@pytest.mark.parametrize("figure", ["Tokens", "Speed", "Start", "Conformance"])
def test_a_figure_stands_on_the_page_that_it_links_to(figure):
    (text,) = [
        text for name, text in pages.table(pages.ROOT / "README.md", "", "") if name == f"**{figure}**"
    ]
    (target,) = re.findall(r"\]\(([^)#]+)", text)
    page = pages.read(pages.ROOT / target)
    numbers = re.findall(r"\d[\d,.]*\d|\d", text.partition("](")[0])
    assert len(numbers) > 1
    assert [number for number in numbers if number not in page] == []
