"""Whose tasks are whose, under which ids, and for how long."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.core.calls.tasks import GRACE_S, MAX_AGE_S, MAX_ID_CHARS, Tasks
from mcpx.errors import CallError, Code, Outcome


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tasks(clock) -> Tasks:
    return Tasks(max_tasks=4, clock=clock)


def give(tasks: Tasks, task_id: str, *, server: str = "s", owner: str = "me", **members) -> str:
    """The id that the owner gets."""
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in members.items()}
    given = tasks.give(
        {"taskId": msgspec.Raw(msgspec.json.encode(task_id)), **raw}, server=server, owner=owner
    )
    shown = given["taskId"]
    return shown if isinstance(shown, str) else msgspec.json.decode(shown)


def test_a_task_is_its_owners(tasks):
    assert give(tasks, "1") == "1"
    assert tasks.find("1", owner="me").server == "s"
    assert tasks.find("1", owner="you") is None
    assert tasks.find("2", owner="me") is None


def test_owners_may_have_the_same_id_and_one_server_may_give_it_again(tasks):
    assert give(tasks, "1") == give(tasks, "1", owner="you", server="t") == give(tasks, "1") == "1"
    assert tasks.find("1", owner="me").server == "s"
    assert tasks.find("1", owner="you").server == "t"


def test_ids_of_two_servers_are_told_apart(tasks):
    assert give(tasks, "1") == "1"
    assert give(tasks, "1", server="t") == give(tasks, "1", server="t") == "t:1"
    assert give(tasks, "t:1") == "s:t:1"
    found = {shown: tasks.find(shown, owner="me") for shown in ("1", "t:1", "s:t:1")}
    assert {shown: (task.server, task.id) for shown, task in found.items()} == {
        "1": ("s", "1"),
        "t:1": ("t", "1"),
        "s:t:1": ("s", "t:1"),
    }


def test_what_is_said_of_a_task_names_it_as_its_client_does(tasks):
    give(tasks, "1")
    give(tasks, "1", server="t")
    said = {"taskId": msgspec.Raw(b'"1"'), "status": msgspec.Raw(b'"working"')}
    assert tasks.heard(tasks.find("1", owner="me"), said) == said
    assert tasks.heard(tasks.find("t:1", owner="me"), said) == said | {"taskId": "t:1"}
    assert tasks.heard(tasks.find("t:1", owner="me"), {}) == {}


@pytest.mark.parametrize(
    ("ttl_ms", "lifetime_s"),
    [(60_000, 60 + GRACE_S), (0, GRACE_S), *((odd, MAX_AGE_S) for odd in (None, 1e300, -1, "x", True))],
)
def test_a_task_is_known_for_some_time_after_it_was_last_heard_of(tasks, clock, ttl_ms, lifetime_s):
    give(tasks, "1", ttlMs=ttl_ms)
    clock.now = lifetime_s
    task = tasks.find("1", owner="me")
    tasks.heard(task, {"ttlMs": ttl_ms})
    clock.now += lifetime_s
    assert tasks.find("1", owner="me")
    clock.now += 1
    assert tasks.find("1", owner="me") is None


def test_the_owner_of_most_loses_what_was_not_heard_of_for_longest(tasks):
    give(tasks, "mine", owner="you")
    for task_id in ("1", "2", "3"):
        give(tasks, task_id)
    give(tasks, "1")
    give(tasks, "4")
    assert [tasks.find(each, owner="me") is not None for each in "1234"] == [True, False, True, True]
    assert tasks.find("mine", owner="you")
    assert len(tasks) == 4


def test_tasks_that_are_over_make_room_first(tasks, clock):
    give(tasks, "short", owner="you", ttlMs=0)
    for task_id in ("1", "2", "3"):
        give(tasks, task_id)
    clock.now = GRACE_S + 1
    give(tasks, "4")
    assert all(tasks.find(each, owner="me") for each in "1234")


@pytest.mark.parametrize("task_id", [b"null", b"1", b"[]", b'"' + b"x" * (MAX_ID_CHARS + 1) + b'"'])
def test_a_task_without_a_usable_id_is_an_error(tasks, task_id):
    with pytest.raises(CallError, match="taskId") as caught:
        tasks.give({"taskId": msgspec.Raw(task_id)}, server="s", owner="me")
    assert (caught.value.code, caught.value.outcome) == (Code.PROTOCOL_ERROR, Outcome.UNKNOWN)
    assert len(tasks) == 0


def test_a_server_has_an_open_task_until_its_client_was_told_that_it_is_over(tasks, clock):
    assert not tasks.has_open("s")
    give(tasks, "1", status="working", ttlMs=1000)
    assert tasks.has_open("s")
    assert not tasks.has_open("other")
    task = tasks.find("1", owner="me")
    tasks.heard(task, {"status": "input_required"})
    assert tasks.has_open("s")
    tasks.heard(task, {"status": "completed"})
    assert not tasks.has_open("s")
    give(tasks, "2", ttlMs=1000)
    clock.now = GRACE_S + 2
    assert not tasks.has_open("s")  # whatever became of it, it is gone
