"""The slot for an answer: who hears that it is settled, and in which order."""

from supervisors import Abandoned, Reply


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
