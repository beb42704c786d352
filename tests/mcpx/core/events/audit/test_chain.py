"""The chain of lines: goes on from process to process, and shows what was changed or is missing."""

from __future__ import annotations

import mmap
import os
import stat
import struct
from hashlib import sha256

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpx.core.events.audit import calls, chain
from mcpx.core.events.audit.calls import MAX_SLOTS, SLOT_BYTES
from mcpx.core.events.audit.reading import Selection, last_lines
from mcpx.core.events.audit.verifying import verify
from mcpx.core.wire.turn import TURN, do_before, flush_all
from mcpx.errors import CallError, Code
from supervisors import Abandoned
from tests.mcpx.core.events.audit.conftest import RESULT, Audit, Log, begin, call

pytestmark = pytest.mark.anyio


def left(log) -> Audit:
    """A log whose process was killed: nothing of it is closed, but the kernel takes its locks."""
    audit = Audit(lambda: log.folder)
    audit.configure(enabled=True, required=False, redact=None)
    audit.open()
    return audit


def kill(audit: Audit) -> None:
    audit._chain.slots.close()
    os.close(audit._chain._state)
    os.close(audit._chain._lines)
    if audit._chain._timer is not None:
        audit._chain._timer.cancel()


async def test_a_chain_goes_on_from_process_to_process(log):
    log.write("one", "two")
    log.write("three")
    assert [(line["name"], line["seq"]) for line in log.lines()] == [("one", 1), ("two", 2), ("three", 3)]
    assert len(log.files) == 1
    assert log.problems() == []


async def test_its_files_are_for_their_owner_alone(log):
    log.write("one")
    modes = {stat.S_IMODE(file.stat().st_mode) for file in log.folder.iterdir()}
    assert (stat.S_IMODE(log.folder.stat().st_mode), modes) == (0o700, {0o600})


async def test_processes_that_write_at_the_same_time_have_a_chain_each(log):
    with log.audit() as one, log.audit() as other:
        call(one, "one")
        call(other, "other")
    assert [file.name for file in log.files] == ["1-000000000001.jsonl", "2-000000000001.jsonl"]
    assert log.problems() == []


async def test_what_was_open_when_a_process_was_killed_is_written_by_the_next_one_once(log):
    audit = left(log)
    call(audit, "done")
    await anyio.lowlevel.checkpoint()
    lost = [begin(audit, f"lost {number}") for number in range(3)]
    ended = begin(audit, "ended")
    ended.resolve(RESULT)
    await anyio.lowlevel.checkpoint()
    kill(audit)
    log.write("next")
    log.write("last")
    assert log.names() == ["done", "lost 0", "lost 1", "lost 2", "ended", "next", "last"]
    assert log.lines()[4]["outcome"] == "ok"  # its line was not written yet; its end stood in its slot
    assert {(line["outcome"], line["code"]) for line in log.lines() if line["name"].startswith("lost")} == {
        ("unknown", "daemon_died")
    }
    assert log.lines()[1]["arguments"] == ["text"]
    assert log.problems() == []
    assert len(lost) == 3


@pytest.mark.parametrize("mapped", [True, False])
async def test_on_any_file_system_an_end_is_known_to_the_next_process(log, mapped, monkeypatch):
    monkeypatch.setattr(chain, "may_be_mapped", lambda _folder: mapped)
    audit = left(log)
    call(audit, "first")
    await anyio.lowlevel.checkpoint()
    begin(audit, "answered").resolve(RESULT)
    begin(audit, "late").reject(CallError(Code.TIMEOUT, "", server="s"))
    begin(audit, "left").abandon()
    open_one = begin(audit, "open")
    kill(audit)
    log.write("next")
    assert [(line["name"], line["outcome"], line["code"]) for line in log.lines()] == [
        ("first", "ok", None),
        ("answered", "ok", "daemon_died"),
        ("late", "unknown", "timeout"),
        ("left", "unknown", "cancelled"),
        ("open", "unknown", "daemon_died"),
        ("next", "ok", None),
    ]
    assert not open_one.settled
    assert log.problems() == []


async def test_what_begins_and_ends_in_a_turn_is_noted_before_anything_of_it_is_written(log, tmp_path):
    audit, other = left(log), left(Log(tmp_path / "other" / "audit"))  # two hubs
    TURN.is_open = True
    replies = [begin(audit, f"call {number}") for number in range(3)]
    elsewhere = begin(other, "elsewhere")
    do_before()
    replies[0].resolve(RESULT)
    begin(audit, "at once").resolve(RESULT)
    checked = audit.begin("tool", "s", "checked", b'{"text":1}')
    checked.names = ("text",)
    do_before()
    TURN.is_open = False
    TURN.after.clear()  # the turn in which its lines would have been written
    for each in (audit, other):
        kill(each)
    log.write("next")
    assert [(line["name"], line["outcome"], line["arguments"]) for line in log.lines()] == [
        ("call 0", "ok", ["text"]),
        ("call 1", "unknown", ["text"]),
        ("call 2", "unknown", ["text"]),
        ("at once", "ok", ["text"]),
        ("checked", "unknown", ["text"]),
        ("next", "ok", ["text"]),
    ]
    assert log.problems() == []
    Log(other.folder).write("next")
    assert Log(other.folder).names() == ["elsewhere", "next"]
    assert not elsewhere.settled


class Stores(mmap.mmap):
    """A mapping that remembers what it was after each store."""

    states: list[bytes]

    def __setitem__(self, place, value):
        super().__setitem__(place, value)
        self.states.append(self[:])


class Fields(struct.Struct):
    """A struct that is packed one field after the other, as it is."""

    def pack_into(self, table, at, *values):
        for field, value in zip(self.format[1:], values, strict=True):
            struct.pack_into(f"={field}", table, at, value)
            table.states.append(table[:])
            at += struct.calcsize(f"={field}")


def begin_in_a_turn(audit, name):
    """A call that begins with others, when the names of its arguments are known."""
    TURN.is_open = True
    reply = begin(audit, name)
    reply.observer.names = ("text",)
    flush_all()
    return reply


@pytest.mark.parametrize("name", ["before", "after", "x" * 300])
@pytest.mark.parametrize("is_headed", [True, False])
@pytest.mark.parametrize("begin", [begin, begin_in_a_turn])
async def test_a_kill_between_any_two_stores_of_a_beginning_invents_nothing(
    log, monkeypatch, name, is_headed, begin
):
    audit = left(log)
    begin(audit, "before").resolve(RESULT)
    audit.flush()
    if is_headed:
        audit._chain._write_head()
    slots, state = audit._chain.slots, log.folder / "1.state"
    slots.close()
    slots.table = Stores(audit._chain._state, state.stat().st_size)
    slots.table.states = states = []
    for each in ("_BEGUN", "_LENGTH"):
        monkeypatch.setattr(calls, each, Fields(getattr(calls, each).format))
    slots._last = *slots._last[:-1], calls._BEGUN.pack_into
    open_one = begin(audit, name)
    kill(audit)
    monkeypatch.undo()
    assert len(states) >= (2 if name == "before" else 5)
    [lines] = log.files
    whole = lines.read_bytes()
    for each in states:
        state.write_bytes(each)
        lines.write_bytes(whole)
        log.write("next")
        assert log.names() in (["before", "next"], ["before", name, "next"])
        assert [line["outcome"] for line in log.lines()[1:-1]] in ([], ["unknown"])
        assert log.problems() == []
    assert len(log.names()) == 3
    assert not open_one.settled


async def test_a_call_that_has_ended_is_not_written_again_whatever_the_head_says(log):
    audit = left(log)
    for number in range(700):  # of which the head has the first ones only
        call(audit, f"call {number}")
        if number % 7 == 0:
            await anyio.lowlevel.checkpoint()
    open_one = begin(audit, "open")
    await anyio.lowlevel.checkpoint()
    kill(audit)
    log.write("next")
    assert log.names() == [f"call {number}" for number in range(700)] + ["open", "next"]
    assert log.problems() == []
    assert not open_one.settled


async def test_half_a_line_at_the_end_is_cut_off_by_the_next_process(log):
    log.write("one", "two")
    with log.files[0].open("ab") as file:
        file.write(b'{"time":"2026-')
    assert log.problems() == ["the line is not whole"]
    log.write("three")
    assert log.names() == ["one", "two", "three"]
    assert log.problems() == []


async def test_a_long_name_is_kept_whole_in_the_line_and_in_part_while_the_call_is_open(log):
    audit = left(log)
    name = "x" * 2 * SLOT_BYTES
    call(audit, name)
    await anyio.lowlevel.checkpoint()
    open_one = begin(audit, name)
    kill(audit)
    log.write("next")
    whole, cut, _ = log.names()
    assert whole == name
    assert cut == "x" * 200 + "..."
    assert not open_one.settled


async def test_any_number_of_calls_may_be_open(log):
    audit = left(log)
    replies = [begin(audit, f"call {number}") for number in range(2000)]
    for reply in replies[:1000]:
        reply.resolve(RESULT)
    await anyio.lowlevel.checkpoint()
    kill(audit)
    log.write()
    assert len(log.names()) == len(set(log.names())) == 2000
    assert MAX_SLOTS > 2000


async def test_a_call_whose_client_leaves_is_unknown_once_it_was_sent(log):
    with log.audit() as audit:
        waiting, sent = begin(audit, "waiting"), begin(audit, "sent")
        waiting.on_abandon = lambda: False
        sent.on_abandon = lambda: True
        waiting.abandon()
        sent.abandon()
        assert isinstance(sent.error, Abandoned)
    assert [(line["outcome"], line["code"]) for line in log.lines()] == [
        ("not_sent", "cancelled"),
        ("unknown", "cancelled"),
    ]


async def test_segments_are_rotated_and_the_oldest_are_removed(log, monkeypatch):
    monkeypatch.setattr(chain, "MAX_SEGMENT_BYTES", 2000)
    monkeypatch.setattr(chain, "MAX_KEPT_BYTES", 8000)
    for number in range(12):
        with log.audit() as audit:
            for _ in range(5):
                call(audit, f"call {number}")
            audit.flush()
            audit._chain._tend()
    assert 3 <= len(log.files) <= 6
    assert log.names()[-1] == "call 11"
    assert log.lines()[0]["seq"] > 1
    assert log.problems() == []
    log.files[0].unlink()
    assert log.problems() != []


# --- tampering


@pytest.fixture(scope="module", params=[1, 4, 10])
def written(tmp_path_factory, request):
    """A log of ten lines, of which so many were written together, its bytes, and that number."""
    import asyncio  # noqa: PLC0415 - of this fixture alone

    log, together = Log(tmp_path_factory.mktemp("written") / "audit"), request.param

    async def write() -> None:
        with log.audit() as audit:
            for number in range(10):
                call(audit, f"tool {number}")
                if (number + 1) % together == 0:
                    audit.flush()

    asyncio.run(write())
    text = log.files[0].read_bytes()
    assert text.count(b',"hash":') == {1: 10, 4: 3, 10: 1}[together]
    return log, text, together


@pytest.fixture
def changed(written, monkeypatch):
    """Return what is found in the log with these bytes in place of its own."""
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    log, text, _ = written

    def found(other: bytes) -> list[str]:
        log.files[0].write_bytes(other)
        return log.problems()

    yield found
    log.files[0].write_bytes(text)
    assert log.problems() == []


def with_hashes(lines: list[bytes]) -> bytes:
    """The lines, with the hashes that they should have, by the description of them alone."""
    text, last, group = b"", b"0" * 64, b""
    for line in lines:
        content, is_last, _ = line.partition(b',"prev":')
        if is_last:
            group += b'%b,"prev":"%b"' % (content, last)
            last = sha256(group).hexdigest().encode()
            text, group = text + b'%b,"hash":"%b"}\n' % (group, last), b""
        else:
            group += line
    return text + group


def test_the_hash_of_lines_that_are_written_together_is_that_of_their_bytes(written):
    _, text, _ = written
    assert with_hashes(text.splitlines(keepends=True)) == text


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=150,
    deadline=None,
)
@given(data=st.data())
def test_one_flipped_bit_is_found(written, changed, data):
    _, text, _ = written
    place, bit = data.draw(st.integers(0, len(text) - 1)), data.draw(st.integers(0, 7))
    flipped = bytearray(text)
    flipped[place] ^= 1 << bit
    assert changed(flipped) != []


@pytest.mark.parametrize("gone", [slice(0, 1), slice(4, 5), slice(3, 8), slice(9, 10), slice(0, 10)])
def test_lines_that_are_missing_are_found(written, changed, gone):
    _, text, _ = written
    lines = text.splitlines(keepends=True)
    del lines[gone]
    [problem] = changed(b"".join(lines))
    assert "missing" in problem


def test_lines_that_change_places_or_come_twice_are_found(written, changed):
    _, text, _ = written
    lines = text.splitlines(keepends=True)
    for place in range(9):
        before, one, other, after = lines[:place], lines[place], lines[place + 1], lines[place + 2 :]
        assert changed(b"".join([*before, other, one, *after])) != []
        assert changed(b"".join([*before, one, one, other, *after])) != []
        assert changed(b"".join([*lines, one])) != []


@pytest.mark.parametrize("seq", [1, 4, 5, 6, 10, 11])
@pytest.mark.parametrize("place", range(11))
def test_a_line_that_is_put_in_is_found_wherever_it_stands(written, changed, place, seq):
    _, text, _ = written
    lines = text.splitlines(keepends=True)
    line = b'{"time":"2026-11-22T10:00:00.000000Z","kind":"tool","name":"forged","seq":%d}\n' % seq
    assert changed(b"".join([*lines[:place], line, *lines[place:]])) != []


def test_a_line_that_is_changed_is_located_to_those_it_was_written_with(written, changed):
    _, text, together = written
    expected = {1: "line 6 was changed", 4: "one of the lines 5 to 8 was changed"}
    found = changed(text.replace(b"tool 5", b"tool 4"))
    assert found == [expected.get(together, "one of the lines 1 to 10 was changed")]
    is_last = b',"seq":6,"prev"' in text
    found = changed(text.replace(b',"seq":6', b',"seq":8'))
    assert found == [
        "lines 6 to 8 are changed or missing" if is_last else "lines 6 to 7 are missing before it"
    ]
    assert changed(text.replace(b"{", b"(", 6).replace(b"(", b"{", 5)) == ["this is no line of the audit log"]


def test_lines_in_the_middle_with_a_right_hash_of_their_own_are_found(written, changed):
    _, text, together = written
    lines = text.replace(b"tool 4", b"tool 5").splitlines(keepends=True)
    end = {1: 5, 4: 8, 10: 10}[together]
    rehashed = with_hashes(lines).splitlines(keepends=True)
    first = {1: 6, 4: 9}.get(together)
    expected = (
        f"line {first} does not follow on the one before it"
        if first
        else "line 10 is not the one that was written"
    )
    assert changed(b"".join([*rehashed[:end], *lines[end:]])) == [expected]


def test_lines_that_are_made_one_group_of_several_do_not_pass(written, changed):
    _, text, _ = written
    lines = [
        line.partition(b',"prev":')[0].removesuffix(b"}\n") + b"}\n"
        for line in text.splitlines(keepends=True)
    ]
    lines.append(lines[-1].replace(b'"seq":10}', b'"seq":11,"prev":"}'))
    assert changed(with_hashes(lines)) == ["line 10 is not the one that was written"]
    assert changed(b"".join(lines[:10])) == ["lines 1 to 10 are without a hash"]


# --- a write that a kill cuts short


@pytest.mark.parametrize("is_headed", [True, False])
async def test_a_group_that_is_cut_anywhere_goes_on_with_the_next_process(log, is_headed):
    audit, state = left(log), log.folder / "1.state"
    call(audit, "before")
    audit.flush()
    if is_headed:
        audit._chain._write_head()
    names = [f"call {number}" for number in range(3)]
    for name in names:
        call(audit, name)
    slots, start = state.read_bytes(), log.files[0].stat().st_size
    audit.flush()
    kill(audit)
    [lines] = log.files
    whole = lines.read_bytes()
    for place in {
        *range(start, len(whole) + 1, 41),
        len(whole),
        *(at + 1 for at in range(len(whole)) if whole[at] == 10),
    }:
        state.write_bytes(slots)
        lines.write_bytes(whole[:place])
        audit = left(log)  # which is killed, too, within what it recovers
        kill(audit)
        recovered = lines.read_bytes()
        assert recovered.startswith(whole[: whole.rfind(b"\n", 0, place) + 1])
        lines.write_bytes(recovered[: max(place, len(recovered) - 200)])
        state.write_bytes(slots)
        log.write("next")
        assert sorted(log.names()) == ["before", *names, "next"]
        assert {line["outcome"] for line in log.lines()} == {"ok"}
        assert log.problems() == []


async def test_lines_of_a_cut_group_stay_where_no_call_is_to_be_recovered(log):
    audit = left(log)
    for number in range(3):  # they never began, so they have no slots
        audit.refused("tool", "s", f"refused {number}", "unknown_tool")
    audit.flush()
    kill(audit)
    [lines] = log.files
    text = lines.read_bytes()
    lines.write_bytes(text[: text.rindex(b"{")])
    log.write()
    assert [line.get("name") for line in log.lines()] == ["refused 0", "refused 1", "cut"]
    assert log.problems() == []
    [remark] = verify(log.folder).remarks
    assert remark.problem == "the end of the line before it was not written"


async def test_a_group_that_is_cut_before_the_head_stays_noticed(log, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    log.write("one", "two", "three")
    [lines] = log.files
    text = lines.read_bytes()
    lines.write_bytes(text[: text.rindex(b"{")])
    assert log.problems() == ["line 3 is missing at the end"]
    lines.write_bytes(text.partition(b',"prev"')[0] + b"}\n")
    assert log.problems() == ["lines 1 to 3 are without a hash"]
    log.write("four")
    assert "the writer noticed that lines are missing at its end" in log.problems()


async def test_lines_cut_off_stay_missing_when_the_chain_goes_on(log, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    log.write("one", "two", "three")
    lines = log.files[0].read_bytes().splitlines(keepends=True)
    log.files[0].write_bytes(b"".join(lines[:2]))
    assert log.problems() == ["line 3 is missing at the end"]
    log.write("four")
    assert log.problems() == [
        "line 3 is missing before it",
        "the writer noticed that lines are missing at its end",
    ]


async def test_a_head_that_is_removed_stays_noticed(log, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    log.write("one")
    (log.folder / "1.state").unlink()
    assert log.problems() == ["the head of the chain is missing"]
    log.write("two")
    assert log.names() == ["one", "chain", "two"]
    assert log.problems() == ["the writer noticed that its head is missing"]


async def test_a_chain_that_is_removed_is_noticed(log, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    with log.audit() as one, log.audit() as other:
        call(one, "one")
        call(other, "other")
    for file in log.folder.glob("1*"):
        file.unlink()
    assert log.problems() == ["chain 1 is missing"]


@pytest.mark.parametrize("folder_too", [False, True])
async def test_a_log_that_is_removed_as_a_whole_is_noticed(log, folder_too, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    log.write("one")
    for file in log.folder.iterdir():
        file.unlink()
    if folder_too:
        log.folder.rmdir()
    assert log.problems() == ["chain 1 is missing"]
    log.write("two")
    assert log.problems() == ["the writer noticed that it was removed"]


@pytest.mark.parametrize("folder_too", [False, True])
async def test_a_log_that_is_removed_under_its_writer_goes_on_and_the_gap_shows(log, folder_too, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    with log.audit() as audit:
        call(audit, "one")
        audit.flush()
        for file in log.folder.iterdir():
            file.unlink()
        if folder_too:
            log.folder.rmdir()
        audit._chain._tend()
        call(audit, "two")
    assert log.names() == ["two"]
    assert log.problems() != []


async def test_lines_since_a_time_are_found_behind_a_call_that_began_long_before(log, monkeypatch):
    monkeypatch.setattr(chain, "MAX_SEGMENT_BYTES", 1)
    with log.audit() as audit:
        long_one = begin(audit, "long")
        call(audit, "short")
        audit.flush()
        audit._chain._tend()
        long_one.resolve(RESULT)
    assert len(log.files) == 2
    since = next(line["time"] for line in log.lines() if line["name"] == "short")
    found = last_lines(log.folder, Selection(since=since), 10)
    assert [line.name for line in found] == ["short"]
