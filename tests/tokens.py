"""A real tokenizer for tests: token counts of texts, by the tables that npm's gpt-tokenizer carries."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

LIVE = Path(__file__).parent / "live"
CORPUS = Path(__file__).parent / "data" / "livemcptool" / "tools.json"


def available() -> bool:
    """Whether node and the tokenizer package are there."""
    return shutil.which("node") is not None and (LIVE / "node_modules" / "gpt-tokenizer").is_dir()


def count(texts: list[str]) -> dict[str, list[int]]:
    """Token counts of each text: `{"o200k_base": [...], "cl100k_base": [...]}`."""
    done = subprocess.run(
        ["node", "count_tokens.mjs"],
        cwd=LIVE,
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    counts: dict[str, list[int]] = json.loads(done.stdout)
    return counts


def corpus() -> dict[str, list[dict[str, object]]]:
    """The 527-tool corpus by server: `{server: [{"tool", "description", "inputSchema"}]}`."""
    servers: dict[str, list[dict[str, object]]] = {}
    for row in json.loads(CORPUS.read_text())["tools"]:
        servers.setdefault(row["server"], []).append(row)
    return servers
