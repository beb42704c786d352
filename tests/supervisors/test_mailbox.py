"""Mailboxes, replies and actors, in virtual time on both back ends."""

from __future__ import annotations

import anyio
import pytest

from supervisors import (
    Actor,
    ActorRef,
    ChildSpec,
    Mailbox,
    MailboxClosed,
    MailboxFull,
    Policy,
    Reply,
    Supervisor,
)
from supervisors.testing import virtual_backends

BACKENDS = ["trio", "asyncio"]


def run(backend, main):
    """Run `main` in virtual time."""
    options = dict(virtual_backends())[backend]
    return anyio.run(main, backend=backend, backend_options=options)


def test_a_full_mailbox_refuses_the_newest_and_keeps_the_rest():
    box = Mailbox(2)
    box.put("a")
    box.put("b")
    with pytest.raises(MailboxFull):
        box.put("c")
    assert box.discard("a")
    assert not box.discard("a")
    box.put("c")
    assert box.close() == ["b", "c"]
    with pytest.raises(MailboxClosed):
        box.put("d")


@pytest.mark.parametrize("backend", BACKENDS)
def test_taking_waits_and_a_cancelled_take_loses_nothing(backend):
    async def main():
        box = Mailbox(4)
        with anyio.move_on_after(1) as scope:
            await box.take()
        assert scope.cancelled_caught
        box.put("a")
        assert await box.take() == "a"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put_later, box)
            assert await box.take() == "later"

    async def put_later(box):
        await anyio.sleep(5)
        box.put("later")

    run(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unaccepted_request_expires_with_the_error_of_its_holder(backend):
    async def main():
        reply = Reply()
        gone = []
        reply.on_abandon = lambda: gone.append(True)
        reply.limit(15, lambda: LookupError("nobody took it"))
        started = anyio.current_time()
        with pytest.raises(LookupError, match="nobody took it"):
            await reply.wait()
        assert anyio.current_time() - started == pytest.approx(15)
        assert gone == [True]
        assert not reply.accept()
        assert not reply.resolve("too late")

    run(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_accepted_request_waits_for_as_long_as_it_takes(backend):
    async def main():
        reply = Reply()
        reply.limit(15, lambda: LookupError("nobody took it"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, reply)
            assert await reply.wait() == "served"

    async def serve(reply):
        await anyio.sleep(14)
        assert reply.accept()
        await anyio.sleep(500)
        assert reply.resolve("served")

    run(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_asker_that_goes_away_withdraws_its_message(backend):
    async def main():
        ref = ActorRef("nobody", 4)
        with anyio.move_on_after(1):
            await ref.ask("hello")
        assert len(ref.mailbox) == 0

    run(backend, main)


class Adder(Actor):
    """Adds; a word crashes it."""

    def __init__(self, ref):
        super().__init__(ref)
        self.total = 0

    async def handle(self, message, reply):
        self.total += message
        if reply is not None:
            reply.resolve(self.total)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_crash_reaches_the_asker_and_spares_the_mailbox(backend):
    async def main():
        ref = ActorRef("adder", 16)
        supervisor = Supervisor()
        supervisor.add(ChildSpec(name="adder", run=Adder(ref).run, policy=Policy()))
        async with anyio.create_task_group() as tasks:
            await tasks.start(supervisor.run)
            ref.tell(1)
            assert await ref.ask(2) == 3
            with pytest.raises(TypeError):
                await ref.ask("a word")
            assert await ref.ask(4) == 7
            assert supervisor.state("adder").generation == 2
            supervisor.stop()

    run(backend, main)
