"""Request for a map with private presence: declared numbers, from which its plan is made.

A request never sees records. Where the public-occupancy model would count, the holder declares: the
grid, the bounds, the number of units in the fleet and how much they report. A wrong declaration
costs accuracy, never privacy. Limits on records saturate (`hexveil.model.private_pairs`): no
request is refused for its records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.accounting.promise import check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.mechanisms.presence.count_map import CountAllocation
from hexveil.mechanisms.presence.presence_allocation import PresenceAllocation
from hexveil.mechanisms.presence.presence_design import (
    NO_CAP,
    DeclaredCap,
    Form,
    OneShot,
    PrivateCap,
    ThreeStages,
    UserCap,
    histogram_share,
)

if TYPE_CHECKING:
    from hexveil.model.declared_grid import DeclaredGrid
    from hexveil.model.public_metadata import ValueLattice

SMALL_FLEET = 1000
"""Declared units below which a coarse map would be mostly noise: one shot instead."""
SMALL_FLEET_PART = 0.5
"""Weight of the cell that a small fleet's range is chosen for, over the mean of all cells."""
RESIDUAL_SHARE_CELLS, LEAST_RESIDUAL_SHARE = 4, Fraction("0.01")
"""Share of the residuals, times cells; and the least."""
MAX_FLEET = 2**32
MAX_DECLARED_CAP = 2**40
"""Its product with a price fits 64 bits."""
CAPPED_CELL_WEIGHT = 60
"""Declared units per cell times ε from which units of few records weigh less."""
FALSE_OPENINGS = 1.0
"""Expected number of empty cells that are opened in a whole grid of empty ones."""
PURE = Fraction(0)
"""δ of a pure promise."""


@dataclass(frozen=True)
class FleetDeclaration:
    """Declared size of the fleet; public, not checked against records.

    Attributes
    ----------
    units : int
        Privacy units that may be in the records.
    records_per_unit : int
        Typical number of records of a unit in the whole grid.
    cells_per_unit : int
        Typical number of cells that a unit is in.
    """

    units: int
    records_per_unit: int = 100
    cells_per_unit: int = 10

    def __post_init__(self) -> None:
        for name in ("units", "records_per_unit", "cells_per_unit"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(f"declare {name} as a whole number from 1, got {number!r}.")
        if self.units > MAX_FLEET:
            raise InputError(f"a fleet has at most {MAX_FLEET:,} units, got {self.units:,}.")


@dataclass(frozen=True, eq=False)
class PresenceRequest:
    """Request for averages and weights per cell.

    Attributes
    ----------
    grid : DeclaredGrid
    lattice : ValueLattice
        Bounds and quantum of the values.
    fleet : FleetDeclaration
    epsilon : Fraction
        Loss of any unit, present or not.
    cap : NoCap, DeclaredCap or PrivateCap, optional
        A private cap is for large fleets: the value of one unit decides little there. Without
        one, `user_cap` follows from the declarations.
    delta : Fraction, optional
        0, the default, for a pure promise; else below 1 / units.
    """

    grid: DeclaredGrid
    lattice: ValueLattice
    fleet: FleetDeclaration
    epsilon: Fraction
    cap: UserCap | None = None
    delta: Fraction = PURE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", to_positive_fraction(self.epsilon, "epsilon"))
        check_units(self.delta, self.fleet.units)
        check_cap(self.cap, self.fleet)

    @classmethod
    def of(
        cls,
        grid: DeclaredGrid,
        lattice: ValueLattice,
        fleet: FleetDeclaration,
        epsilon: Number,
        cap: UserCap | None = None,
        delta: Fraction = PURE,
    ) -> PresenceRequest:
        """Build a request from an epsilon as written by a caller."""
        return cls(grid, lattice, fleet, to_positive_fraction(epsilon, "epsilon"), cap, delta)

    @property
    def weight_per_cell(self) -> Fraction:
        """Mean weight of a cell if all declared units are in the records, in units."""
        return Fraction(self.fleet.units, self.grid.n_cells)

    @property
    def user_cap(self) -> UserCap:
        """The cap asked for; else a private one where bias outweighs noise, none elsewhere."""
        share = self._histogram_share(1, PrivateCap.share)
        return cap_in_use(self.cap, self.fleet, self.grid.n_cells, self.epsilon, share)

    def form(self) -> Form:
        """Return the stages: one shot for a small declared fleet, small shares for a large one."""
        cap = self.user_cap
        if self.fleet.units < SMALL_FLEET and not isinstance(cap, PrivateCap):
            return OneShot(cap=cap)
        return ThreeStages(
            range_share=self._histogram_share(2, ThreeStages.range_share),
            residual_share=self._residual_share(),
            cap=cap,
        )

    def _histogram_share(self, n_histograms: int, largest: Fraction) -> Fraction:
        """Return the share of histograms; of a promise with δ of its square, with similar noise."""
        share = histogram_share(n_histograms, self.fleet.units, self.epsilon, largest)
        whole = promised(self.epsilon, self.delta)
        return min(whole.share_worth(self.epsilon * share, n_histograms), largest)

    def _residual_share(self) -> Fraction:
        """Return the share of the residuals, whose noise is in all cells alike.

        Noise of the map is as much less as cells are fewer, so that few cells need a larger one.
        """
        largest = ThreeStages.residual_share
        by_cells = min(Fraction(RESIDUAL_SHARE_CELLS, self.grid.n_cells), largest)
        return max(self._histogram_share(1, largest), by_cells, LEAST_RESIDUAL_SHARE)

    def allocation(self) -> PresenceAllocation:
        """Return the plan: stages with shares of ε, from declared numbers."""
        form = self.form()
        sure = SMALL_FLEET_PART if isinstance(form, OneShot) else 1.0
        even = even_weight(self.fleet, self.grid.n_cells, self.delta)
        return PresenceAllocation(
            self.grid.n_cells,
            self.lattice.span_quanta,
            self.epsilon,
            form,
            false_openings(self.grid),
            self.grid.shape,
            self.delta,
            sure * even * float(self.weight_per_cell),
        )


def even_weight(fleet: FleetDeclaration, n_cells: int, delta: Fraction) -> float:
    """Return the weight over all cells of a unit that is in all its declared cells alike.

    Limited in L1 it is 1; limited in L2, under Gaussian noise, the root of their number.
    """
    cells = min(fleet.cells_per_unit, fleet.records_per_unit, n_cells)
    return math.sqrt(cells) if delta else 1.0


@dataclass(frozen=True, eq=False)
class UnitCountRequest:
    """Request for numbers of units per cell alone.

    Attributes
    ----------
    grid : DeclaredGrid
    fleet : FleetDeclaration
        A unit counts fully in as many cells as it is declared to be in.
    epsilon : Fraction
    delta : Fraction, optional
        0, the default, for a pure promise; else below 1 / units.
    """

    grid: DeclaredGrid
    fleet: FleetDeclaration
    epsilon: Fraction
    delta: Fraction = PURE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", to_positive_fraction(self.epsilon, "epsilon"))
        check_units(self.delta, self.fleet.units)

    def allocation(self) -> CountAllocation:
        """Return the plan: one stage."""
        cap = min(self.fleet.cells_per_unit, self.grid.n_cells)
        openings = false_openings(self.grid)
        return CountAllocation(self.grid.n_cells, cap, self.epsilon, openings, self.delta)


def check_cap(cap: UserCap | None, fleet: FleetDeclaration) -> None:
    """Raise InputError for a cap on users that a fleet cannot have."""
    if isinstance(cap, DeclaredCap) and not 1 <= cap.records <= MAX_DECLARED_CAP:
        raise InputError(f"a cap declares the records of a unit, from 1 to {MAX_DECLARED_CAP:,}.")
    if isinstance(cap, PrivateCap) and fleet.units < SMALL_FLEET:
        raise InputError(
            f"a private cap needs a declared fleet of at least {SMALL_FLEET:,} units: of fewer "
            "its noise is larger than the bias that it removes. Declare a cap, or use none."
        )


def cap_in_use(
    asked: UserCap | None, fleet: FleetDeclaration, n_cells: int, epsilon: Fraction, share: Fraction
) -> UserCap:
    """Return the cap asked for; else a private one of this share where bias outweighs noise.

    Equal weights of unequal units bias an average by a share of the radius that noise does not
    reach in cells of this weight.
    """
    if asked is not None:
        return asked
    if fleet.units < SMALL_FLEET or epsilon * fleet.units / n_cells < CAPPED_CELL_WEIGHT:
        return NO_CAP
    return PrivateCap(share=share)


def false_openings(grid: DeclaredGrid) -> float | None:
    """Return the expected number of empty cells that are opened; None opens every cell.

    Cells of a list are declared to be in use, so none of them is tested.
    """
    return None if grid.is_in_use else FALSE_OPENINGS
