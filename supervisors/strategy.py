"""Which siblings go down with a child that failed: pure.

The names and their meaning are OTP's. The supervisor halts the siblings named here (the youngest first),
holds every start back until they have left, and then starts them one by one in the children's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Strategy(StrEnum):
    """What one child's failure means for the others."""

    ONE_FOR_ONE = "one_for_one"
    """Nothing."""
    ONE_FOR_ALL = "one_for_all"
    """All of them are restarted with it."""
    REST_FOR_ONE = "rest_for_one"
    """Those added after it are restarted with it, for they may depend on it."""


def siblings_to_restart(strategy: Strategy, children: Sequence[str], failed: str) -> list[str]:
    """The names to restart besides `failed`, in the order they are to be halted (youngest first).

    `children` are all names in the order they were added.

    Raises:
        ValueError: `failed` is not among `children`.
    """
    at = children.index(failed)
    if strategy is Strategy.ONE_FOR_ALL:
        affected = [*children[:at], *children[at + 1 :]]
    elif strategy is Strategy.REST_FOR_ONE:
        affected = list(children[at + 1 :])
    else:
        affected = []
    return affected[::-1]
