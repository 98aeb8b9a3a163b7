"""The table "what can this fleet support": grids, units of privacy and what they allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.cells import Cells
from hexveil.errors import InputError
from hexveil.planning.advice import coarser_slots, epsilon_needed, regrid
from hexveil.planning.api import HasFacts, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.exact import Number
    from hexveil.facts import PublicFacts, Unit
    from hexveil.mechanisms import ThresholdMechanism
    from hexveil.planning.plan import Plan
    from hexveil.planning.request import Method, Objective


@dataclass(frozen=True)
class Offer:
    """One grid and unit of privacy, and what it allows; value units.

    Attributes
    ----------
    unit : str
    resolution : int
    timeslot : str or None
    slot : str
    cells, users : int
        0 cells: none is left after selection.
    floor, predicted_error, prior_miss : float
        Noise no unclipped plan can beat; the plan's average error; what one constant misses.
    better : int
        Cells that say more than one constant.
    supported : bool
    epsilon_needed : float or None
        Where not supported: the loss at which the grid would be.
    """

    unit: str
    resolution: int
    timeslot: str | None
    slot: str
    cells: int
    users: int
    floor: float
    predicted_error: float
    prior_miss: float
    better: int
    supported: bool
    epsilon_needed: float | None


@dataclass(frozen=True)
class Capacity:
    """What a fleet can support: one offer per grid and unit of privacy."""

    offers: tuple[Offer, ...]

    def to_arrow(self) -> pa.Table:
        """Return the offers as a table, a column per attribute."""
        names = list(Offer.__dataclass_fields__)
        return pa.table({n: [getattr(o, n) for o in self.offers] for n in names}, schema=_SCHEMA)

    def to_pandas(self) -> object:
        """Return the offers as a pandas data frame."""
        return self.to_arrow().to_pandas()


_SCHEMA = pa.schema(
    [
        ("unit", pa.string()),
        ("resolution", pa.int64()),
        ("timeslot", pa.string()),
        ("slot", pa.string()),
        ("cells", pa.int64()),
        ("users", pa.int64()),
        ("floor", pa.float64()),
        ("predicted_error", pa.float64()),
        ("prior_miss", pa.float64()),
        ("better", pa.int64()),
        ("supported", pa.bool_()),
        ("epsilon_needed", pa.float64()),
    ]
)


def capacity(  # noqa: PLR0913  a public door
    source: PublicFacts | HasFacts,
    *,
    epsilon: Number,
    resolutions: Sequence[int] | None = None,
    timeslots: Sequence[str | None] | None = None,
    units: Sequence[Unit] | None = None,
    prior: Number | None = None,
    method: Method = "joint",
    mechanism: ThresholdMechanism | None = None,
    objective: Objective | None = None,
) -> Capacity:
    """Return what this fleet can support at `epsilon`, per resolution, timeslot and unit.

    Public facts only; nothing is spent. The records are counted again on every grid.

    Parameters
    ----------
    source : Dataset or PublicFacts
        Read with `Cells`.
    epsilon : number
        Largest loss of any unit of privacy.
    resolutions : sequence of int, optional
        Default: from three coarser than the data set's to one finer.
    timeslots : sequence of str or None, optional
        Default: the data set's and the coarser of 1h, 3h, 6h, 1d.
    units : sequence of str, optional
        Default: the data set's unit of privacy.
    prior : number, optional
        What one constant misses on average; default span / 20.
    method, mechanism, objective
        As for `hv.plan`.

    Raises
    ------
    InputError
        If the data set has no places to count again, or an argument is wrong.
    """
    facts = source.public if isinstance(source, HasFacts) else source
    grid = facts.cells.grid
    if facts.recount is None or not isinstance(grid, Cells):
        raise InputError(
            "what a fleet can support is counted on other grids, which needs records with places; "
            "this data set has none at hand."
        )
    grids = _grids(grid, resolutions, timeslots)
    made = plan(
        facts,
        epsilon=epsilon,
        prior=prior,
        mechanism=mechanism,
        method=method,
        objective=objective,
        advise=False,
    )
    offers = []
    for unit in units or (facts.unit,):
        for other, found in zip(grids, facts.recount(grids, unit), strict=True):
            offers.append(_offer(made, other, unit, found))
    return Capacity(tuple(offers))


def _grids(
    grid: Cells,
    resolutions: Sequence[int] | None,
    timeslots: Sequence[str | None] | None,
) -> tuple[Cells, ...]:
    if resolutions is None:
        resolutions = range(max(grid.resolution - 3, 0), min(grid.resolution + 1, 15) + 1)
    if timeslots is None:
        timeslots = [grid.timeslot, *coarser_slots(grid)]
    return tuple(replace(grid, resolution=r, timeslot=t) for r in resolutions for t in timeslots)


def _offer(made: Plan, grid: Cells, unit: str, facts: PublicFacts | None) -> Offer:
    where = (unit, grid.resolution, grid.timeslot, grid.slot)
    if facts is None:
        nan = float("nan")
        return Offer(
            *where, 0, 0, nan, nan, made.prior_miss, 0, supported=False, epsilon_needed=None
        )
    here = regrid(made, facts)
    support = here.support
    needed = None if support.supported else epsilon_needed(here)
    return Offer(
        *where,
        support.cells,
        support.users,
        support.floor,
        support.mean_error,
        support.prior_miss,
        support.better,
        supported=support.supported,
        epsilon_needed=needed,
    )
