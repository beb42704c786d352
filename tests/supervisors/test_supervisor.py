"""The shell in virtual time, on both anyio back ends: what children live through, and when."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from supervisors import (
    Backoff,
    Cause,
    ChildFailed,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildSpec,
    ChildStarting,
    ChildStopped,
    ChildStuck,
    DuplicateChild,
    Intensity,
    NoSuchChild,
    Parking,
    Phase,
    Policy,
    Restart,
    Shutdown,
    SignificantChildFailed,
    Strategy,
    Supervisor,
    TooManyRestarts,
)
from supervisors.testing import Recorder


class Patient:
    """A child that starts after `start` seconds, and dies when told to."""

    def __init__(self, start=0.0):
        self.start = start
        self.running = 0
        self.most = 0
        self._blow = anyio.Event()

    def kill(self):
        self._blow.set()

    async def run(self, incarnation):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await anyio.sleep(self.start)
            incarnation.ready()
            self._blow = anyio.Event()
            await incarnation.while_wanted(self._blow.wait)
            if not incarnation.stopping.is_set():
                raise RuntimeError("killed")
        finally:
            self.running -= 1


async def crash(incarnation):
    raise RuntimeError("no luck")


def supervised(main, **options):
    """`main(supervisor, recorder)` beside a running supervisor, which is stopped afterwards."""

    async def body():
        recorder = Recorder()
        supervisor = Supervisor(observe=recorder, jitter=lambda: 1.0, **options)
        async with anyio.create_task_group() as tasks:
            await tasks.start(supervisor.run)
            with anyio.fail_after(10_000):
                await main(supervisor, recorder)
            supervisor.stop()
        return recorder

    return body


def test_a_killed_child_is_back_at_once(virtual):
    async def main(supervisor, recorder):
        patient = Patient(start=2)
        supervisor.add(ChildSpec(name="p", run=patient.run))
        await recorder.wait_for(ChildReady)
        killed = anyio.current_time()
        patient.kill()
        await recorder.wait_for(ChildReady, count=2)
        assert anyio.current_time() - killed == pytest.approx(2)
        assert supervisor.state("p").generation == 2

    virtual(supervised(main))


def test_a_crash_loop_backs_off_and_parks(virtual):
    async def main(supervisor, recorder):
        policy = Policy(backoff=Backoff(initial=1, cap=4), parking=Parking(after=6, probe=100))
        supervisor.add(ChildSpec(name="p", run=crash, policy=policy))
        parked = await recorder.wait_for(ChildParked)
        assert [event.retry_in for event in recorder.of(ChildFailed)] == [0, 1, 2, 4, 4]
        assert parked.cause.text == "RuntimeError: no luck"
        assert anyio.current_time() == pytest.approx(11, abs=0.01)
        await recorder.wait_for(ChildParked, count=2)
        assert anyio.current_time() == pytest.approx(111, abs=0.01)

    virtual(supervised(main))


def test_a_demand_ends_the_wait(virtual):
    async def main(supervisor, recorder):
        supervisor.add(ChildSpec(name="p", run=crash, policy=Policy(backoff=Backoff(initial=50))))
        await recorder.wait_for(ChildFailed, count=2)
        assert supervisor.state("p").phase is Phase.WAITING
        for _ in range(5):  # five callers, one attempt
            assert supervisor.demand("p")
        await recorder.wait_for(ChildFailed, count=3)
        assert anyio.current_time() == pytest.approx(1, abs=0.01)
        assert len(recorder.of(ChildStarting)) == 3

    virtual(supervised(main))


def test_a_parked_child_refuses_demands_until_it_has_rested(virtual):
    async def main(supervisor, recorder):
        policy = Policy(parking=Parking(after=1, probe=300))
        supervisor.add(ChildSpec(name="p", run=crash, policy=policy))
        await recorder.wait_for(ChildParked)
        assert supervisor.demand("p")
        await recorder.wait_for(ChildParked, count=2)
        assert not supervisor.demand("p")
        await anyio.sleep(10)
        assert supervisor.demand("p")
        await recorder.wait_for(ChildParked, count=3)
        assert not supervisor.demand("p")
        supervisor.resume("p")
        await recorder.wait_for(ChildParked, count=4)

    virtual(supervised(main))


def test_recycling_is_no_failure(virtual):
    async def main(supervisor, recorder):
        patient = Patient()
        supervisor.add(ChildSpec(name="p", run=patient.run))
        await recorder.wait_for(ChildReady)
        supervisor.recycle("p")
        await recorder.wait_for(ChildReady, count=2)
        assert recorder.of(ChildFailed) == []
        assert patient.most == 1

    virtual(supervised(main))


def test_a_child_on_demand_starts_when_it_is_demanded_and_rests_again(virtual):
    async def main(supervisor, recorder):
        patient = Patient(start=2)
        supervisor.add(ChildSpec(name="p", run=patient.run, on_demand=True))
        supervisor.add(ChildSpec(name="other", run=Patient().run))
        await recorder.wait_for(ChildReady)
        assert (supervisor.state("p").phase, patient.running) == (Phase.IDLE, 0)
        supervisor.recycle("p")  # there is nothing to end
        assert supervisor.demand("p")
        await recorder.wait_for(ChildReady, count=2)
        supervisor.rest("p")
        rested = await recorder.wait_for(ChildRested)
        assert (rested.generation, supervisor.state("p").phase, patient.running) == (1, Phase.IDLE, 0)
        supervisor.resume("p")
        await recorder.wait_for(ChildReady, count=3)
        assert recorder.of(ChildFailed) == []

    virtual(supervised(main))


def test_a_demand_of_a_child_that_goes_to_rest_is_not_lost(virtual):
    async def main(supervisor, recorder):
        async def leaves_late(incarnation):
            incarnation.ready()
            await incarnation.stopping.wait()
            await anyio.sleep(3)

        supervisor.add(ChildSpec(name="late", run=leaves_late))
        await recorder.wait_for(ChildReady)
        supervisor.rest("late")
        await anyio.sleep(1)
        assert supervisor.demand("late")
        await recorder.wait_for(ChildReady, count=2)
        assert anyio.current_time() == pytest.approx(3)
        assert recorder.of(ChildRested) == []

    virtual(supervised(main))


def test_a_demand_before_the_supervisor_runs_is_noted(virtual):
    async def main():
        recorder = Recorder()
        supervisor = Supervisor(observe=recorder)
        for name in ("wanted", "other"):
            supervisor.add(ChildSpec(name=name, run=Patient().run, on_demand=True))
        assert supervisor.demand("wanted")
        async with anyio.create_task_group() as tasks:
            await tasks.start(supervisor.run)
            assert (await recorder.wait_for(ChildReady)).child == "wanted"
            supervisor.stop()
            assert supervisor.demand("other")
        assert [event.child for event in recorder.of(ChildStarting)] == ["wanted"]

    virtual(main)


def test_a_child_that_works_between_its_deaths_is_back_at_once_each_time(virtual):
    async def main(supervisor, recorder):
        async def works_and_dies(incarnation):
            incarnation.ready()
            await anyio.sleep(1)
            if incarnation.generation <= 20:
                incarnation.proven()
            raise RuntimeError("worn out")

        policy = Policy(backoff=Backoff(initial=2), parking=Parking(after=3))
        supervisor.add(ChildSpec(name="p", run=works_and_dies, policy=policy))
        await recorder.wait_for(ChildParked)
        pauses = [event.retry_in for event in recorder.of(ChildFailed)]
        assert pauses == [0] * 20 + [2]

    virtual(supervised(main))


def test_siblings_go_down_together_and_start_in_order(virtual):
    async def main(supervisor, recorder):
        patients = {name: Patient() for name in "abc"}
        for name, patient in patients.items():
            supervisor.add(ChildSpec(name=name, run=patient.run))
        await recorder.wait_for(ChildReady, count=3)
        patients["b"].kill()
        await recorder.wait_for(ChildReady, count=5)
        assert [event.child for event in recorder.of(ChildReady)] == ["a", "b", "c", "b", "c"]
        assert all(patient.most == 1 for patient in patients.values())

    virtual(supervised(main, strategy=Strategy.REST_FOR_ONE))


def test_few_start_at_a_time_in_the_order_of_their_priority(virtual):
    async def main(supervisor, recorder):
        for name in "abcdef":
            rank = {"d": 1, "c": 2}.get(name, 0 if name in "ab" else 3)
            supervisor.add(ChildSpec(name=name, run=Patient(start=1).run, priority=lambda rank=rank: rank))
        await recorder.wait_for(ChildReady, count=6)
        assert anyio.current_time() == pytest.approx(3, abs=0.01)
        order = [event.child for event in recorder.of(ChildReady)]
        assert [set(order[:2]), set(order[2:4]), set(order[4:])] == [set("ab"), set("cd"), set("ef")]

    virtual(supervised(main, max_starting=2))


def test_a_start_is_not_held_back_by_those_of_a_higher_priority_number(virtual):
    async def main(supervisor, recorder):
        ranks = dict.fromkeys("abcd", 1)
        for name in ranks:
            spec = ChildSpec(name=name, run=Patient(start=5).run, priority=partial(ranks.__getitem__, name))
            supervisor.add(spec)
        await anyio.sleep(1)
        ranks |= {"c": 0, "d": 0}
        supervisor.reprioritize()
        await recorder.wait_for(ChildReady, count=4)
        assert anyio.current_time() == pytest.approx(6, abs=0.01)  # not 10

    virtual(supervised(main, max_starting=2))


def test_a_slow_start_no_longer_holds_others_back(virtual):
    async def main(supervisor, recorder):
        for name in "ab":
            supervisor.add(ChildSpec(name=name, run=Patient(start=60).run))
        for name in "cdef":
            supervisor.add(ChildSpec(name=name, run=Patient(start=1).run))
        await recorder.wait_for(ChildReady, count=4)
        assert [event.child for event in recorder.of(ChildReady)][-1] in "ef"
        assert anyio.current_time() == pytest.approx(22, abs=0.01)

    virtual(supervised(main, max_starting=2, slow_start=20))


def test_too_many_restarts_end_the_supervisor(virtual):
    async def main():
        supervisor = Supervisor(intensity=Intensity(restarts=3, within=60))
        supervisor.add(ChildSpec(name="p", run=crash, policy=Policy(backoff=Backoff(initial=0.1))))
        other = Patient()
        supervisor.add(ChildSpec(name="other", run=other.run))
        with pytest.raises(TooManyRestarts, match="no luck"):
            await supervisor.run()
        assert other.running == 0

    virtual(main)


def test_an_expendable_child_is_parked_and_costs_its_siblings_nothing(virtual):
    async def main(supervisor, recorder):
        other = Patient()
        supervisor.add(ChildSpec(name="other", run=other.run))
        supervisor.add(ChildSpec(name="side", run=crash))
        parked = await recorder.wait_for(ChildParked, count=9)
        waits = [event.probe_in for event in recorder.of(ChildParked)]
        assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
        assert (parked.failures, parked.cause.text) == (12, "RuntimeError: no luck")
        assert (other.running, other.most) == (1, 1)
        assert [state.child for state in supervisor.parked()] == ["side"]

    virtual(supervised(main, intensity=Intensity(restarts=3, within=60), expendable={"side"}))


def test_an_expendable_child_that_fails_now_and_then_is_not_parked(virtual):
    async def main(supervisor, recorder):
        async def fails_every_minute(incarnation):
            incarnation.ready()
            await anyio.sleep(61)
            raise RuntimeError("no luck")

        supervisor.add(ChildSpec(name="side", run=fails_every_minute))
        await recorder.wait_for(ChildReady, count=10)
        assert not recorder.of(ChildParked)

    virtual(supervised(main, intensity=Intensity(restarts=3, within=60), expendable={"side"}))


def test_a_significant_child_takes_its_supervisor_with_it(virtual):
    async def leave(incarnation):
        await anyio.sleep(3)

    async def main():
        supervisor = Supervisor()
        spec = ChildSpec(
            name="endpoint", run=leave, policy=Policy(restart=Restart.TRANSIENT), significant=True
        )
        supervisor.add(spec)
        await supervisor.run()
        assert anyio.current_time() == pytest.approx(3, abs=0.01)
        failing = Supervisor()
        policy = Policy(restart=Restart.TEMPORARY)
        failing.add(ChildSpec(name="endpoint", run=crash, policy=policy, significant=True))
        with pytest.raises(SignificantChildFailed, match="no luck") as caught:
            await failing.run()
        assert isinstance(caught.value.__cause__, RuntimeError)

    virtual(main)


def test_stopping_is_orderly_and_bounded(virtual):
    async def deaf(incarnation):
        incarnation.ready()
        await anyio.sleep_forever()

    async def stubborn(incarnation):
        incarnation.ready()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(20)

    async def main(supervisor, recorder):
        shutdown = Shutdown(grace=5, limit=8)
        supervisor.add(ChildSpec(name="polite", run=Patient().run, shutdown=shutdown))
        supervisor.add(ChildSpec(name="deaf", run=deaf, shutdown=shutdown))
        supervisor.add(ChildSpec(name="stubborn", run=stubborn, shutdown=shutdown))
        await recorder.wait_for(ChildReady, count=3)

    recorder = virtual(supervised(main))
    assert [event.child for event in recorder.of(ChildStopped)] == ["stubborn", "deaf", "polite"]
    assert recorder.of(ChildStuck) == [ChildStuck("stubborn", 1, 13)]


def test_children_come_and_go_while_it_runs(virtual):
    async def main(supervisor, recorder):
        patient = Patient()
        supervisor.add(ChildSpec(name="p", run=patient.run))
        with pytest.raises(DuplicateChild):
            supervisor.add(ChildSpec(name="p", run=patient.run))
        await recorder.wait_for(ChildReady)
        await supervisor.remove("p")
        assert (patient.running, supervisor.names()) == (0, [])
        with pytest.raises(NoSuchChild):
            supervisor.demand("p")
        supervisor.add(ChildSpec(name="p", run=patient.run))
        await recorder.wait_for(ChildReady, count=2)

    virtual(supervised(main))


def test_a_supervisor_can_be_a_child(virtual):
    async def main(outer, recorder):
        patient = Patient()
        inner = Supervisor(observe=recorder)
        inner.add(ChildSpec(name="p", run=patient.run))
        outer.add(ChildSpec(name="inner", run=inner.run_as_child))
        await recorder.wait_for(ChildReady, count=2)
        outer.recycle("inner")
        await recorder.wait_for(ChildReady, count=4)
        assert (patient.running, patient.most) == (1, 1)
        await outer.remove("inner")
        assert patient.running == 0

    virtual(supervised(main))


def test_a_failure_is_classified_by_its_child(virtual):
    async def main(supervisor, recorder):
        supervisor.add(
            ChildSpec(
                name="p",
                run=crash,
                policy=Policy(parking=Parking()),
                classify=lambda error: Cause(f"hopeless: {error}", retryable=False),
            )
        )
        parked = await recorder.wait_for(ChildParked)
        assert (parked.failures, parked.cause.text) == (1, "hopeless: no luck")

    virtual(supervised(main))


def test_the_failure_of_a_task_group_is_named_by_what_failed_first_in_it(virtual):
    async def fails_inside(incarnation):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crash, incarnation)

    async def main(supervisor, recorder):
        supervisor.add(ChildSpec(name="p", run=fails_inside))
        assert (await recorder.wait_for(ChildFailed)).cause.text == "RuntimeError: no luck"

    virtual(supervised(main))


def test_a_dismissed_child_leaves_in_its_time_and_is_forgotten(virtual):
    async def main(supervisor, recorder):
        left = anyio.Event()

        async def leaves_late(incarnation):
            incarnation.ready()
            await incarnation.stopping.wait()
            await anyio.sleep(3)
            left.set()

        supervisor.add(ChildSpec(name="late", run=leaves_late))
        supervisor.add(ChildSpec(name="other", run=Patient().run))
        await recorder.wait_for(ChildReady, count=2)
        supervisor.dismiss("late")
        assert supervisor.names() == ["late", "other"]
        supervisor.dismiss("late")  # twice is once
        await left.wait()
        await recorder.wait_for(ChildStopped)
        assert anyio.current_time() == pytest.approx(3)
        assert supervisor.names() == ["other"]
        with pytest.raises(NoSuchChild):
            supervisor.dismiss("late")
        supervisor.add(ChildSpec(name="late", run=Patient().run))  # the name is free again
        await recorder.wait_for(ChildReady, count=3)

    virtual(supervised(main))
