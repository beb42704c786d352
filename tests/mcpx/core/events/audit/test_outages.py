"""A log that cannot be written: calls go on, lines wait, and it is said; or calls are refused."""

from __future__ import annotations

import errno
import json
import os
import time

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from mcpx.core.events.audit import audit as audit_module
from mcpx.core.events.audit import chain
from mcpx.core.events.audit.audit import RECORDS_AT_ONCE
from mcpx.core.events.audit.chain import GROUP_LINES
from mcpx.core.events.records import ENDS, Record
from mcpx.core.protocol.context import library_origin
from mcpx.core.system import locks
from mcpx.core.wire.turn import TURN, flush_all
from mcpx.errors import CallError, Code, Outcome
from supervisors import Reply
from tests.mcpx.core.events.audit.conftest import RESULT, Audit, begin, call

pytestmark = pytest.mark.anyio


class FullDisk:
    """Takes `room` bytes of lines, and no more."""

    def __init__(self, monkeypatch, room=0):
        self.room = room
        self._write, self._truncate, self._last = os.write, os.ftruncate, (-1, 0)
        monkeypatch.setattr(chain.os, "write", self.write)
        monkeypatch.setattr(chain.os, "ftruncate", self.truncate)

    def write(self, fd, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(fd, data[: self.room])
        self.room -= written
        self._last = fd, written
        return written

    def truncate(self, fd, size):
        written_to, written = self._last
        self.room += written if fd == written_to else 0
        self._truncate(fd, size)


async def test_lines_wait_for_a_full_disk_and_calls_do_not(log, monkeypatch):
    with log.audit() as audit:
        call(audit, "before")
        audit.flush()
        disk = FullDisk(monkeypatch, room=100)
        for name in ("one", "two"):
            call(audit, name)
            audit.flush()
        assert audit.problem == "No space left on device"
        assert len(audit.backlog) == 2
        assert log.names() == ["before"]  # half a line is not left
        disk.room = 10_000
        audit._try_again()
        assert (audit.problem, len(audit.backlog)) == (None, 0)
        call(audit, "after")
    assert log.names() == ["before", "one", "two", "after"]
    assert log.problems() == []


async def test_lines_that_wait_are_written_as_room_comes_free_a_few_at_a_time(log, monkeypatch):
    names = [f"call {number}" for number in range(3 * GROUP_LINES)]
    with log.audit() as audit:
        disk = FullDisk(monkeypatch)
        for name in names:
            call(audit, name)
        audit.flush()
        waiting = [len(audit.backlog)]
        for _ in names:
            assert log.names() == names[: len(names) - waiting[-1]]
            if audit.problem is None:
                break
            disk.room = 2000  # of a few lines
            audit._try_again()
            waiting.append(len(audit.backlog))
    assert len(waiting) > 10
    assert waiting == sorted(set(waiting), reverse=True)
    assert log.names() == names
    assert log.problems() == []


async def test_what_does_not_fit_into_memory_is_lost_and_the_log_says_so(log, monkeypatch):
    monkeypatch.setattr(audit_module, "MAX_WAITING_BYTES", 1000)
    with log.audit() as audit:
        disk = FullDisk(monkeypatch)
        for number in range(10):
            call(audit, f"call {number}")
            audit.flush()
        assert len(audit.backlog) + audit.backlog.lost == 10
        assert audit.backlog.lost > 5
        lost = audit.backlog.lost
        disk.room = 10_000
        audit._try_again()
    assert log.lines()[-1]["what"] == f"{lost} lines could not be written"
    assert log.problems() == []


async def test_what_cannot_be_written_at_the_end_is_said(log, monkeypatch):
    with capture_logs() as said, log.audit() as audit:
        FullDisk(monkeypatch)
        for name in ("one", "two"):
            call(audit, name)
            audit.flush()
    (line,) = [each for each in said if each["event"] == "audit.not_written"]
    assert (line["lines"], line["reason"]) == (2, "No space left on device")


async def test_a_required_log_refuses_what_it_cannot_take_before_it_is_sent(log, monkeypatch):
    with log.audit(required=True) as audit:
        disk = FullDisk(monkeypatch)
        call(audit, "one")  # which was begun on the disk
        audit.flush()
        with pytest.raises(CallError, match="audit_required is set; nothing was sent") as caught:
            begin(audit, "two")
        assert (caught.value.code, caught.value.outcome) == (Code.OVERLOADED, Outcome.NOT_SENT)
        disk.room = 10_000
        audit._try_again()
        call(audit, "three")
    assert [(line["name"], line["outcome"], line["code"]) for line in log.lines()] == [
        ("one", "ok", None),
        ("two", "not_sent", "overloaded"),
        ("three", "ok", None),
    ]


async def test_lines_that_are_made_when_it_shows_that_there_is_no_room_are_written_once_and_in_order(
    log, monkeypatch
):
    monkeypatch.setattr(audit_module, "LINES_EVERY_S", 60)
    names = [f"call {number}" for number in range(RECORDS_AT_ONCE + 5)]
    with log.audit(required=True) as audit:
        audit._flushed_at = time.monotonic()
        for name in names[:RECORDS_AT_ONCE]:
            call(audit, name)
        await anyio.lowlevel.checkpoint()
        assert (len(audit._taken), log.names()) == (RECORDS_AT_ONCE, [])
        open_reply = begin(audit, names[RECORDS_AT_ONCE])
        with monkeypatch.context() as patch:
            patch.setattr(chain, "write_whole", fails)
            with pytest.raises(CallError):
                begin(audit, "refused")
        assert log.names() == names[:RECORDS_AT_ONCE]
        open_reply.resolve(RESULT)
        audit.flush()
        assert (len(audit.backlog), log.names()) == (2, names[:RECORDS_AT_ONCE])
        audit._try_again()
        assert log.names() == [*names[:RECORDS_AT_ONCE], "refused", names[RECORDS_AT_ONCE]]
        for name in names[RECORDS_AT_ONCE + 1 :]:
            call(audit, name)
    assert log.names() == [*names[:RECORDS_AT_ONCE], "refused", *names[RECORDS_AT_ONCE:]]
    assert log.problems() == []


async def test_lines_whose_head_cannot_be_written_are_not_written_again(log, monkeypatch):
    monkeypatch.setattr(chain, "MAX_UNHEADED", 0)
    with log.audit() as audit:
        with monkeypatch.context() as patch:
            patch.setattr(chain, "write_whole", fails)
            call(audit, "one")
            audit.flush()
        assert (audit.problem, len(audit.backlog), log.names()) == (None, 0, ["one"])
        call(audit, "two")
    assert log.names() == ["one", "two"]
    assert log.problems() == []


async def test_calls_that_are_refused_before_any_has_begun_get_their_lines(log):
    audit = Audit(lambda: log.folder)
    audit.configure(enabled=True, required=False, redact=None)  # as by a reload
    audit.refused("tool", "s", "denied", "policy_denied")
    await anyio.lowlevel.checkpoint()
    call(audit, "one")
    audit.close()
    assert log.names() == ["denied", "one"]
    assert log.problems() == []


def fails(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_refused_call_is_not_recovered_as_one_that_was_answered():
    entry = Record(1, (library_origin(), "s", "tool", "one"), b"", lambda _: None)
    entry.refused("overloaded")
    assert ENDS[entry.mark] == ("not_sent", "overloaded")


async def test_a_required_log_refuses_from_the_start_where_there_is_no_folder(log):
    log.folder.parent.mkdir(exist_ok=True)
    log.folder.write_text("a file")
    with log.audit(required=True) as audit, pytest.raises(CallError, match="audit_required"):
        begin(audit, "one")


async def test_a_folder_that_others_may_change_is_not_written(log):
    log.folder.mkdir()
    log.folder.chmod(0o777)
    with log.audit() as audit:
        call(audit, "one")
        audit.flush()
        assert "open to others" in audit.problem
    assert log.files == []


async def test_where_nothing_can_be_locked_nothing_is_written_and_it_is_said(log, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    with log.audit() as audit:
        assert audit.problem == "No locks available"
        call(audit, "one")
    assert len(list(log.folder.iterdir())) == 1


async def test_with_full_the_values_are_written_without_secrets(log):
    def redact(value):
        return json.loads(json.dumps(value).replace("hunter22", "***TOKEN***"))

    with log.audit(redact=redact) as audit:
        call(audit, "one", b'{"text":"say hunter22","deep":[{"key":"hunter22"}]}')
        call(audit, "large", b'{"text":"%b"}' % (b"x" * 20_000))
    assert [line["values"] for line in log.lines()] == [
        {"text": "say ***TOKEN***", "deep": [{"key": "***TOKEN***"}]},
        None,
    ]
    assert log.problems() == []


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (b"", []),
        (b"null", []),
        (b"{}", []),
        (b'{"a":1,"b":{"c":2}}', ["a", "b"]),
        (b'"{\\"a\\":1}"', ["a"]),
        (b'{"a":1', None),
        (b"[1]", None),
        (b'{"\xff":1}', None),
        (b'"\\ud800"', None),
        (b"[" * 100_000, None),
        (b'{"\\u0000\\u001b":1}', ["\x00\x1b"]),
    ],
)
async def test_the_names_of_arguments_are_written_whatever_they_are(log, arguments, names):
    with log.audit() as audit:
        call(audit, "\ud800 \x1b[31m", arguments)
    [line] = log.lines()
    assert line["arguments"] == names
    assert log.problems() == []


async def test_a_secret_in_a_uri_is_not_written(log):
    with log.audit() as audit:
        audit.records.hide = lambda text: text.replace("s3cret", "***")
        reply: Reply = Reply()
        reply.observer = audit.begin("resource", "s", "note://a?token=s3cret")
        slot = (log.folder / "1.state").read_bytes()
        reply.resolve(RESULT)
        audit.refused("resource", "s", "note://s3cret", "unknown_resource")
    assert log.names() == ["note://a?token=***", "note://***"]
    assert b"s3cret" not in slot


@pytest.mark.parametrize("is_slow", [False, True])
async def test_lines_follow_their_answers_a_few_at_once_and_on_a_slow_disk_after_a_moment(
    log, monkeypatch, is_slow
):
    monkeypatch.setattr(audit_module, "LINES_EVERY_S", 0.5)  # no turn takes as long
    if is_slow:  # any disk is, then
        monkeypatch.setattr(audit_module, "SLOW_S", -1.0)
        monkeypatch.setattr(audit_module, "SLOW_LINE_S", 0.0)
    names = [f"call {number}" for number in range(3 + audit_module.LINES_AT_ONCE)]

    def turn(*names):
        TURN.is_open = True
        for name in names:
            call(audit, name)
        flush_all()
        return len(log.names())

    with log.audit() as audit:
        assert [turn(name) for name in names[:3]] == [1, 1, 1]
        assert turn(*names[3:]) == (1 if is_slow else len(names))
        with anyio.fail_after(50):
            while len(log.names()) < len(names):
                await anyio.lowlevel.checkpoint()
    assert log.names() == names
    assert log.problems() == []
