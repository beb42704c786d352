"""Supervised actors on anyio: keep tasks alive, the way OTP keeps processes alive.

A `Supervisor` runs children given by `ChildSpec`s, restarts them by their `Policy` with growing delays,
parks those that keep failing, and stops them in order. The state of a child changes by one pure table
(`supervisors.lifecycle`). An `Actor` is a child with a mailbox; others reach it by its
`ActorRef`. Nothing is logged: an observer gets typed events (`supervisors.events`).

    async def serve(incarnation: Incarnation) -> None:
        async with connect() as session:
            incarnation.ready()
            await session.run_until_lost()

    supervisor = Supervisor(observe=print)
    supervisor.add(ChildSpec(name="database", run=serve, policy=Policy(parking=Parking())))
    await supervisor.run()

Depends on anyio and msgspec only; works on asyncio and trio.
"""

from supervisors.actor import Abandoned, Actor, ActorRef, Envelope, Mailbox, Reply
from supervisors.child import ChildSpec, Incarnation
from supervisors.errors import (
    DuplicateChild,
    MailboxClosed,
    MailboxFull,
    NoSuchChild,
    SignificantChildFailed,
    SupervisorError,
    TooManyRestarts,
)
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
    ChildStuck,
    Event,
)
from supervisors.lifecycle import ChildState, Phase, refused_for, step
from supervisors.policy import Backoff, Intensity, Parking, Policy, Restart, Shutdown, Strategy, delay
from supervisors.signals import Signal
from supervisors.supervisor import Supervisor

__all__ = [
    "Abandoned",
    "Actor",
    "ActorRef",
    "Backoff",
    "Cause",
    "ChildFailed",
    "ChildHeld",
    "ChildInterrupted",
    "ChildParked",
    "ChildReady",
    "ChildRested",
    "ChildSpec",
    "ChildStarting",
    "ChildState",
    "ChildStopped",
    "ChildStuck",
    "DuplicateChild",
    "Envelope",
    "Event",
    "Incarnation",
    "Intensity",
    "Mailbox",
    "MailboxClosed",
    "MailboxFull",
    "NoSuchChild",
    "Parking",
    "Phase",
    "Policy",
    "Reply",
    "Restart",
    "Shutdown",
    "Signal",
    "SignificantChildFailed",
    "Strategy",
    "Supervisor",
    "SupervisorError",
    "TooManyRestarts",
    "delay",
    "refused_for",
    "step",
]
