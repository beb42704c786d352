"""The shop that the tools server shows: twelve made-up orders, always the same.

Owns the data and the questions asked of it. Called by `mcpx.demo.tools` only. Pure: nothing here changes.
The rows are dataclasses because the SDK derives output schemas from those; not with slots, whose descriptors
it would take for defaults.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

Status = Literal["open", "paid", "shipped", "returned"]
"""Where an order stands."""


@dataclass(frozen=True)
class Order:
    """One order. `total` is in euros, `placed` an ISO 8601 date."""

    id: int
    customer: str
    city: str
    status: Status
    items: int
    total: float
    placed: str


@dataclass(frozen=True)
class OrderPage:
    """Some orders, and how many there are in all that match."""

    orders: list[Order]
    matching: int


ORDERS: Final = (
    Order(1001, "Ada Byron", "London", "shipped", 3, 74.50, "2026-01-05"),
    Order(1002, "Bao Nguyen", "Hanoi", "open", 1, 19.90, "2026-01-07"),
    Order(1003, "Carla Ruiz", "Sevilla", "paid", 2, 45.00, "2026-01-07"),
    Order(1004, "Dmitri Orlov", "Riga", "shipped", 7, 210.35, "2026-01-09"),
    Order(1005, "Emeka Obi", "Lagos", "returned", 1, 33.20, "2026-01-12"),
    Order(1006, "Fatima Zahra", "Rabat", "open", 4, 88.00, "2026-01-13"),
    Order(1007, "Grace Lin", "Taipei", "paid", 2, 52.75, "2026-01-13"),
    Order(1008, "Hugo Marchand", "Lyon", "shipped", 5, 131.10, "2026-01-15"),
    Order(1009, "Ingrid Dahl", "Bergen", "open", 1, 12.00, "2026-01-18"),
    Order(1010, "Jamal Khan", "Lahore", "shipped", 2, 61.40, "2026-01-20"),
    Order(1011, "Keiko Mori", "Osaka", "paid", 9, 305.99, "2026-01-21"),
    Order(1012, "Lucia Rossi", "Torino", "returned", 1, 27.80, "2026-01-22"),
)


def page(status: Status | None, limit: int) -> OrderPage:
    """The first `limit` orders of that status (of any, for `None`), oldest first."""
    matching = [order for order in ORDERS if status in (None, order.status)]
    return OrderPage(orders=matching[:limit], matching=len(matching))


def find(order_id: int) -> Order | None:
    """The order of that number, if there is one."""
    return next((order for order in ORDERS if order.id == order_id), None)


def count_by_status() -> dict[Status, int]:
    """How many orders there are of each status, in order of first appearance."""
    return dict(Counter(order.status for order in ORDERS))
