"""What the page needs from a manifest, checked once and named."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.errors import InputError
from hexveil.exact import exact

if TYPE_CHECKING:
    from collections.abc import Mapping

_NEEDED = ("dataset", "guarantee", "bounds", "grid", "plan")


@dataclass(frozen=True)
class Facts:
    """The public facts of a release that the page puts into words.

    Attributes
    ----------
    manifest : mapping
        The whole manifest, for what is only listed.
    name, value, unit_text : str
        Data set, value column and its unit of measure; "" where not said.
    lower, upper : float
        Bounds of the values, in value units.
    unit : str
        What is protected: user, user-day or user-week.
    odds : float
        e to the loss spent; infinity where the manifest names no number.
    label_columns : tuple of str
        Columns that name a cell, with labels.
    """

    manifest: Mapping[str, Any]
    name: str
    value: str
    unit_text: str
    lower: float
    upper: float
    unit: str
    odds: float
    label_columns: tuple[str, ...]

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Facts:
        """Build from a manifest of schema version 1; raise InputError if a part is missing."""
        missing = [part for part in _NEEDED if part not in manifest]
        if missing:
            raise InputError(
                f"the manifest has no part {missing[0]!r}; "
                "make the report from the manifest of a release folder."
            )
        dataset, guarantee, bounds = (manifest[part] for part in ("dataset", "guarantee", "bounds"))
        return cls(
            manifest=manifest,
            name=str(dataset.get("name") or ""),
            value=str(dataset.get("value") or "value"),
            unit_text=str(dataset.get("value_unit") or ""),
            lower=float(exact(bounds["lower"], "lower bound")),
            upper=float(exact(bounds["upper"], "upper bound")),
            unit=str(guarantee["unit"]),
            odds=math.inf if guarantee["odds"] is None else float(guarantee["odds"]),
            label_columns=tuple(manifest["grid"].get("columns") or ()),
        )

    @property
    def span(self) -> float:
        """Width of the bounds, in value units."""
        return self.upper - self.lower

    @property
    def decimals(self) -> int:
        """Digits shown after the point: a step is at most a five-hundredth of the span."""
        return min(9, max(0, math.ceil(-math.log10(self.span / 200))))

    @property
    def planned_error(self) -> float | None:
        """The mean planning error over the cells, in value units."""
        error = self.manifest["plan"].get("mean_error")
        error = error.get("mean") if isinstance(error, dict) else error
        return None if error is None else float(error)

    def amount(self, number: float) -> str:
        """Return a number with the digits shown and its unit of measure."""
        return with_unit(f"{number:,.{self.decimals}f}", self.unit_text)

    def amount_up(self, number: float) -> str:
        """Return the same, rounded up: for bounds, which must not be understated."""
        scale = 10.0**self.decimals
        return self.amount(math.ceil(number * scale - 1e-6) / scale)

    def interval(self, low: float, high: float) -> str:
        """Return "from to" rounded outwards, with the digits shown."""
        scale = 10.0**self.decimals
        start = math.floor(low * scale + 1e-6) / scale
        return f"{start:,.{self.decimals}f} to {self.amount_up(high)}"


def with_unit(number: str, unit: str) -> str:
    """Return number and unit, kept on one line."""
    return f"{number}\u00a0{unit}" if unit else number


def up_to_digits(number: float, digits: int = 3) -> str:
    """Return a positive number rounded up to so many significant digits, without exponent."""
    if not math.isfinite(number) or number <= 0:
        return "unlimited" if number > 0 else str(number)
    places = max(0, digits - 1 - math.floor(math.log10(number)))
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(number)))
    return f"{math.ceil(number * scale - 1e-9) / scale:,.{places}f}"
