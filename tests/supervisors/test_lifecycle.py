"""The kernel: as a state machine under any order of facts, and the mutants that it must catch."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

sys.path.insert(0, str(Path(__file__).parent))

from machine import Kernel, play

from supervisors import lifecycle
from supervisors.events import Cause, ChildFailed, ChildHeld, ChildRested
from supervisors.facts import (
    Announce,
    Demand,
    Due,
    Exited,
    Interrupted,
    Proven,
    Ready,
    Recycle,
    Rest,
    Resume,
    Spawn,
    Start,
    Stop,
)
from supervisors.lifecycle import ChildState, Phase
from supervisors.policy import Parking, Policy, delay

THOROUGH = settings(stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
GAMES = 1000  # of which the slowest to be found shows itself in one of the first fifty
STEPS = 40


def test_every_order_of_facts_keeps_the_invariants():
    run_state_machine_as_test(Kernel, settings=THOROUGH)
    hunt()


def hunt():
    """Play games by plain chance, the same each time."""
    chance = Random(0)
    for _ in range(GAMES):
        play(chance, STEPS)


def changed_row(phase, fact, handler):
    """A mutant: one row of the table answers differently (None: the row is missing)."""

    def mutate(monkeypatch):
        rows = {key: row for key, row in lifecycle.TABLE[phase].items() if key is not fact}
        monkeypatch.setitem(lifecycle.TABLE, phase, rows | ({fact: handler} if handler else {}))

    return mutate


def changed_function(name, function):
    """A mutant: one function of the kernel is another one."""
    return lambda monkeypatch: monkeypatch.setattr(lifecycle, name, function)


def forget_the_timer(state, phase, moment, seconds):
    state, commands = ORIGINAL_WAIT(state, phase, moment, seconds)
    return state, [command for command in commands if not isinstance(command, lifecycle.Arm)]


def believe_every_generation(state, fact, *, now, jitter):
    handler = lifecycle.TABLE[state.phase].get(type(fact))
    return handler(state, fact, lifecycle.Moment(now, jitter)) if handler else (state, [])


def forgive_on_connect(state, fact, moment):
    state, commands = lifecycle._up(state, fact, moment)
    return lifecycle.replace(state, failures=0), commands


def count_an_interruption(state, fact, moment):
    state, commands = lifecycle._interrupted(state, fact, moment)
    return lifecycle.replace(state, failures=state.failures + 1), commands


def forget_to_halt(state, fact, moment):
    return lifecycle.replace(lifecycle._stop(state, fact, moment)[0]), []


def start_again(state, fact, moment):
    return lifecycle.replace(state, resting=False, again_at=moment.now), []


def count_a_held_failure(state, fact, moment):
    state, commands = ORIGINAL_HOLD(state, fact, moment)
    return lifecycle.replace(state, failures=state.failures + 1), commands


def start_a_held_child(state, fact, moment):
    return lifecycle._attempt(lifecycle.replace(state, cause=fact.cause), fact, moment)


ORIGINAL_WAIT = lifecycle._wait
ORIGINAL_HOLD = lifecycle._hold
MUTANTS = {
    "no timer while waiting": changed_function("_wait", forget_the_timer),
    "old generations are believed": changed_function("step", believe_every_generation),
    "a mere connect forgives the failures": changed_row(Phase.STARTING, Ready, forgive_on_connect),
    "the second failure is answered at once too": changed_function(
        "delay", lambda failures, jitter, backoff: delay(max(1, failures - 1), jitter, backoff)
    ),
    "the wait is not jittered": changed_function(
        "delay", lambda failures, _jitter, b: delay(failures, 1.0, b)
    ),
    "a demand ignores its interval": changed_row(Phase.WAITING, Demand, lifecycle._attempt),
    "a parked child takes every demand": changed_row(Phase.PARKED, Demand, lifecycle._attempt),
    "work forgives nothing": changed_row(Phase.UP, Proven, None),
    "a child that is not ready can prove itself": changed_row(Phase.STARTING, Proven, lifecycle._proven),
    "work makes a stopping child ready again": changed_row(Phase.STOPPING, Proven, lifecycle._up),
    "an interrupted child stays up": changed_row(Phase.UP, Interrupted, None),
    "an interruption is a failure": changed_row(Phase.UP, Interrupted, count_an_interruption),
    "an interruption ends the incarnation": changed_row(Phase.UP, Interrupted, lifecycle._ended),
    "a stop is lost while starting": changed_row(Phase.STARTING, Stop, None),
    "a stop does not halt": changed_row(Phase.UP, Stop, forget_to_halt),
    "a stop does not overtake a recycling": changed_row(Phase.STOPPING, Stop, None),
    "an ended child is started beside itself": changed_row(Phase.UP, Recycle, lifecycle._attempt),
    "done children can be started": changed_row(Phase.DONE, Start, lifecycle._attempt),
    "a child is not started on demand": changed_row(Phase.IDLE, Demand, None),
    "a rest is a restart": changed_row(Phase.UP, Rest, lambda s, f, m: lifecycle._recycle(s, Recycle(), m)),
    "a rest is for good": changed_row(Phase.UP, Rest, lifecycle._stop),
    "a demand is lost while it goes to rest": changed_row(Phase.STOPPING, Demand, None),
    "a demand makes a stopping child start": changed_row(Phase.STOPPING, Demand, start_again),
    "the timer does nothing": changed_row(Phase.WAITING, Due, None),
    "a held child starts by itself": changed_function("_hold", start_a_held_child),
    "a held failure counts": changed_function("_hold", count_a_held_failure),
    "a held child cannot be resumed": changed_row(Phase.IDLE, Resume, None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_machine_catches_the_mutant(mutant, monkeypatch):
    MUTANTS[mutant](monkeypatch)
    with pytest.raises((AssertionError, TypeError, ValueError)):
        hunt()


def drive(state, *facts):
    """Feed facts given as `(fact, now)`; all commands in order."""
    given = []
    for fact, now in facts:
        state, commands = lifecycle.step(state, fact, now=now, jitter=0.5)
        given += commands
    return state, given


def test_the_first_failure_is_answered_at_once():
    state, commands = drive(ChildState(child="c"), (Start(), 0), (Ready(1), 1), (Exited(1, Cause("died")), 2))
    assert state.phase is Phase.STARTING
    assert commands[-1] == Spawn(2)
    assert Announce(ChildFailed("c", 1, Cause("died"), 1, 0.0)) in commands


def test_an_inretryable_fault_parks_at_once_and_is_probed():
    policy = Policy(parking=Parking(after=8, probe=300))
    state, _ = drive(
        ChildState(child="c", policy=policy), (Start(), 0), (Exited(1, Cause("gone", retryable=False)), 1)
    )
    assert (state.phase, state.next_attempt_at) == (Phase.PARKED, 301)
    assert lifecycle.refused_for(state, 1) == 0


HELD = Cause("sign in first", held=True)


@pytest.mark.parametrize("resumed", [Demand(), Resume()], ids=["demand", "resume"])
def test_a_held_child_waits_without_a_timer_for_whoever_mends_its_cause(resumed):
    policy = Policy(parking=Parking(after=1, probe=300))
    held, commands = drive(
        ChildState(child="c", policy=policy), (Start(), 0), (Ready(1), 1), (Exited(1, HELD), 2)
    )
    assert (held.phase, held.held, held.failures, held.cause) == (Phase.IDLE, True, 0, HELD)
    assert commands[-1] == Announce(ChildHeld("c", 1, HELD))
    assert drive(held, (Start(), 3))[0].phase is Phase.STARTING
    started, commands = drive(held, (resumed, 3))
    assert (started.phase, started.held) == (Phase.STARTING, False)
    assert commands[-1] == Spawn(2)
    assert drive(started, (Ready(2), 4))[0].cause is None
    again, _ = drive(started, (Exited(2, HELD), 4))
    assert again.held


def test_a_held_child_keeps_its_failures_unless_it_was_healthy():
    dying = [(Start(), 0), (Exited(1, Cause("x")), 0), (Exited(2, Cause("x")), 0), (Due(2), 1), (Ready(3), 1)]
    assert drive(ChildState(child="c"), *dying, (Exited(3, HELD), 2))[0].failures == 2
    assert drive(ChildState(child="c"), *dying, (Exited(3, HELD), 32))[0].failures == 0


def test_a_held_child_that_was_asked_to_leave_leaves():
    state, _ = drive(ChildState(child="c"), (Start(), 0), (Ready(1), 1), (Stop(), 2), (Exited(1, HELD), 3))
    assert state.phase is Phase.DONE
    held, _ = drive(ChildState(child="c"), (Start(), 0), (Exited(1, HELD), 1))
    assert drive(held, (Stop(), 2))[0].phase is Phase.DONE


def test_a_parked_child_is_tried_once_for_demands_and_then_rests():
    policy = Policy(parking=Parking(after=1, probe=300))
    parked, _ = drive(ChildState(child="c", policy=policy), (Start(), 0), (Exited(1, Cause("died")), 1))
    state, commands = drive(parked, (Demand(), 2))
    assert commands[-1] == Spawn(2)
    state, _ = drive(state, (Exited(2, Cause("died")), 3))
    assert lifecycle.refused_for(state, 11.9) == pytest.approx(0.1)
    assert lifecycle.refused_for(state, 12) == 0
    state, _ = drive(state, (Demand(), 12), (Ready(3), 13), (Exited(3, Cause("died")), 14))
    assert lifecycle.refused_for(state, 14) == 0  # it was ready in between


AWAY = Cause("connection refused", passing=True)


def kept_away(cause, policy, *, until, demands):
    """The states of a child that fails at once with that cause whenever it is tried, second by second."""
    state, states = drive(ChildState(child="c", policy=policy), (Start(), 0))[0], []
    for second in range(until):
        while state.phase is Phase.STARTING:
            state, _ = drive(state, (Exited(state.generation, cause), second))
        states.append(state)
        if demands:
            state, _ = drive(state, (Demand(), second + 1))
        elif state.next_attempt_at is not None and state.next_attempt_at <= second + 1:
            state, _ = drive(state, (Due(state.generation), second + 1))
    return states


@pytest.mark.parametrize("demands", [False, True], ids=["alone", "called all the time"])
def test_what_is_away_for_a_redeploy_is_not_given_up_and_what_stays_away_is(demands):
    policy = Policy(parking=Parking(after=8, patience=31.5))
    states = kept_away(AWAY, policy, until=90, demands=demands)
    assert {state.phase for state in states[:31]} == {Phase.WAITING}
    assert states[-1].phase is Phase.PARKED
    crashing = kept_away(Cause("it exits"), policy, until=31, demands=demands)
    assert crashing[-1].phase is Phase.PARKED


def test_demands_do_not_make_the_pauses_longer_of_what_is_away():
    policy = Policy(parking=Parking(after=8, patience=31.5))
    called = kept_away(AWAY, policy, until=15, demands=True)
    assert max(state.failures for state in called) == 2
    assert called[-1].generation >= 15  # though it was tried for each


def test_a_child_that_says_the_same_at_each_start_is_parked_and_probed_ever_more_rarely():
    policy = Policy(parking=Parking(after=8, probe=300, slowest_probe=1000))
    odd = Cause("exited with code 1", last_words="KEY is required")
    state, _ = drive(
        ChildState(child="c", policy=policy), (Start(), 0), (Exited(1, odd), 0), (Exited(2, odd), 0)
    )
    assert (state.phase, state.alike) == (Phase.WAITING, 2)
    other, _ = drive(state, (Due(2), 1), (Exited(3, Cause("exited", last_words="KEY is wrong")), 1))
    assert (other.phase, other.alike) == (Phase.WAITING, 1)
    waits = []
    state, now = drive(state, (Due(2), 1), (Exited(3, odd), 1))[0], 1
    for _ in range(3):
        assert state.phase is Phase.PARKED
        waits.append(state.next_attempt_at - now)
        now = state.next_attempt_at
        state, _ = drive(state, (Due(state.generation), now), (Exited(state.generation + 1, odd), now))
    assert waits == [300, 600, 1000]
    assert drive(state, (Demand(), now + 1))[0].phase is Phase.STARTING
    assert drive(state, (Resume(), now + 1))[0].alike == 0
    ready, _ = drive(state, (Demand(), now), (Ready(state.generation + 1), now))
    assert (ready.alike, ready.readied) == (0, 1)
    assert drive(ready, (Exited(ready.generation, odd), now + 1))[0].alike == 0  # it has been ready


def test_thirty_healthy_seconds_forget_the_failures():
    dying = [(Start(), 0), (Exited(1, Cause("x")), 0), (Exited(2, Cause("x")), 0)]
    state, _ = drive(ChildState(child="c"), *dying, (Due(2), 1), (Ready(3), 1), (Exited(3, Cause("x")), 31))
    assert state.failures == 1
    state, _ = drive(ChildState(child="c"), *dying, (Due(2), 1), (Ready(3), 1), (Exited(3, Cause("x")), 30.9))
    assert state.failures == 3


def test_work_that_was_done_forgets_the_failures_at_once():
    dying = [(Start(), 0), (Exited(1, Cause("x")), 0), (Exited(2, Cause("x")), 0)]
    proven = [*dying, (Due(2), 1), (Ready(3), 1), (Proven(3), 1)]
    state, _ = drive(ChildState(child="c"), *proven)
    assert (state.phase, state.failures) == (Phase.UP, 0)
    state, commands = drive(state, (Exited(3, Cause("x")), 1))
    assert (state.phase, state.failures, commands[-1]) == (Phase.STARTING, 1, Spawn(4))
    state, _ = drive(state, (Ready(4), 1), (Proven(3), 1), (Exited(4, Cause("x")), 1))
    assert state.failures == 2  # what an earlier one did proves nothing for this one


def test_a_rest_counts_no_failure_and_forgets_those_before_healthy_seconds():
    dying = [(Start(), 0), (Exited(1, Cause("x")), 0), (Exited(2, Cause("x")), 0), (Due(2), 1), (Ready(3), 1)]
    rested = Exited(3, Cause("returned", normal=True))
    state, commands = drive(ChildState(child="c"), *dying, (Rest(), 2), (rested, 3))
    assert (state.phase, state.failures) == (Phase.IDLE, 2)
    assert commands[-1] == Announce(ChildRested("c", 3))
    state, _ = drive(ChildState(child="c"), *dying, (Rest(), 31), (rested, 32))
    assert (state.phase, state.failures) == (Phase.IDLE, 0)
