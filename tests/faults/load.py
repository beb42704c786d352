"""Load on a whole MCPX while its servers are killed: the soak, and the cycles of kill and recovery.

Both count effects: every call of the counting tool has a key of its own, which the server notes before it
answers. So what the callers were told can be held against what happened: nothing twice, nothing answered
that was not done, nothing done that was said not to be sent.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.faults import traces
from tests.faults.served import Answer, Served

RESTART = {"initial": 0.05, "cap": 0.2, "healthy_after": 0.001}  # every death is a first one
WORK_S = 0.005  # a counting call, so that there is always one in flight
WARM_UP = 0.2  # of the run: until then memory grows because things happen for the first time
MAY_GROW_MB = 8.0  # over a whole run: the allocator's moods; a leak of a kilobyte a call is far more
MAY_ADD_S = 0.15  # to the child's own start, from its death until it is ready again
MAY_TELL_S = 0.1  # from the death until the caller knows
MEGABYTE = 1 << 20
REST_S = 5.0  # for what has just been started again to close what that takes


class Growth(msgspec.Struct, frozen=True):
    """Memory (resident) and file descriptors of MCPX at rest, before and after, and in between."""

    memory_mb: tuple[float, float]
    memory_slope_kb: float
    """A minute in a soak, a cycle in a series of kills; least squares, after the warm-up."""
    descriptors: tuple[int, int]

    def problems(self) -> list[str]:
        """What is not flat."""
        found = []
        if self.memory_mb[1] - self.memory_mb[0] > MAY_GROW_MB:
            found.append(f"memory grew from {self.memory_mb[0]:.1f} to {self.memory_mb[1]:.1f} MB")
        if self.descriptors[1] > self.descriptors[0]:
            found.append(f"file descriptors grew from {self.descriptors[0]} to {self.descriptors[1]}")
        return found


class Load(msgspec.Struct, frozen=True):
    """What one run showed."""

    seconds: float
    kills: int
    calls: int
    answered: int
    failed: dict[str, int]
    """By code and outcome."""
    duplicated: int
    """Effects beyond the first of a call."""
    lost: int
    """Calls that were answered and never done."""
    denied: int
    """Calls that were done and said not to be sent."""
    orphans: int
    zombies: int
    growth: Growth
    problems: list[str]


class Tally:
    """What the callers were told."""

    def __init__(self) -> None:
        self.calls = 0
        self.answered: set[str] = set()
        self.not_sent: set[str] = set()
        self.failed: Counter[str] = Counter()
        self.others = 0

    def note(self, key: str | None, answer: Answer) -> None:
        """One call has ended; `key` is that of a counting call."""
        self.calls += 1
        if answer.code is not None:
            self.failed[f"{answer.code}, {answer.outcome}"] += 1
            if key and answer.outcome == "not_sent":
                self.not_sent.add(key)
        elif key:
            self.answered.add(key)
        else:
            self.others += 1


def judge(tally: Tally, effects: Counter[str], traces_left: tuple[int, int], growth: Growth) -> list[str]:
    """What falls short of the promises."""
    orphans, zombies = traces_left
    found = {
        "effects are there twice": sum(times - 1 for times in effects.values()),
        "answered calls were never done": len(tally.answered - effects.keys()),
        "calls were done that were said not to be sent": len(tally.not_sent & effects.keys()),
        "processes are left": orphans,
        "zombies were left": zombies,
        "calls failed in another way than by the death of their server": sum(
            n for said, n in tally.failed.items() if said != "server_died, unknown"
        ),
    }
    return [f"{number} {what}" for what, number in found.items() if number] + growth.problems()


def effects_in(folders: list[Path]) -> Counter[str]:
    """How often each counting call took effect."""
    files = [folder / "counted" for folder in folders]
    return Counter(key for file in files if file.exists() for key in file.read_text().split())


class Gauge:
    """Reads the size of one MCPX at rest and on its way."""

    def __init__(self, served: Served) -> None:
        self._pid = served.pid
        self._begun = time.monotonic()
        self._samples: list[tuple[float, float]] = []
        self.before = self._read()

    def _read(self) -> tuple[float, int]:
        return traces.memory(self._pid) / MEGABYTE, traces.descriptors(self._pid)

    def sample(self) -> None:
        """Look on the way."""
        self._samples.append((time.monotonic() - self._begun, self._read()[0]))

    def growth(self, *, per: float) -> Growth:
        """At rest again, or soon; the slope is for `per` samples."""
        after, deadline = self._read(), time.monotonic() + REST_S
        while after[1] > self.before[1] and time.monotonic() < deadline:
            time.sleep(0.05)  # the kernel tells nobody that a file was closed
            after = self._read()
        late = [memory for _, memory in self._samples[int(WARM_UP * len(self._samples)) :]]
        return Growth(
            memory_mb=(self.before[0], after[0]),
            memory_slope_kb=traces.slope(late) * 1024 * per,
            descriptors=(self.before[1], after[1]),
        )


def load_of(
    begun: float, kills: int, tally: Tally, *, effects: Counter[str], left: tuple[int, int], growth: Growth
) -> Load:
    """A run is over."""
    return Load(
        seconds=time.monotonic() - begun,
        kills=kills,
        calls=tally.calls,
        answered=len(tally.answered) + tally.others,
        failed=dict(tally.failed),
        duplicated=sum(times - 1 for times in effects.values()),
        lost=len(tally.answered - effects.keys()),
        denied=len(tally.not_sent & effects.keys()),
        orphans=left[0],
        zombies=left[1],
        growth=growth,
        problems=judge(tally, effects, left, growth),
    )
