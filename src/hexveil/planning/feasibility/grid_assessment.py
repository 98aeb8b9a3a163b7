"""Assessment of one grid and privacy unit: a row of the table of capacity."""

from __future__ import annotations

from dataclasses import dataclass

from hexveil.base.hexagons import across
from hexveil.planning.feasibility.grids import MIN_HEXAGONS

MIN_CELLS = 3
"""Cells of a map."""


@dataclass(frozen=True)
class GridAssessment:
    """Assessment of one grid and privacy unit; value units.

    Attributes
    ----------
    privacy_unit : str
    resolution : int or None
    timeslot, slot : str or None
    labels : tuple of str, or None
        Columns whose combinations are the cells, in place of a resolution and a slot.
    cells, users : int
        0 cells: none is left after selection.
    floor, predicted_error, baseline_error : float
        Noise no unclipped plan can beat; the average error to expect; what one constant misses.
    better : int or None
        Cells that say more than one constant; None where the grid was not planned.
    planned : bool
        False where the error is certainly above one constant's: `predicted_error` then is a bound
        that it is above.
    beats_constant, halved : bool
        Whether the error is below what one constant misses, and below half of that.
    epsilon_needed, epsilon_halved : float or None
        Where it is not: the loss at which it would be. None also where that is above 100, or above
        ten times the loss that was asked.
    epsilon_least : float
        A loss below which the error is certainly above half of one constant's; 0 if none is known.
    hexagons : int or None
        Different places of the cells; None for labels. One: a single number for the whole area.
    """

    privacy_unit: str
    resolution: int | None
    timeslot: str | None
    slot: str | None
    labels: tuple[str, ...] | None
    cells: int
    users: int
    floor: float
    predicted_error: float
    baseline_error: float
    better: int | None
    planned: bool
    beats_constant: bool
    halved: bool
    epsilon_needed: float | None
    epsilon_halved: float | None
    epsilon_least: float
    hexagons: int | None = None

    @property
    def grid(self) -> str:
        """The grid in words."""
        if self.labels is not None:
            return " x ".join(self.labels)
        slots = "" if self.timeslot is None else f" in {self.timeslot} slots"
        remark = ", one number for the whole area" if self.hexagons == 1 else ""
        return f"resolution {self.resolution}{slots}{remark}"

    @property
    def kilometres(self) -> float | None:
        """Average width of a hexagon; None for labels."""
        return None if self.resolution is None else across(self.resolution)

    @property
    def is_map(self) -> bool:
        """Whether it has enough cells, and places, to be called a map."""
        places = MIN_HEXAGONS if self.hexagons is None else self.hexagons
        return self.cells >= MIN_CELLS and places >= MIN_HEXAGONS

    @property
    def relative_error(self) -> float:
        """Predicted error as a part of the baseline error."""
        return self.predicted_error / self.baseline_error
