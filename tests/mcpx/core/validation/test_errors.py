"""What a refusal of arguments says of the schema."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.validation.errors import MAX_DESCRIBED_CHARS, Problem, invalid_arguments


def refusal(parameters: int, description: str) -> str:
    properties = {
        f"p{number}": {"type": "integer", "description": description, "maximum": 9}
        for number in range(parameters)
    }
    tool = ToolInfo(server_name="s", name="t", input_schema={"type": "object", "properties": properties})
    return str(invalid_arguments(tool, [Problem("$.p0", "is wrong")]))


def test_a_short_schema_is_shown_with_its_descriptions():
    assert "how many" in refusal(1, "how many").partition("It takes: ")[2]


@pytest.mark.parametrize(
    ("parameters", "description"), [(1, "x" * MAX_DESCRIBED_CHARS), (20, "how many of it")]
)
def test_a_long_schema_keeps_names_types_and_ranges(parameters, description):
    text = refusal(parameters, description)
    assert description not in text
    assert f"p{parameters - 1}?: " in text
    assert "9" in text.partition("It takes: ")[2]
