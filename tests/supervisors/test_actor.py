"""Mailboxes, replies and actors, in virtual time on both back ends."""

from __future__ import annotations

import anyio
import pytest

from supervisors import (
    Abandoned,
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


def test_an_attached_consumer_gets_what_waits_and_then_each_message_at_once():
    box, seen = Mailbox(8), []
    box.put("waited")
    box.attach(seen.append)
    box.put("at once")
    assert seen == ["waited", "at once"]
    box.detach()
    box.put("later")
    assert seen == ["waited", "at once"]
    assert len(box) == 1


def test_a_consumer_is_never_entered_twice():
    box, order = Mailbox(8), []

    def consume(message):
        order.append(f"begin {message}")
        if message == "a":
            box.put("b")
        order.append(f"end {message}")

    box.attach(consume)
    box.put("a")
    assert order == ["begin a", "end a", "begin b", "end b"]


def test_a_consumer_that_detaches_itself_leaves_the_rest_waiting():
    box, seen = Mailbox(8), []
    box.put("a")
    box.put("b")

    def consume(message):
        seen.append(message)
        box.detach()

    box.attach(consume)
    assert (seen, len(box)) == (["a"], 1)
    box.put_back("a")
    box.attach(seen.append)
    assert seen == ["a", "a", "b"]


def test_a_reply_is_settled_once_and_calls_back():
    heard = []
    reply = Reply(lambda settled: heard.append(settled.value))
    assert reply.resolve("first")
    assert not reply.resolve("second")
    assert not reply.reject(ValueError())
    assert heard == ["first"]


def test_an_abandoned_reply_tells_its_holder_and_nobody_else():
    heard, told = [], []
    reply = Reply(heard.append)
    reply.on_abandon = lambda: told.append(True)
    reply.abandon()
    reply.abandon()
    assert (heard, told) == ([], [True])
    assert isinstance(reply.error, Abandoned)
    assert not reply.resolve("too late")


def test_an_asker_that_goes_away_withdraws_its_message(virtual):
    async def main():
        ref = ActorRef("nobody", 4)
        with anyio.move_on_after(1) as scope:
            await ref.ask("hello")
        assert scope.cancelled_caught
        assert len(ref.mailbox) == 0

    virtual(main)


class Adder(Actor):
    """Adds; a word crashes it."""

    def __init__(self, ref):
        super().__init__(ref)
        self.total = 0

    def handle(self, message, reply):
        self.total += message
        if reply is not None:
            reply.resolve(self.total)


def test_a_crash_reaches_the_asker_and_spares_the_mailbox(virtual):
    async def main():
        ref = ActorRef("adder", 16)
        supervisor = Supervisor()
        ref.tell(1)  # before it runs: it waits
        supervisor.add(ChildSpec(name="adder", run=Adder(ref).run, policy=Policy()))
        async with anyio.create_task_group() as tasks:
            await tasks.start(supervisor.run)
            with anyio.fail_after(50):
                assert await ref.ask(2) == 3
                with pytest.raises(TypeError):
                    await ref.ask("a word")
                assert await ref.ask(4) == 7
            assert supervisor.state("adder").generation == 2
            supervisor.stop()

    virtual(main)


def test_a_stopped_actor_leaves_its_messages_waiting(virtual):
    async def main():
        ref = ActorRef("adder", 16)
        supervisor = Supervisor()
        supervisor.add(ChildSpec(name="adder", run=Adder(ref).run))
        async with anyio.create_task_group() as tasks:
            await tasks.start(supervisor.run)
            assert await ref.ask(2) == 2
            await supervisor.remove("adder")
            ref.tell(3)
            assert len(ref.mailbox) == 1
            supervisor.stop()

    virtual(main)


# --- replies: who hears that one is settled, and in which order


def test_each_observer_hears_of_the_end_once_after_the_asker_and_in_order():
    heard = []
    reply = Reply(lambda _: heard.append("asker"))
    for name in ("first", "second", "third"):
        reply.observe(lambda settled, name=name: heard.append((name, settled.value)))
    assert reply.resolve(7)
    assert not reply.resolve(8)
    assert heard == ["asker", ("first", 7), ("second", 7), ("third", 7)]
    assert reply.observer is None, "an observer may keep the slot"


def test_observers_hear_of_a_request_that_is_withdrawn():
    heard = []
    reply = Reply(lambda _: heard.append("asker"))
    reply.observe(lambda settled: heard.append(type(settled.error)))
    reply.observe(lambda settled: heard.append(settled.error.begun))
    reply.on_abandon = lambda: True
    reply.abandon()
    assert heard == [Abandoned, True]
