"""Which calls are in the audit log of a hub, and with what outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpx.errors import CallError
from mcpx.parts import open_hub
from tests.mcpx.scripted import config_of, entry

pytestmark = pytest.mark.anyio


def lines(folder: Path) -> list[dict]:
    """The lines of all chains, in order."""
    files = sorted((folder / "audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


async def test_each_call_is_a_line_with_its_outcome_and_no_values(tmp_path):
    async with open_hub(config_of({"s": entry()}), state=tmp_path) as hub:
        await hub.settled(50)
        await hub.executor.execute("s", "echo", {"text": "a value"})
        with pytest.raises(CallError):
            await hub.calls.read("s", "mem://a")
        for tool, arguments in (("ehco", {"text": "x"}), ("echo", {"txt": 3})):
            with pytest.raises(CallError):
                await hub.executor.execute("s", tool, arguments)
    found = lines(tmp_path)
    assert [
        (each["kind"], each["name"], each["arguments"], each["outcome"], each["code"]) for each in found
    ] == [
        ("tool", "echo", ["text"], "ok", None),
        ("resource", "mem://a", [], "not_sent", "unknown_resource"),
        ("tool", "ehco", ["text"], "not_sent", "unknown_tool"),
        ("tool", "echo", ["txt"], "not_sent", "invalid_arguments"),
    ]
    assert {each["transport"] for each in found} == {"library"}
    assert [each["seq"] for each in found] == [1, 2, 3, 4]
    assert "a value" not in json.dumps(found)
