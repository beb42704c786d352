"""A real tokenizer for tests, whose package carries the tables of the two encodings in wide use."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "data" / "livemcptool" / "tools.json"
ENCODINGS = ("o200k_base", "cl100k_base")


def count(texts: list[str]) -> dict[str, list[int]]:
    """Token counts of each text: `{"o200k_base": [...], "cl100k_base": [...]}`."""
    return {name: [len(_encoding(name).encode(text)) for text in texts] for name in ENCODINGS}


@cache
def _encoding(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its tables in an older way
        from bpe_openai import get_encoding  # noqa: PLC0415 - 200 MB of tables, for those who count

        return get_encoding(name)


def corpus() -> dict[str, list[dict[str, object]]]:
    """The 527-tool corpus by server: `{server: [{"tool", "description", "inputSchema"}]}`."""
    servers: dict[str, list[dict[str, object]]] = {}
    for row in json.loads(CORPUS.read_text())["tools"]:
        servers.setdefault(row["server"], []).append(row)
    return servers
