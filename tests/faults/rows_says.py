"""The faults of what a child process says."""

from __future__ import annotations

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code
from tests.faults import traces
from tests.faults.stage import PROBING, Seen, stage
from tests.faults.table import Faults

faults = Faults()
MEGABYTE = 1 << 20
LIMIT = 4 * MEGABYTE  # max_message_bytes where a line is too long
BOUND = 48 * MEGABYTE  # what a line of 100 MB may cost: pieces, copies, the allocator's slack
SHORT = {"call_timeout": 0.6, **PROBING}
HANDFUL = 5


@faults.row("prints rubbish on stdout")
async def rubbish(seen: Seen) -> None:
    async with stage(seen, "rubbish") as on:
        await on.answered()
        await on.untouched()


@faults.row("half a line, then silence")
async def half_line(seen: Seen) -> None:
    async with stage(seen, "half_line", **SHORT) as on:
        await on.watch.becomes(State.READY)
        on.now()
        await on.caught(Code.TIMEOUT, "may have taken effect")
        await on.recovered()


@faults.row("a line of 100 MB")
async def long_line(seen: Seen) -> None:
    async with stage(seen, "long_line", max_message_bytes=LIMIT) as on:
        await on.watch.becomes(State.READY)
        traces.forget_peak()
        before = traces.memory()
        on.now()
        await on.caught(Code.RESPONSE_TOO_LARGE, str(LIMIT))
        cost = traces.memory(field="VmHWM") - before
        seen.check(cost < BOUND, f"it cost {cost >> 20} MB of memory")
        await on.untouched()


async def unreadable(seen: Seen, mode: str) -> None:
    """The answer cannot be read: the caller is told at once, and the session lives."""
    async with stage(seen, mode) as on:
        await on.watch.becomes(State.READY)
        on.now()
        await on.caught(Code.PROTOCOL_ERROR)
        await on.untouched()


@faults.row("invalid UTF-8 in the answer")
async def invalid_utf8(seen: Seen) -> None:
    await unreadable(seen, "invalid_utf8")


@faults.row("JSON nested 1,000 deep")
async def deep_json(seen: Seen) -> None:
    """Whether it can be read depends on the Python: 3.11 refuses such a depth, 3.13 does not."""
    async with stage(seen, "deep_json") as on:
        await on.watch.becomes(State.READY)
        on.now()
        await on.answered_or_caught(Code.PROTOCOL_ERROR, contains="with something deep")
        await on.untouched()


@faults.row("an answer that is broken JSON")
async def broken_json(seen: Seen) -> None:
    await unreadable(seen, "broken_json")


async def harmless(seen: Seen, mode: str, contains: str) -> None:
    """The caller is answered, and nothing else happens."""
    async with stage(seen, mode) as on:
        await on.watch.becomes(State.READY)
        on.now()
        await on.answered(contains=contains)
        await on.untouched()


@faults.row("answers to ids nobody asked for")
async def unknown_ids(seen: Seen) -> None:
    await harmless(seen, "unknown_id", "after answers that nobody asked for")


@faults.row("the same answer twice")
async def answers_twice(seen: Seen) -> None:
    await harmless(seen, "answers_twice", "first time")


@faults.row("50 MB on stderr")
async def floods_stderr(seen: Seen) -> None:
    await harmless(seen, "floods_stderr", "after a flood")


@faults.row("1,000 list_changed in a second")
async def storm(seen: Seen) -> None:
    async with stage(seen, "storm") as on:
        await on.watch.becomes(State.READY)
        on.now()
        notices, listings = on.notices, on.upstream.counters.listings
        await on.answered(contains="after a storm")
        await on.watch.until(lambda: "came_with_the_storm" in on.upstream.catalogue.tools)
        listings = on.upstream.counters.listings - listings
        seen.check(listings <= HANDFUL, f"{listings} listings")
        seen.check(on.notices - notices <= 1, f"{on.notices - notices} notices")
        await on.untouched()


@faults.row("a listing is refused during the session")
async def refused_listing(seen: Seen) -> None:
    async with stage(seen, "bad_relisting") as on:
        await on.watch.becomes(State.READY)
        tools, listings = on.upstream.catalogue.tools, on.upstream.counters.listings
        on.now()
        await on.answered(contains="after the listing was refused")
        await on.untouched()
        seen.check(on.upstream.catalogue.tools == tools, "the last known tools are lost")
        seen.check(on.upstream.counters.listings == listings, "it counts as a listing")
