"""The lifecycle of one supervised child: every state, every change, in one table.

A child is an endless sequence of *incarnations*: one run of its function each, numbered by *generation*.
This file decides, from what has happened (a *fact*), what the child is now (its *state*) and what must be
done about it (*commands*; both are in `facts`). It is pure: the clock (`now`) and the random number
(`jitter`) are passed in. The supervisor feeds facts and carries commands out.

The theory of operation:

* Being `UP` is earned. A new incarnation is `STARTING` until it says `Ready` itself; that it runs, or is
  connected, proves nothing.
* An incarnation that has lost what it serves with, and gets it again by itself, is `STARTING` meanwhile
  (`Interrupted`). That is no failure, unless it ends: then it has failed before it was ready.
* An incarnation that ends unasked is a failure, and consecutive failures are counted. The count starts
  again after `healthy_after` seconds in `UP`, or as soon as an incarnation is `Proven`, by work that it has
  done for a caller; never for being up, so that a child that connects and dies in a loop still backs off.
  The first failure is answered at once, later ones after a growing, jittered delay
  (`WAITING`). A timer always exists in `WAITING`: the child cannot be forgotten.
* After `parking.after` consecutive failures, or at once after one that is not `retryable`, the child
  is `PARKED`: callers are refused, a slow probe goes on. No child is given up for good.
* A child that did not get ready `parking.alike` times, with the same last words, is parked too: it will say
  them again. Its probes get rarer and rarer, as do all those of a child whose parking `slows`.
* While the cause is `passing`, a child is not parked before `parking.patience` seconds are over, and until
  then attempts that demands have hastened are not counted: callers, however many, cost it nothing.
* After a failure that is `held`, the child is `IDLE` until a demand or `Resume`: only somebody outside can
  mend its cause, and says so by that. It keeps its cause, and counts no failure.
* A *demand* (a caller needs the child) collapses the wait into one attempt now, at most one in
  `demand_interval`. A parked child is tried at once for the first demand, and then for one in
  `parking.refusal` or `parking.probe`, whichever is sooner.
* `Resume` (an operator, a new configuration) forgets the failures and tries at once.
* `Recycle` ends a healthy incarnation and starts the next one without counting a failure.
* `Rest` ends a healthy incarnation and counts no failure either, but the next one waits for a demand: the
  child is `IDLE`, as one that is on demand is from the beginning. A demand that comes while the incarnation
  is leaving is not lost: the child is started when it has left.
* `Stop` is final: `STOPPING` until the incarnation has ended, then `DONE`.

Every fact about an incarnation carries its generation, and one from an old generation changes nothing.
A pair of state and fact that is not in the table means: stale or meaningless here, ignore.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from supervisors.events import (
    Cause,
    ChildFailed,
    ChildHeld,
    ChildInterrupted,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildStarting,
    ChildStopped,
)
from supervisors.facts import (
    Announce,
    Arm,
    Command,
    Demand,
    Disarm,
    Due,
    Exited,
    Fact,
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
from supervisors.policy import Parking, Policy, Restart, delay, probe_delay


class Phase(StrEnum):
    """The phases of a child."""

    IDLE = "idle"
    STARTING = "starting"
    UP = "up"
    WAITING = "waiting"
    PARKED = "parked"
    STOPPING = "stopping"
    DONE = "done"


class ChildState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one child. Times are clock readings in seconds."""

    child: str
    policy: Policy = Policy()
    phase: Phase = Phase.IDLE
    generation: int = 0
    """Number of the newest incarnation; 0 before the first."""
    failures: int = 0
    """Consecutive failures, since one was last proven or long up."""
    failing_since: float = float("-inf")
    """When the first of them happened."""
    alike: int = 0
    """Number of ends in a row before it was ready, with the same last words."""
    readied: int = 0
    """Number of incarnations that have been ready."""
    hastened: bool = False
    """True if the newest incarnation, or the next attempt, is earlier than it would be without a demand."""
    cause: Cause | None = None
    """Cause of the end of the last incarnation, until one is ready again."""
    attempt_at: float = float("-inf")
    """When the newest incarnation was started."""
    probed_at: float = float("-inf")
    """When it was last tried for a demand while parked; reset when it is ready."""
    up_since: float | None = None
    """Set exactly in `UP`."""
    next_attempt_at: float | None = None
    """When the timer runs out: set exactly in `WAITING` and `PARKED`."""
    again_at: float | None = None
    """In `STOPPING`: start again no earlier than this, because it is being recycled."""
    resting: bool = False
    """In `IDLE`: wait for a demand; in `STOPPING`: do so afterwards."""

    @property
    def held(self) -> bool:
        """True if it is idle because of a cause that somebody outside has to mend."""
        return self.phase is Phase.IDLE and self.cause is not None and self.cause.held


class Moment(msgspec.Struct, frozen=True):
    """The inputs of one step that are not facts: the clock's reading, and a random number in [0.5, 1]."""

    now: float
    jitter: float


Step = tuple[ChildState, list[Command]]
Handler = Callable[[ChildState, Any, Moment], Step]


def step(state: ChildState, fact: Fact, *, now: float, jitter: float) -> Step:
    """The state after `fact`, and the commands to carry out, in order. Pure; never raises for any pair."""
    generation = getattr(fact, "generation", state.generation)
    handler = TABLE[state.phase].get(type(fact))
    if handler is None or generation != state.generation:
        return state, []
    return handler(state, fact, Moment(now, jitter))


# --- the changes


def _attempt(state: ChildState, _fact: object, moment: Moment) -> Step:
    """Start the next incarnation now."""
    commands: list[Command] = [] if state.next_attempt_at is None else [Disarm()]
    generation = state.generation + 1
    state = replace(
        state,
        phase=Phase.STARTING,
        generation=generation,
        attempt_at=moment.now,
        up_since=None,
        next_attempt_at=None,
        again_at=None,
        resting=False,
    )
    return state, [*commands, Announce(ChildStarting(state.child, generation)), Spawn(generation)]


def _up(state: ChildState, _fact: Ready, moment: Moment) -> Step:
    event = ChildReady(state.child, state.generation, moment.now - state.attempt_at)
    state = replace(
        state,
        phase=Phase.UP,
        up_since=moment.now,
        cause=None,
        probed_at=float("-inf"),
        alike=0,
        readied=state.readied + 1,
    )
    return state, [Announce(event)]


def _interrupted(state: ChildState, fact: Interrupted, moment: Moment) -> Step:
    """It serves no more, and will by itself."""
    event = ChildInterrupted(state.child, state.generation, fact.cause)
    failures = 0 if _was_healthy(state, moment) else state.failures
    state = replace(
        state,
        phase=Phase.STARTING,
        failures=failures,
        attempt_at=moment.now,
        up_since=None,
        cause=fact.cause,
    )
    return state, [Announce(event)]


def _proven(state: ChildState, _fact: Proven, _moment: Moment) -> Step:
    """It works: if it ends now, that is a first failure."""
    return replace(state, failures=0), []


def _ended(state: ChildState, fact: Exited, moment: Moment) -> Step:
    """The incarnation ended unasked: start again at once, wait, park, or be done."""
    restart = state.policy.restart
    if restart is Restart.TEMPORARY or (restart is Restart.TRANSIENT and fact.cause.normal):
        return _done(replace(state, cause=fact.cause), fact, moment)
    if fact.cause.held:
        return _hold(state, fact, moment)
    state = _counted(state, fact.cause, moment)
    if (parking := state.policy.parking) and _is_given_up(state, fact.cause, parking, moment):
        return _wait(state, Phase.PARKED, moment, probe_delay(state.failures, state.alike, parking))
    return _wait(state, Phase.WAITING, moment, delay(state.failures, moment.jitter, state.policy.backoff))


def _counted(state: ChildState, cause: Cause, moment: Moment) -> ChildState:
    """The state with one more failure, unless a demand has only brought it forward."""
    is_first = state.failures == 0 or _was_healthy(state, moment)
    since = moment.now if is_first else state.failing_since
    is_extra = state.hastened and not is_first and _has_patience(state, cause, since, moment)
    failures = 1 if is_first else state.failures + (not is_extra)
    is_same = state.cause is not None and state.cause.last_words == cause.last_words
    alike = 0 if state.phase is Phase.UP or not cause.last_words else state.alike + 1 if is_same else 1
    return replace(
        state, failures=failures, failing_since=since, alike=alike, cause=cause, up_since=None, hastened=False
    )


def _is_given_up(state: ChildState, cause: Cause, parking: Parking, moment: Moment) -> bool:
    """True if the child is parked after this failure, the last that was counted."""
    if not cause.retryable or state.alike >= parking.alike:
        return True
    patient = _has_patience(state, cause, state.failing_since, moment)
    return state.failures >= parking.after and not patient


def _has_patience(state: ChildState, cause: Cause, since: float, moment: Moment) -> bool:
    """True if a failure since then is still taken for one that will be over soon."""
    parking = state.policy.parking
    return cause.passing and parking is not None and moment.now - since < parking.patience


def _hold(state: ChildState, fact: Exited, moment: Moment) -> Step:
    """Wait for a demand; nothing else would help."""
    failures = 0 if _was_healthy(state, moment) else state.failures
    state = replace(state, phase=Phase.IDLE, failures=failures, cause=fact.cause, up_since=None, resting=True)
    return state, [Announce(ChildHeld(state.child, state.generation, fact.cause))]


def _was_healthy(state: ChildState, moment: Moment) -> bool:
    """True if it has been up for so long that earlier failures no longer count."""
    return state.up_since is not None and moment.now - state.up_since >= state.policy.backoff.healthy_after


def _wait(state: ChildState, phase: Phase, moment: Moment, seconds: float) -> Step:
    """Hold the next attempt back for `seconds`; zero means now, without a detour through the timer."""
    cause = state.cause or Cause("unknown")
    kind = ChildParked if phase is Phase.PARKED else ChildFailed
    event = Announce(kind(state.child, state.generation, cause, state.failures, seconds))
    if seconds <= 0:
        state, commands = _attempt(state, None, moment)
        return state, [event, *commands]
    at = moment.now + seconds
    return replace(state, phase=phase, next_attempt_at=at), [event, Arm(state.generation, at)]


def _due(state: ChildState, fact: Due, moment: Moment) -> Step:
    """The timer has run out by itself: there is none to disarm."""
    return _attempt(replace(state, next_attempt_at=None), fact, moment)


def _hasten(state: ChildState, _fact: Demand, moment: Moment) -> Step:
    """A demand while waiting: now, or as soon as the demand interval allows."""
    earliest = state.attempt_at + state.policy.demand_interval
    if moment.now >= earliest:
        return _attempt(replace(state, hastened=True), None, moment)
    if state.next_attempt_at is not None and state.next_attempt_at <= earliest:
        return state, []
    return replace(state, next_attempt_at=earliest, hastened=True), [Arm(state.generation, earliest)]


def _probe(state: ChildState, _fact: Demand, moment: Moment) -> Step:
    """A demand while parked: one attempt, unless the last one that was made for a demand is too fresh."""
    if refused_for(state, moment.now) > 0:
        return state, []
    return _attempt(replace(state, probed_at=moment.now), None, moment)


def refused_for(state: ChildState, now: float) -> float:
    """Seconds for which a demand changes nothing: the child is parked, and was tried for one just now."""
    parking = state.policy.parking
    if state.phase is not Phase.PARKED or parking is None:
        return 0.0
    return max(0.0, state.probed_at + min(parking.refusal, parking.probe) - now)


def _resume(state: ChildState, fact: Resume, moment: Moment) -> Step:
    return _attempt(replace(state, failures=0, alike=0, hastened=False), fact, moment)


def _recycle(state: ChildState, fact: Recycle, _moment: Moment) -> Step:
    return replace(state, phase=Phase.STOPPING, again_at=fact.at, up_since=None), [Halt(state.generation)]


def _rest(state: ChildState, _fact: Rest, moment: Moment) -> Step:
    failures = 0 if _was_healthy(state, moment) else state.failures
    state = replace(state, phase=Phase.STOPPING, failures=failures, resting=True, up_since=None)
    return state, [Halt(state.generation)]


def _no_rest(state: ChildState, fact: Demand | Resume | Recycle, moment: Moment) -> Step:
    """It is needed after all: start again when the incarnation has left."""
    if not state.resting:
        return state, []
    return replace(state, resting=False, again_at=fact.at if isinstance(fact, Recycle) else moment.now), []


def _stop(state: ChildState, _fact: Stop, _moment: Moment) -> Step:
    return replace(state, phase=Phase.STOPPING, again_at=None, up_since=None), [Halt(state.generation)]


def _stop_for_good(state: ChildState, _fact: Stop, _moment: Moment) -> Step:
    """A stop overtakes a recycling or a rest that is under way."""
    return replace(state, again_at=None, resting=False), []


def _left(state: ChildState, fact: Exited, moment: Moment) -> Step:
    """The incarnation left as it was asked to."""
    if state.resting:
        rested = Announce(ChildRested(state.child, state.generation))
        return replace(state, phase=Phase.IDLE), [rested]
    if state.again_at is None:
        return _done(state, fact, moment)
    if state.again_at <= moment.now:
        return _attempt(state, fact, moment)
    at = state.again_at
    waiting = replace(state, phase=Phase.WAITING, next_attempt_at=at, again_at=None)
    return waiting, [Arm(state.generation, at)]


def _done(state: ChildState, _fact: object, _moment: Moment) -> Step:
    commands: list[Command] = [] if state.next_attempt_at is None else [Disarm()]
    event = ChildStopped(state.child, state.generation, state.cause)
    state = replace(
        state, phase=Phase.DONE, up_since=None, next_attempt_at=None, again_at=None, resting=False
    )
    return state, [*commands, Announce(event)]


TABLE: Final[dict[Phase, dict[type, Handler]]] = {
    Phase.IDLE: {Start: _attempt, Demand: _attempt, Resume: _resume, Stop: _done},
    Phase.STARTING: {Ready: _up, Exited: _ended, Recycle: _recycle, Stop: _stop},
    Phase.UP: {
        Proven: _proven,
        Interrupted: _interrupted,
        Exited: _ended,
        Recycle: _recycle,
        Rest: _rest,
        Stop: _stop,
    },
    Phase.WAITING: {Due: _due, Demand: _hasten, Resume: _resume, Stop: _done},
    Phase.PARKED: {Due: _due, Demand: _probe, Resume: _resume, Stop: _done},
    Phase.STOPPING: {
        Exited: _left,
        Demand: _no_rest,
        Resume: _no_rest,
        Recycle: _no_rest,
        Stop: _stop_for_good,
    },
    Phase.DONE: {},
}
