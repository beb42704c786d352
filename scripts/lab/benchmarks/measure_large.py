"""Large results: ten megabytes of text, and a megabyte of JSON that becomes TOON."""

from __future__ import annotations

import statistics
import time

from client import opened
from payloads import SMALL
from process import Unmeasured
from targets import MCPX, Target

from mcpx.core.rendering.toon import DEFAULT_FORM, decode, encode, read_json

SETTLE_S = 0.3
CALL_S = 60.0


def measure_large(targets: list[Target], text: str, *, rounds: int) -> dict[str, dict]:
    """For each target `ms`, a value a round, and `peak`: bytes above idle at most, over all rounds.

    The processes are fresh; a first call that is not counted is part of the peak. Above idle means VmHWM less
    the RSS after one small call.
    """
    figures: dict[str, dict] = {}
    with opened(*targets) as clients:
        idle = {}
        for client in clients:
            with client.bounded(CALL_S, "first call"):
                client.one_by_one(client.lines(1, "echo", {"text": SMALL}), SMALL, 1)
            time.sleep(SETTLE_S)
            idle[client.name] = client.process.memory()["rss"]
            client.process.forget_peak()
            figures[client.name] = {"ms": []}
        for number in range(rounds + 1):
            for client in clients:
                with client.bounded(CALL_S, "a large text"):
                    calls = client.lines(1, "payload", {"name": "text"})
                    (took,) = client.one_by_one(calls, text, CALL_S)
                if number:
                    figures[client.name]["ms"].append(took * 1000)
        for client in clients:
            figures[client.name]["peak"] = client.process.memory()["peak"] - idle[client.name]
    return figures


def measure_toon(targets: list[Target], text: str, *, rounds: int) -> dict[str, list[float] | int]:
    """For MCPX, a value a round: `ms` of the call, `toon_ms` in the encoder, `shaping_ms` with its checks.

    `direct_ms` is the same call without MCPX; `characters` and `toon_characters` what came of it. The
    times in the encoder are taken here, on the same text.
    """
    pair = [target for target in targets if target.name in (targets[0].name, MCPX)]
    figures: dict[str, list[float]] = {"ms": [], "direct_ms": [], "toon_ms": [], "shaping_ms": []}
    value = read_json(text).value
    with opened(*pair) as (direct, gateway):
        for number in range(rounds + 1):
            with direct.bounded(CALL_S, "a JSON text"):
                took = direct.one_by_one(direct.lines(1, "payload", {"name": "json"}), text, CALL_S)[0]
            with gateway.bounded(CALL_S, "a JSON text"):
                through = gateway.one_by_one(gateway.lines(1, "payload", {"name": "json"}), None, CALL_S)[0]
            inside = _timed(lambda: encode(value)), _timed(lambda: DEFAULT_FORM(text))
            if number:
                for name, seconds in zip(figures, (through, took, *inside), strict=True):
                    figures[name].append(seconds * 1000)
        with gateway.bounded(CALL_S, "a JSON text"):
            (toon,) = gateway.request("tools/call", gateway.target.call("payload", {"name": "json"}))[
                "content"
            ]
    if decode(toon["text"]) != value or len(toon["text"]) >= len(text):
        raise Unmeasured("mcpx: the JSON text did not come back as TOON of the same value")
    return {**figures, "characters": len(text), "toon_characters": len(toon["text"])}


def _timed(work: object) -> float:
    took = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return statistics.median(took)
