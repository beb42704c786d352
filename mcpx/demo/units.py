"""Conversion between units of length, mass and temperature, for the tools server.

Pure. Every unit is a factor and an offset to the base unit of its kind (metre, kilogram, kelvin).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Unit = Literal["m", "km", "mi", "ft", "kg", "g", "lb", "K", "C", "F"]
"""The units known, by their symbols; `C` and `F` are degrees."""

_BASE: Final[dict[Unit, tuple[str, float, float]]] = {
    "m": ("length", 1.0, 0.0),
    "km": ("length", 1000.0, 0.0),
    "mi": ("length", 1609.344, 0.0),
    "ft": ("length", 0.3048, 0.0),
    "kg": ("mass", 1.0, 0.0),
    "g": ("mass", 0.001, 0.0),
    "lb": ("mass", 0.45359237, 0.0),
    "K": ("temperature", 1.0, 0.0),
    "C": ("temperature", 1.0, 273.15),
    "F": ("temperature", 5 / 9, 459.67 * 5 / 9),
}


def convert(value: float, source: Unit, target: Unit) -> float:
    """Convert `value` into `target` units, to nine significant digits.

    Raises:
        ValueError: The two units measure different things; the text names those that fit.
    """
    kind, factor, offset = _BASE[source]
    target_kind, target_factor, target_offset = _BASE[target]
    if kind != target_kind:
        fitting = ", ".join(unit for unit in get_args(Unit) if _BASE[unit][0] == kind)
        raise ValueError(f"{source} is a {kind} and {target} a {target_kind}: choose one of {fitting}")
    return float(f"{(value * factor + offset - target_offset) / target_factor:.9g}")
