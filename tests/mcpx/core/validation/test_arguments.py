"""Arguments as they come: read, or refused in words, whatever they are; and checked by processes.

Those give verdicts in time or none, none is left behind, and no server is in another's way.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.validation.arguments import (
    MAX_OVERRUNS,
    MAX_RESPELLED_BYTES,
    ArgumentChecker,
    encode_arguments,
    read_raw_arguments,
)
from mcpx.core.validation.bounds import MAX_CHECKED_BYTES, MAX_INLINE_BYTES, MAX_TEXT_BYTES
from mcpx.core.validation.errors import DEADLINE_S
from mcpx.core.wire.workers import pool, worker
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import PATIENCE_S, soon
from tests.mcpx.serving import is_alive

TOOL = ToolInfo(server_name="s", name="t", input_schema={"type": "object"})
LARGE = b'{"a":"' + b"x" * MAX_INLINE_BYTES + b'"}'


def refused(raw: bytes) -> str:
    with pytest.raises(CallError) as caught:
        read_raw_arguments(raw, TOOL)
    assert (caught.value.code, caught.value.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
    assert "s.t" in str(caught.value)
    return str(caught.value.details["problems"][0]["problem"])


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a":1e400}', "out of range"),
        (b'{"a":' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested too deeply"),
        (b'"{\\"a\\":1e400}"', "not JSON"),
        (b'"' + b"[" * 1000 + b'"', "not JSON"),
        (b"[" + b"1," * MAX_INLINE_BYTES + b"1]", "got an array"),
        (b'"' + b"x" * MAX_INLINE_BYTES + b'"', "not JSON"),
        (b'"[' + b"1," * MAX_INLINE_BYTES + b'1]"', "got an array"),
        (b'"' + b"x" * MAX_TEXT_BYTES + b'"', "send the object itself"),
    ],
)
def test_what_cannot_be_read_is_refused(raw, said):
    assert said in refused(raw)


def test_a_large_object_is_left_as_it_is():
    assert read_raw_arguments(LARGE, TOOL) == (None, LARGE)
    assert read_raw_arguments(msgspec.Raw(b"  " + LARGE), TOOL)[0] is None


def test_a_large_object_in_a_string_becomes_one_line():
    text = b'{\n"a":\r\n"' + b"x" * MAX_INLINE_BYTES + b'"}'
    read, raw = read_raw_arguments(msgspec.json.encode(text.decode()), TOOL)
    assert read is None
    assert b"\n" not in raw
    assert b"\r" not in raw
    assert msgspec.json.decode(raw) == msgspec.json.decode(LARGE)


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "given",
    [
        {"a": float("inf")},
        {"a": [{"b": float("nan")}], "c": None},
        {"a": deep(100_000)},
        {"a": object()},
        {"a": "\ud800"},
        {(1, 2): 3},
    ],
    ids=["infinity", "nan", "deep", "object", "surrogate", "key"],
)
def test_what_a_program_gives_that_json_cannot_say_is_refused(given):
    with pytest.raises(CallError) as caught:
        encode_arguments(given, server="s", tool="t")
    assert (caught.value.code, caught.value.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
    assert len(str(caught.value)) < 400


def test_what_json_can_say_is_encoded():
    assert encode_arguments({"a": None, "b": 10**30}, server="s", tool="t") == b'{"a":null,"b":1%s}' % (
        b"0" * 30
    )


# --- the checker

NOT_PLAIN = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}}
ENDLESS = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
HANGS = {"a": "a" * 40 + "!"}


@pytest.fixture
async def checker():
    made = ArgumentChecker(pool.WorkerPool())
    yield made
    pids = processes(made)
    made._pool.close()
    assert not [pid for pid in pids if is_alive(pid)]


def processes(checker: ArgumentChecker) -> list[int]:
    return [worker.popen.pid for worker in checker._pool.workers]


def tool(schema, *, server: str = "s", name: str = "t") -> ToolInfo:
    return ToolInfo(server_name=server, name=name, input_schema=schema)


async def judge(checker: ArgumentChecker, tool: ToolInfo, arguments) -> CallError | None:
    raw = arguments if isinstance(arguments, bytes) else msgspec.json.encode(arguments)
    verdict: asyncio.Future[CallError | bytes] = asyncio.get_running_loop().create_future()
    checker.judge(tool, raw, verdict.set_result)
    with anyio.fail_after(PATIENCE_S):
        judged = await verdict
    return judged if isinstance(judged, CallError) else None


@pytest.mark.anyio
async def test_what_is_not_plain_is_judged_by_a_process_that_stays(checker):
    given = tool(NOT_PLAIN)
    assert not checker.accepts(given, {"a": "x"}, 9)
    assert await judge(checker, given, {"a": "x"}) is None
    wrong = await judge(checker, given, {"a": "y"})
    assert wrong.details["problems"] == [{"path": "$.a", "problem": "'y' does not match '^x'"}]
    assert "It takes: {a?: string" in str(wrong)
    assert len(processes(checker)) == 1
    assert checker.unchecked(given) is None


@pytest.mark.anyio
async def test_what_strings_spell_is_known_without_a_process_where_the_schema_is_plain(checker):
    plain = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert checker.respelled(tool(plain), {"n": "5"}, 9) == b'{"n":5}'
    assert checker.respelled(tool(plain), {"n": "x"}, 9) is None
    assert checker.respelled(tool(plain), {"n": "5"}, MAX_RESPELLED_BYTES + 1) is None
    numbered = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 5}}}
    assert checker.respelled(tool(numbered, name="m"), {"n": "5"}, 9) is None
    assert processes(checker) == []
    judged: list[object] = []
    checker.judge(tool(numbered, name="m"), b'{"n":"5"}', judged.append)
    await soon(lambda: judged)
    assert judged == [b'{"n":5}']


@pytest.mark.anyio
async def test_plain_arguments_start_no_process(checker):
    assert checker.accepts(tool({"type": "object", "properties": {"a": {"type": "string"}}}), {"a": "x"}, 9)
    assert processes(checker) == []


@pytest.mark.anyio
async def test_a_check_without_an_end_is_given_up_and_its_tool_left_unchecked_and_that_is_said_once(checker):
    given = tool(ENDLESS)
    with capture_logs() as logs:
        assert await judge(checker, given, HANGS) is None
        began = time.monotonic()
        assert await judge(checker, given, HANGS) is None
        assert time.monotonic() - began < DEADLINE_S
    assert "took over 0.5 s" in checker.unchecked(given)
    assert checker.accepts(given, HANGS, 50)
    assert [each["event"] for each in logs] == ["arguments.unchecked"]
    assert await judge(checker, tool(NOT_PLAIN, name="other"), {"a": "y"}) is not None


@pytest.mark.anyio
async def test_another_server_waits_for_none_of_that(checker):
    await judge(checker, tool(NOT_PLAIN, server="good"), {"a": "x"})
    done: list[object] = []
    for number in range(3):
        bad = tool(ENDLESS, server="bad", name=f"t{number}")
        checker.judge(bad, msgspec.json.encode(HANGS), done.append)
    await soon(lambda: len(processes(checker)) == 2)  # it takes long: another is made ready
    await soon(lambda: all(worker.is_ready for worker in checker._pool.workers))
    assert await judge(checker, tool(NOT_PLAIN, server="good"), {"a": "y"}) is not None
    await soon(lambda: len(done) == 3)
    assert len(processes(checker)) <= pool.MAX_WORKERS


@pytest.mark.anyio
async def test_a_server_whose_checks_do_not_end_is_checked_no_more(checker):
    for number in range(MAX_OVERRUNS):
        await judge(checker, tool(ENDLESS, name=f"t{number}"), HANGS)
    innocent = tool(NOT_PLAIN, name="innocent")
    assert await judge(checker, innocent, {"a": "y"}) is None
    assert "too long" in checker.unchecked(innocent)
    assert await judge(checker, tool(NOT_PLAIN, server="another"), {"a": "y"}) is not None


@pytest.mark.anyio
async def test_a_schema_that_cannot_be_used_is_known_without_a_call(checker):
    good, bad = tool(NOT_PLAIN), tool({"type": "object", "$ref": "#"}, name="bad")
    for each in (good, bad):
        done = anyio.Event()
        checker.look(each, done.set)
        with anyio.fail_after(PATIENCE_S):
            await done.wait()
    assert checker.unchecked(good) is None
    assert checker.unchecked(bad) == "the schema refers to itself without end"


@pytest.mark.anyio
async def test_a_process_that_dies_costs_its_own_verdict_only(checker):
    given = tool(ENDLESS)
    await judge(checker, tool(NOT_PLAIN, name="warm"), {"a": "x"})
    verdict: asyncio.Future[CallError | None] = asyncio.get_running_loop().create_future()
    checker.judge(given, msgspec.json.encode(HANGS), verdict.set_result)
    (pid,) = processes(checker)
    os.kill(pid, signal.SIGKILL)
    assert await verdict == msgspec.json.encode(HANGS)
    assert await judge(checker, tool(NOT_PLAIN, name="other"), {"a": "y"}) is not None
    await soon(lambda: not is_alive(pid))


@pytest.mark.anyio
async def test_a_question_that_was_taken_back_is_not_answered(checker):
    called: list[object] = []
    cancel = checker.judge(tool(NOT_PLAIN), b'{"a":"y"}', called.append)
    cancel()
    assert await judge(checker, tool(NOT_PLAIN, name="other"), {"a": "y"}) is not None
    assert called == []


@pytest.mark.anyio
async def test_an_idle_process_is_ended(checker, monkeypatch):
    monkeypatch.setattr(worker, "IDLE_TIMEOUT_S", 0.01)
    await judge(checker, tool(NOT_PLAIN), {"a": "x"})
    await soon(lambda: not processes(checker) and not checker._pool._dying)


@pytest.mark.anyio
async def test_large_arguments_are_read_by_the_process(checker):
    numbered = {"type": "object", "properties": {"n": {"type": "integer"}}}
    given, text = tool(numbered), b'{"text":"' + b"x" * MAX_INLINE_BYTES + b'","n":'
    assert not checker.accepts(given, {}, len(text))
    assert await judge(checker, given, text + b"1}") is None
    wrong = await judge(checker, given, text + b'"x"}')
    assert wrong.details["problems"] == [{"path": "$.n", "problem": 'expected integer, got the string "x"'}]
    assert "out of range" in str(await judge(checker, given, text + b"1e400}"))
    assert await judge(checker, given, b" " * MAX_CHECKED_BYTES + b"{}") is None
    assert checker.unchecked(given) is None


@pytest.mark.parametrize("how", ["idle", "at work"])
@pytest.mark.anyio
async def test_no_process_outlives_its_mcpx(how):
    arguments = HANGS if how == "at work" else {"a": "x"}
    program = f"""
import asyncio, msgspec
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.validation.arguments import ArgumentChecker
async def main():
    checker = ArgumentChecker(WorkerPool())
    tool = ToolInfo(server_name="s", name="t", input_schema={ENDLESS!r})
    done = asyncio.Event()
    checker.judge(tool, b'{{"a":1}}', lambda _wrong: done.set())
    await done.wait()
    checker.judge(tool, msgspec.json.encode({arguments!r}), lambda _wrong: None)
    await asyncio.sleep(0.1)
    print(checker._pool.workers[0].popen.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    async with await anyio.open_process([sys.executable, "-c", program]) as mcpx:
        line = await mcpx.stdout.receive()
        mcpx.kill()
    with anyio.fail_after(PATIENCE_S):
        while is_alive(int(line)):  # noqa: ASYNC110 - nobody tells: it is nobody's child
            await anyio.sleep(0.02)
