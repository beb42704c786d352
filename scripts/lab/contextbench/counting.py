"""Tokens by a real tokenizer (o200k_base), and JSON in the compact form in which it is counted.

`python -m scripts.lab.contextbench.counting` reads tools as JSON and prints the tokens of their menu.
"""

from __future__ import annotations

import json
import sys
import warnings
from functools import cache
from typing import Any

from scripts.lab.contextbench.recorded import JSON

ENCODING = "o200k_base"


@cache
def _encoding() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its tables in an older way
        from bpe_openai import get_encoding  # noqa: PLC0415 - 200 MB of tables

        return get_encoding(ENCODING)


def tokens(text: str) -> int:
    """The tokens of a text."""
    return len(_encoding().encode(text))


def compact(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def menu_tokens(tools: list[JSON]) -> int:
    """The tokens of what a model sees of `tools/list`: names, descriptions and input schemas."""
    fields = ("name", "description", "inputSchema")
    return tokens(compact([{field: tool[field] for field in fields if field in tool} for tool in tools]))


if __name__ == "__main__":
    print(menu_tokens(json.load(sys.stdin)))
