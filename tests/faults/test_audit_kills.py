"""MCPX killed with SIGKILL under load: no call that was sent or answered is missing in its audit log."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from mcpx.core.events.audit import chain
from mcpx.core.events.audit.verifying import verify
from tests.faults.load import effects_in
from tests.faults.served import HELLO, entry
from tests.forking.client import Python

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.linux("state files are mapped there alone"),
]
KILLS = int(os.environ.get("MCPX_AUDIT_KILLS", "3"))
WINDOW = 32
LONGEST_S = 0.15
AS_MAIN = "runpy.run_module('mcpx', run_name='__main__')"


def with_chain(change: str) -> tuple[str, ...]:
    """The options of a Python that runs MCPX with something else in the module of chains."""
    return "-c", f"import runpy, {chain.__name__} as chain; {change}; {AS_MAIN}"


HOW = {
    "usual": ("-m", "mcpx"),
    "rotating": with_chain("chain.MAX_SEGMENT_BYTES = 20_000"),
    "unmapped": with_chain("chain.may_be_mapped = lambda _: False"),
}


class Killed:
    """One MCPX with `WINDOW` calls in flight, until it is killed. `told` are the keys that were answered."""

    def __init__(self, folder: Path, how: str, *, alike: bool) -> None:
        self.told: list[str] = []
        self.sent = 0
        self._alike = alike
        environment = os.environ | {"MCPX_STATE_DIR": str(folder / "state")}
        command = [sys.executable, *HOW[how], "serve", str(folder / "config.json")]
        with (folder / "mcpx.log").open("ab") as log:
            self._process = Python(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment
            )
        self._keys: dict[int, str] = {}
        self._tell({"id": 0, "method": "initialize", "params": HELLO})
        self._hear()
        self._tell({"method": "notifications/initialized"})
        self._tell({"id": 1, "method": "tools/list"})
        self._hear()

    def _tell(self, *messages: dict) -> None:
        lines = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()

    def _hear(self) -> dict | None:
        while line := self._process.stdout.readline():
            if line.endswith(b"\n") and "id" in (message := json.loads(line)):
                return message
        return None

    def _call(self) -> dict:
        key, number = f"k{uuid.uuid4().hex}", 10 + self.sent
        self.sent += 1
        self._keys[number] = key
        given = {"key": key} if self._alike else {"key": key, key: True}
        asked = {"server_name": "s", "tool_name": "count", "arguments": given}
        return {"id": number, "method": "tools/call", "params": {"name": "exec", "arguments": asked}}

    def run(self, seconds: float) -> None:
        """Call until it is killed, after so many seconds, and note what is answered."""
        kill = threading.Timer(seconds, self._process.send_signal, [signal.SIGKILL])
        try:
            self._tell(self._call())
            self._hear_call()  # the server is up
            kill.start()
            self._tell(*(self._call() for _ in range(WINDOW)))
            while self._hear_call():
                self._tell(self._call())
        except BrokenPipeError:
            while self._hear_call():
                pass
        kill.join()
        assert self._end() == -signal.SIGKILL

    def _hear_call(self) -> bool:
        message = self._hear()
        if message is not None:
            assert not message["result"].get("isError"), message
            self.told.append(self._keys[message["id"]])
        return message is not None

    def leave(self) -> None:
        """Have it end in order."""
        assert self._end() == 0

    def _end(self) -> int:
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait(20)


def lines(folder: Path) -> list[dict]:
    files = sorted((folder / "state" / "audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "different"])
def test_each_call_that_was_sent_has_its_line_whenever_mcpx_is_killed(tmp_path, how, alike):
    servers = {"s": entry("good", tmp_path / "server", uuid.uuid4().hex)}
    settings = {"watch_config": False, "login_shell": False, "log_level": "error"}
    (tmp_path / "config.json").write_text(json.dumps({"mcpServers": servers, **settings}))
    told: list[str] = []
    sent = 0
    for _ in range(KILLS):
        killed = Killed(tmp_path, how, alike=alike)
        killed.run(random.uniform(0.001, LONGEST_S))
        told += killed.told
        sent += killed.sent
    for _ in range(2):  # and what is recovered is recovered once
        Killed(tmp_path, how, alike=alike).leave()
    assert [each.problem for each in verify(tmp_path / "state" / "audit").problems] == []
    written = lines(tmp_path)
    assert {line["outcome"] for line in written} <= {"ok", "unknown"}
    assert max(Counter(line["time"] for line in written).values()) == 1
    effects = effects_in([tmp_path / "server"])
    good = sum(line["outcome"] == "ok" for line in written)
    assert len(effects) <= len(written) <= sent
    assert len(told) <= good
    if not alike:
        named = Counter(name for line in written for name in line["arguments"] if name != "key")
        assert max(named.values()) == 1
        assert effects.keys() <= named.keys()
        of = {name: line for line in written for name in line["arguments"]}
        assert [key for key in told if of[key]["outcome"] != "ok"] == []


def test_two_that_write_the_same_log_are_killed_at_the_same_time(tmp_path):
    servers = {"s": entry("good", tmp_path / "server", uuid.uuid4().hex)}
    settings = {"watch_config": False, "login_shell": False, "log_level": "error"}
    (tmp_path / "config.json").write_text(json.dumps({"mcpServers": servers, **settings}))
    told: list[str] = []
    for _ in range(max(2, KILLS // 2)):
        both = [Killed(tmp_path, "usual", alike=False) for _ in range(2)]
        runs = [threading.Thread(target=each.run, args=[random.uniform(0.001, LONGEST_S)]) for each in both]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        told += [key for each in both for key in each.told]
    both = [Killed(tmp_path, "usual", alike=False) for _ in range(2)]  # each takes a chain over
    for each in both:
        each.leave()
    assert [each.problem for each in verify(tmp_path / "state" / "audit").problems] == []
    named = Counter(name for line in lines(tmp_path) for name in line["arguments"] if name != "key")
    assert max(named.values()) == 1
    assert effects_in([tmp_path / "server"]).keys() <= named.keys()
    assert set(told) <= named.keys()
