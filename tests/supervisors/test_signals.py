from __future__ import annotations

import anyio

from supervisors import Signal


def test_a_set_signal_is_not_waited_for_until_it_is_cleared(virtual):
    async def main():
        signal = Signal()
        signal.set()
        assert signal.is_set()
        await signal.wait()
        signal.clear()
        assert not signal.is_set()
        with anyio.move_on_after(1) as scope:
            await signal.wait()
        assert scope.cancelled_caught

    virtual(main)


def test_what_happens_while_the_consumer_acts_wakes_it_again(virtual):
    async def main():
        signal, seen = Signal(), []

        async def consume():
            while len(seen) < 2:
                await signal.wait()
                signal.clear()
                seen.append(len(seen))
                if len(seen) == 1:
                    signal.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            await anyio.wait_all_tasks_blocked()
            signal.set()
        assert seen == [0, 1]

    virtual(main)


def test_a_pulse_wakes_whoever_waits_and_nobody_later(virtual):
    async def main():
        signal, woken = Signal(), []

        async def wait(name):
            await signal.wait()
            woken.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "one")
            tasks.start_soon(wait, "other")
            await anyio.wait_all_tasks_blocked()
            signal.pulse()
            tasks.start_soon(wait, "later")
            await anyio.wait_all_tasks_blocked()
            assert sorted(woken) == ["one", "other"]
            assert not signal.is_set()
            tasks.cancel_scope.cancel()

    virtual(main)
