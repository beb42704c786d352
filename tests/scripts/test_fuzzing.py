"""Every parser that strangers reach, fuzzed for a second; and that the loop finds what is planted."""

from __future__ import annotations

import time

import pytest

from scripts.lab.fuzzing import loop
from scripts.lab.fuzzing.__main__ import TARGETS, main
from scripts.lab.fuzzing.loop import Target, TooMuch, run

SECONDS = 1


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_promise(name):
    report = run(TARGETS[name], seconds=SECONDS)
    assert report.finding is None, f"{report.finding}; scripts/fuzz {name} says more"
    assert report.runs > len(TARGETS[name].seeds)
    assert report.shapes > 5


def planted(data):
    if b"[[[" in data:
        raise ValueError("planted")
    return data.count(b"["), len(data) > 20


def test_what_is_planted_is_found_and_made_small():
    report = run(Target("planted", "", (b'{"a": [1, 2, 3], "b": 4}',), (), planted), seconds=30)
    assert report.finding.data == b"[[["
    assert str(report.finding.error) == "planted"


def test_what_takes_long_is_found(monkeypatch):
    monkeypatch.setattr(loop, "MAX_SECONDS", 0.1)
    monkeypatch.setattr(loop, "SMALLER_TRIES", 5)

    def slow(data):
        began = time.thread_time()
        while data.count(b"a") > 3 and time.thread_time() < began + 0.15:
            pass
        return data.count(b"a")

    report = run(Target("slow", "", (b"ab",), (b"a",), slow), seconds=60)
    assert isinstance(report.finding.error, TooMuch)


def test_the_same_seed_does_the_same():
    target = TARGETS["addresses"]
    reports = [run(target, seconds=60, seed=3, at_most=400) for _ in range(2)]
    assert reports[0] == reports[1]


def test_one_input_is_tried_again(tmp_path, capsys):
    file = tmp_path / "input"
    file.write_bytes(b"mcpx://result/0123abcd?from=x")
    assert main(["--input", str(file), "addresses"]) == 0
    assert "a whole number from" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["no-such"])
    assert "there are lines, envelopes" in capsys.readouterr().err
