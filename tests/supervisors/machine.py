"""The kernel as a hypothesis state machine: any order of facts, and what must hold after each.

`lifecycle.step` is looked up at each call, so that the mutant tests can put a broken one in its place. `play`
is a game of the same rules by plain chance: less clever than hypothesis's, and twenty times as fast.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from supervisors import lifecycle
from supervisors.events import (
    Cause,
    ChildFailed,
    ChildHeld,
    ChildInterrupted,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildStopped,
)
from supervisors.facts import (
    Announce,
    Arm,
    Demand,
    Disarm,
    Due,
    Exited,
    Halt,
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
from supervisors.policy import Backoff, Parking, Policy, Restart

JITTERS = st.floats(0.5, 1.0)
CAUSES = st.builds(
    Cause,
    st.just("it broke"),
    normal=st.booleans(),
    retryable=st.sampled_from([True, True, True, False]),
    held=st.sampled_from([False, False, False, True]),
)
KINDS = st.sampled_from([*[Restart.PERMANENT] * 3, Restart.TRANSIENT, Restart.TEMPORARY])


class Kernel(RuleBasedStateMachine):
    """Plays the shell: runs at most what it was told to run, keeps the one timer, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.alive: int | None = None
        self.halted = False
        self.timer: tuple[int, float] | None = None
        self.said_ready: set[int] = set()
        self.up_since: float | None = None
        self.streak = 0  # failures in a row, counted here independently
        self.probed_at = float("-inf")  # when a demand while parked was last met with an attempt
        self.resting = False  # asked to rest, and not needed since
        self.asked_to_stop = False
        self.over = False

    @initialize(
        restart=KINDS,
        parking=st.none() | st.builds(Parking, after=st.sampled_from([1, 1, 2, 3, 8])),
        healthy_after=st.floats(0.1, 50),
        on_demand=st.booleans(),
        stops_after=st.sampled_from([0, 3]),  # incarnations: an early end hides the rest
    )
    def begin(self, restart, parking, healthy_after, on_demand, stops_after):
        self.stops_after = stops_after
        self.policy = Policy(restart=restart, parking=parking, backoff=Backoff(healthy_after=healthy_after))
        self.state = ChildState(child="c", policy=self.policy, resting=on_demand)
        self.resting = on_demand

    def feed(self, fact, jitter=0.75):
        before = self.state
        self.state, commands = lifecycle.step(before, fact, now=self.now, jitter=jitter)
        for command in commands:
            self.carry_out(command)
        return before, commands

    def carry_out(self, command):
        match command:
            case Spawn(generation):
                assert self.alive is None, "two incarnations at a time"
                assert generation > max(self.said_ready, default=0)
                assert not self.over
                self.alive, self.halted = generation, False
                assert not self.resting, "started while nobody needs it"
            case Halt(generation):
                assert self.alive == generation
                self.halted = True
            case Arm(generation, at):
                assert at >= self.now
                self.timer = (generation, at)
            case Disarm():
                assert self.timer is not None, "no timer to disarm"
                self.timer = None
            case Announce(ChildReady(_, generation, took)):
                assert generation in self.said_ready
                assert took >= 0
            case Announce(ChildFailed() | ChildParked() as event):
                assert event.failures == self.streak
            case Announce(ChildRested(_, generation)):
                assert self.alive is None
                assert self.resting
                assert generation == self.state.generation
            case Announce(ChildHeld(_, generation, cause)):
                assert self.alive is None
                assert cause.held
                assert generation == self.state.generation
            case Announce(ChildStopped()):
                assert self.alive is None
                assert not self.over
                self.over = True

    @rule()
    def start(self):
        self.resting = self.resting and self.state.phase is not Phase.IDLE
        self.feed(Start())

    @precondition(lambda self: self.alive is not None)
    @rule()
    def ready(self):
        self.said_ready.add(self.alive)
        before, _ = self.feed(Ready(self.alive))
        if before.phase is Phase.STARTING:
            assert self.state.phase is Phase.UP
            self.up_since = self.now
            self.probed_at = float("-inf")

    @precondition(lambda self: self.alive is not None)
    @rule()
    def proven(self):
        """Real work forgives the failures, but only of a child that has been ready and is still wanted."""
        before, commands = self.feed(Proven(self.alive))
        assert commands == []
        assert self.state.phase is before.phase
        if before.phase is Phase.UP:
            self.streak = 0
        assert self.state.failures == self.streak

    @precondition(lambda self: self.alive is not None)
    @rule()
    def interrupted(self):
        """What serves no more for now is starting, with the same incarnation, and has not failed."""
        before, commands = self.feed(Interrupted(self.alive, Cause("it lost something")))
        if before.phase is not Phase.UP:
            assert (self.state, commands) == (before, [])
            return
        if self.now - self.up_since >= self.policy.backoff.healthy_after:
            self.streak = 0
        self.up_since = None
        assert (self.state.phase, self.state.failures) == (Phase.STARTING, self.streak)
        event = ChildInterrupted("c", self.alive, self.state.cause)
        assert commands == [Announce(event)]
        assert self.state.cause.text == "it lost something"

    @precondition(lambda self: self.alive is not None)
    @rule(cause=CAUSES, jitter=JITTERS)
    def exited(self, cause, jitter):
        generation, self.alive = self.alive, None
        up_since, self.up_since = self.up_since, None
        asked = self.halted
        if not asked:
            healthy = up_since is not None and self.now - up_since >= self.policy.backoff.healthy_after
            self.streak = 0 if healthy else self.streak
            self.resting = cause.held and not self.is_over_after(cause)
            self.streak += not self.resting
        before, _ = self.feed(Exited(generation, cause), jitter)
        if asked:
            assert self.state.phase is not Phase.PARKED
            assert (self.state.phase is Phase.IDLE) == self.resting
            return
        self.check_what_followed(before, cause, jitter)

    def is_over_after(self, cause):
        """Whether the restart kind says that the child is done after that."""
        restart = self.policy.restart
        return restart is Restart.TEMPORARY or (restart is Restart.TRANSIENT and cause.normal)

    def check_what_followed(self, before, cause, jitter):
        """After an unasked end: the restart kind, parking and the delay, each by its written rule."""
        policy = self.policy
        if self.is_over_after(cause):
            assert self.state.phase is Phase.DONE
        elif cause.held:
            assert self.state.held
            assert self.state.failures == self.streak
        elif policy.parking and (self.streak >= policy.parking.after or not cause.retryable):
            assert self.state.phase is Phase.PARKED
            assert self.timer[1] == pytest.approx(self.now + policy.parking.probe)
        elif self.streak == 1:
            assert self.state.phase is Phase.STARTING
            assert self.alive == before.generation + 1
        else:
            wait = jitter * min(policy.backoff.cap, policy.backoff.initial * 2 ** (self.streak - 2))
            assert self.state.phase is Phase.WAITING
            assert self.timer[1] == pytest.approx(self.now + wait)

    @precondition(lambda self: self.timer is not None)
    @rule()
    def due(self):
        (generation, at), self.timer = self.timer, None
        self.now = max(self.now, at)
        _, commands = self.feed(Due(generation))
        assert any(isinstance(command, Spawn) for command in commands)

    @rule()
    def demand(self):
        self.resting = False
        before, commands = self.feed(Demand())
        spawned = any(isinstance(command, Spawn) for command in commands)
        since = self.now - before.attempt_at
        if before.phase is Phase.WAITING:
            assert spawned == (since >= 1.0)
            if not spawned:
                assert self.timer[1] <= before.attempt_at + 1.0 or self.timer[1] == before.next_attempt_at
        elif before.phase is Phase.PARKED:
            rest = min(self.policy.parking.refusal, self.policy.parking.probe)
            assert spawned == (self.now - self.probed_at >= rest)
            if spawned:
                self.probed_at = self.now
        elif before.phase is Phase.IDLE:
            assert spawned
        else:
            assert commands == []

    @precondition(lambda self: self.state.phase is Phase.PARKED)
    @rule()
    def demand_again_at_once(self):
        """Two callers, one after the other, of a child that cannot be cured."""
        self.demand()
        if self.alive is not None:
            self.exited(Cause("cannot", retryable=False), 0.75)
            self.demand()

    @rule()
    def resume(self):
        self.resting = False
        before, commands = self.feed(Resume())
        if before.phase in {Phase.IDLE, Phase.WAITING, Phase.PARKED}:
            assert self.state.phase is Phase.STARTING
            assert self.state.failures == 0
            self.streak = 0
        else:
            assert commands == []

    @rule(ahead=st.sampled_from([-1.0, 0.0, 5.0]))
    def recycle(self, ahead):
        self.resting = self.resting and self.state.phase is Phase.IDLE
        before, commands = self.feed(Recycle(self.now + ahead))
        if before.phase is Phase.IDLE:
            assert commands == []
        if before.phase in {Phase.STARTING, Phase.UP}:
            assert self.state.phase is Phase.STOPPING
            self.up_since = None

    @rule()
    def rest(self):
        before, commands = self.feed(Rest())
        if before.phase is not Phase.UP:
            assert commands == []
            return
        assert self.state.phase is Phase.STOPPING
        self.resting = True
        if self.now - self.up_since >= self.policy.backoff.healthy_after:
            self.streak = 0
        self.up_since = None

    @precondition(lambda self: self.state.generation > self.stops_after)
    @rule()
    def stop(self):
        self.feed(Stop())
        self.asked_to_stop = True
        self.resting = False
        self.up_since = None if self.state.phase is not Phase.UP else self.up_since
        assert self.state.phase in {Phase.STOPPING, Phase.DONE}
        assert self.halted or self.alive is None
        assert self.state.again_at is None
        assert not self.state.resting

    @precondition(lambda self: self.state.generation > 1)
    @rule(age=st.integers(1, 3), which=st.integers(0, 4))
    def something_stale(self, age, which):
        old = self.state.generation - min(age, self.state.generation)
        cause = Cause("old")
        fact = [Ready(old), Proven(old), Interrupted(old, cause), Exited(old, cause), Due(old)][which]
        assert lifecycle.step(self.state, fact, now=self.now, jitter=0.5) == (self.state, [])

    @rule(seconds=st.floats(0.01, 40))
    def time_passes(self, seconds):
        limit = self.timer[1] if self.timer else float("inf")
        self.now = min(self.now + seconds, limit)

    @invariant()
    def phase_and_world_agree(self):
        phase = self.state.phase
        running = phase in {Phase.STARTING, Phase.UP, Phase.STOPPING}
        assert (self.alive is not None) == running
        assert (self.timer is not None) == (phase in {Phase.WAITING, Phase.PARKED})
        assert (self.state.next_attempt_at is not None) == (self.timer is not None)
        assert (self.state.up_since is not None) == (phase is Phase.UP)

    @invariant()
    def rest_is_known(self):
        assert self.state.resting == self.resting

    @invariant()
    def held_is_idle(self):
        assert not self.state.held or (self.alive is None and self.timer is None and self.resting)

    @invariant()
    def up_is_earned(self):
        if self.state.phase is Phase.UP:
            assert self.state.generation in self.said_ready

    @invariant()
    def stopped_stays_stopped(self):
        if self.asked_to_stop:
            assert self.state.phase in {Phase.STOPPING, Phase.DONE}
            assert self.state.again_at is None
        assert self.over == (self.state.phase is Phase.DONE)


def play(chance: Random, steps: int) -> None:
    """Play one game; raises what a rule or an invariant finds wrong."""
    kernel = Kernel()
    kernel.begin(
        restart=chance.choice([*[Restart.PERMANENT] * 3, Restart.TRANSIENT, Restart.TEMPORARY]),
        parking=chance.choice([None, Parking(after=chance.choice([1, 1, 2, 3, 8]))]),
        healthy_after=chance.uniform(0.1, 50),
        on_demand=chance.random() < 0.5,
        stops_after=chance.choice([0, 3]),
    )
    for _ in range(steps):
        possible = [each for each in kernel.rules if all(holds(kernel) for holds in each.preconditions)]
        taken = chance.choice(possible)
        taken.function(kernel, **{name: DRAWN[name](chance) for name in taken.arguments})
        for invariant_ in kernel.invariants:
            invariant_.function(kernel)


DRAWN = {
    "cause": lambda chance: Cause(
        "it broke",
        normal=chance.random() < 0.5,
        retryable=chance.random() < 0.75,
        held=chance.random() < 0.25,
    ),
    "jitter": lambda chance: chance.uniform(0.5, 1),
    "ahead": lambda chance: chance.choice([-1.0, 0.0, 5.0]),
    "seconds": lambda chance: chance.uniform(0.01, 40),
    "age": lambda chance: chance.randint(1, 3),
    "which": lambda chance: chance.randint(0, 4),
}
"""What `play` gives the rules, by the names of their arguments."""
