"""The texts that are sent around: deterministic, and neither too easy nor too hard to encode."""

from __future__ import annotations

import json
import random

SMALL = "the quick brown fox jumps over the lazy dog"


def log_text(size: int) -> str:
    """About `size` characters of log lines: quotes to escape, now and then a character beyond ASCII."""
    line = '2026-11-20T20:45:06Z INFO worker-{n:03d} wrote {b} bytes to "/data/part-{n}.csv" in {b} µs\n'
    made = "".join(line.format(n=i % 1000, b=i * 7919 % 100_000) for i in range(size // 80 + 1))
    return made[:size]


def json_text(size: int) -> str:
    """About `size` characters of JSON: rows of one shape, as an API gives them."""
    dice = random.Random(7)
    rows: list[dict] = []
    length = 0
    while length < size:
        i = len(rows)
        rows.append(
            {
                "id": i,
                "name": f"Customer {i}",
                "email": f"customer{i}@example.com",
                "city": dice.choice(["Oslo", "Lima", "Kyoto", "Accra", "Quito"]),
                "balance": dice.randrange(10_000_000) / 100,
                "active": dice.random() < 0.7,  # noqa: PLR2004 - most are
            }
        )
        length += len(json.dumps(rows[-1])) + 2
    return json.dumps(rows)
