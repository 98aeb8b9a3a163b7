"""Assessment of grids: predicted errors of a plan's request on each, from public facts.

A grid whose error is certainly no smaller than one constant's is not predicted at all: its error
and its ε are then said to be above something (planning/feasibility/prediction.py).

Smoothed estimates. By the prior, cells lie around one number with a standard deviation t, and a raw
estimate around its cell with a standard deviation s. Where both are normal, the posterior mean
misses sqrt(2/pi) / sqrt(1/t^2 + 1/s^2) on average: less than either. Laplace noise of scale b has
the variance 2 b^2, and bias counts as it is; the raw error is a limit, as the normal formula
exceeds it where noise is small.

Recommendation of a grid: the finest with an error below half the baseline error.

Finest is the one of most cells, among those for the privacy unit that was asked for: a weaker
promise is never slipped in, though a second sentence says what it would allow. A map of one cell
is no map, and is not proposed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexveil.base.hexagons import across
from hexveil.model.cells import Cells, Labels, slot_seconds
from hexveil.planning.feasibility.grids import MIN_CELLS, MIN_HEXAGONS
from hexveil.planning.feasibility.prediction import ErrorPredictor, prediction_of
from hexveil.theory import noise_floor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hexveil.mechanisms.looks.range_search import ErrorPrediction
    from hexveil.model.public_metadata import PublicMetadata, Unit
    from hexveil.planning.plan_data import MomentFigures


Choice = Literal["finest", "balanced", "accurate"]
"""Proposed grids: of most cells, of least error, and one in between."""
MEAN_ABS_NORMAL = math.sqrt(2.0 / math.pi)
"""Expected |x| of a standard normal x."""
MAX_EPSILON_RATIO = 10.0
"""Where more than this many times the asked loss is needed at least, no more is said."""


@dataclass(frozen=True)
class GridAssessment:
    """Assessment of one grid and privacy unit; value units.

    Attributes
    ----------
    grid : Cells or Labels
    privacy_unit : str
    cells, users : int
        0 cells: none is left after selection.
    floor, predicted_error, baseline_error : float
        Noise no unclipped plan can beat; the average error to expect; what one constant misses.
    smoothed_error : float
        Average error to expect of smoothed estimates; infinite where the grid was not planned.
    better : int or None
        Cells that say more than one constant; None where the grid was not planned.
    planned : bool
        False where the error is certainly above one constant's: `predicted_error` then is a bound
        that it is above.
    epsilon_needed, epsilon_halved : float or None
        Where the error is not below what one constant misses, or half of that: the loss at which it
        would be. None also where that is above 100, or above ten times the loss that was asked, and
        where it was not looked for.
    epsilon_least : float
        A loss below which the error is certainly above half of one constant's; 0 if none is known.
    hexagons : int or None
        Different places of the cells; None for labels. One: a single number for the whole area.
    min_users : int
        Smallest number of users of a cell for which it is assessed.
    """

    grid: Cells | Labels
    privacy_unit: Unit
    cells: int = 0
    users: int = 0
    floor: float = math.nan
    predicted_error: float = math.nan
    baseline_error: float = math.nan
    smoothed_error: float = math.inf
    better: int | None = None
    planned: bool = False
    epsilon_needed: float | None = None
    epsilon_halved: float | None = None
    epsilon_least: float = 0.0
    hexagons: int | None = None
    min_users: int = 1

    @property
    def resolution(self) -> int | None:
        """Resolution of the hexagons; None for labels."""
        return self.grid.resolution if isinstance(self.grid, Cells) else None

    @property
    def timeslot(self) -> str | None:
        """Length of a slot; None where all times are pooled."""
        return self.grid.timeslot if isinstance(self.grid, Cells) else None

    @property
    def slot(self) -> str | None:
        """Kind of slots."""
        return self.grid.slot if isinstance(self.grid, Cells) else None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Columns that make a cell, in place of a resolution and a slot."""
        return None if isinstance(self.grid, Cells) else self.grid.columns

    @property
    def beats_constant(self) -> bool:
        """Whether the error is below that of one constant."""
        return self.planned and self.predicted_error < self.baseline_error

    @property
    def halved(self) -> bool:
        """Whether the error is below half of a constant's."""
        return self.planned and self.predicted_error < self.baseline_error / 2.0

    @property
    def description(self) -> str:
        """The grid in words."""
        remark = ", one number for the whole area" if self.hexagons == 1 else ""
        return grid_in_words(self.grid) + remark

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
    def is_usable(self) -> bool:
        """Whether raw estimates are expected to be a map, and better than one number for all."""
        return self.cells >= MIN_CELLS and self.beats_constant

    @property
    def relative_error(self) -> float:
        """Predicted error as a part of the baseline error."""
        return self.predicted_error / self.baseline_error

    @property
    def printed_error(self) -> float:
        """The error with the two digits that are printed: a later one decides nothing."""
        return float(f"{self.predicted_error:.2g}")

    @property
    def fineness(self) -> tuple[float, ...]:
        """Order of grids with equally many cells: see `fineness`."""
        return fineness(self.grid)


def grid_in_words(grid: Cells | Labels) -> str:
    """Return a grid in words."""
    if not isinstance(grid, Cells):
        return " x ".join(grid.columns)
    slots = "" if grid.timeslot is None else f" in {grid.timeslot} slots"
    return f"resolution {grid.resolution}{slots}"


def fineness(grid: Cells | Labels) -> tuple[float, ...]:
    """Return the order of grids with equally many cells: smaller hexagons, then shorter slots.

    Examples
    --------
    >>> fineness(Cells(6, "1h", "UTC")) > fineness(Cells(6, "1d", "UTC")) > fineness(Cells(5, None))
    True
    """
    if not isinstance(grid, Cells):
        return -1.0, -math.inf
    seconds = math.inf if grid.timeslot is None else float(slot_seconds(grid.timeslot))
    return float(grid.resolution), -seconds


def assess(plan: MomentFigures, facts: PublicMetadata, *, min_users: int = 1) -> GridAssessment:
    """Return the assessment of a plan's request on public facts, without losses that would do.

    Parameters
    ----------
    plan : MomentFigures
    facts : PublicMetadata
        Counted on the grid that is assessed.
    min_users : int
        With which they were selected.
    """
    predictor, requested = ErrorPredictor(plan, facts), plan.requested_epsilon
    offer = GridAssessment(
        facts.cells.grid,
        facts.privacy_unit,
        cells=facts.occupancy.n_cells,
        users=facts.occupancy.n_users,
        floor=noise_floor(
            predictor.span, facts.occupancy.n_cells, facts.occupancy.n_users, float(requested)
        ),
        predicted_error=predictor.error_lower_bound(float(requested)),
        baseline_error=predictor.baseline_error,
        epsilon_least=predictor.epsilon_lower_bound(predictor.baseline_error / 2.0),
        hexagons=facts.cells.n_places,
        min_users=min_users,
    )
    # Above the constant already by the bound: planning could only confirm it.
    if not (predictor.is_planned or offer.predicted_error < offer.baseline_error):
        return offer
    prediction = prediction_of(plan) if predictor.is_planned else predictor.predict(requested)
    return with_prediction(offer, prediction)


def with_prediction(offer: GridAssessment, prediction: ErrorPrediction) -> GridAssessment:
    """Return an assessment with the errors that are predicted."""
    return replace(
        offer,
        predicted_error=prediction.mean_error,
        smoothed_error=smoothed_error(prediction, offer.baseline_error),
        better=int((prediction.error < offer.baseline_error).sum()),
        planned=True,
    )


def near_loss(predictor: ErrorPredictor, offer: GridAssessment, error: float) -> float | None:
    """Return the loss at which the error would be this small; None where it is, or far away."""
    if offer.planned and offer.predicted_error < error:
        return None
    maximum = MAX_EPSILON_RATIO * float(predictor.plan.requested_epsilon)
    # Nobody pays ten times the loss: the search would be for nothing.
    return (
        None if predictor.epsilon_lower_bound(error) > maximum else predictor.epsilon_needed(error)
    )


def smoothed_error(prediction: ErrorPrediction, baseline_error: float) -> float:
    """Return the expected average error of smoothed estimates, by the formula of this module.

    Parameters
    ----------
    prediction : ErrorPrediction
        Of raw estimates, in value units.
    baseline_error : float
        Assumed average error of one number for all cells, in value units.

    Examples
    --------
    >>> import numpy as np
    >>> from hexveil.mechanisms.looks.range_search import ErrorPrediction
    >>> round(smoothed_error(ErrorPrediction(np.array([2.0]), np.zeros(1)), 3.0), 3)
    1.803
    """
    variance = 2.0 * prediction.noise**2 + prediction.bias**2
    between = (baseline_error / MEAN_ABS_NORMAL) ** 2
    error = MEAN_ABS_NORMAL * np.sqrt(variance * between / (variance + between))
    # Laplace noise far below the differences of cells: smoothing leaves the raw estimate as it is.
    return float(np.minimum(error, prediction.error).mean())


WEAKER_UNITS: dict[Unit, tuple[Unit, ...]] = {
    "user": ("user-week", "user-day"),
    "user-week": ("user-day",),
    "user-day": (),
}
"""Privacy units that promise less than each, the strongest first."""


def recommend(offers: Iterable[GridAssessment], unit: Unit) -> GridAssessment | None:
    """Return the offer of most cells that halves one constant's error; of equals, the better."""
    halved = (one for one in offers if one.privacy_unit == unit and one.halved and one.is_map)
    return max(halved, key=order_by_cells, default=None)


def order_by_cells(offer: GridAssessment) -> tuple[float, float, tuple[float, ...]]:
    """Return the order of grids; errors as printed: a last digit decides nothing."""
    return offer.cells, -offer.printed_error, offer.fineness


def cheapest(offers: Iterable[GridAssessment], unit: Unit) -> GridAssessment | None:
    """Return the offer that would halve one constant's error at the least loss."""
    with_epsilon = (
        one
        for one in offers
        if one.privacy_unit == unit and one.epsilon_halved is not None and one.is_map
    )
    return min(
        with_epsilon,
        # At equal loss the finer grid says more.
        key=lambda one: (one.epsilon_halved or 0.0, -one.cells, *(-f for f in one.fineness)),
        default=None,
    )


def recommendation_text(offers: tuple[GridAssessment, ...], unit: Unit, epsilon: float) -> str:
    """Return the recommendation in words, with the effect of a larger ε or a weaker unit."""
    recommended = recommend(offers, unit)
    if recommended is None:
        sentences = [_nothing(offers, unit, epsilon)]
    else:
        finer = cheapest(
            [assessment for assessment in offers if assessment.cells > recommended.cells], unit
        )
        sentences = [
            f"proposed: {_describe(recommended)}.",
            *([] if finer is None else [_describe_finer(finer)]),
        ]
    return " ".join([*sentences, *_weaker(offers, unit, recommended)])


def _describe(offer: GridAssessment) -> str:
    return (
        f"{offer.description}, unit {offer.privacy_unit}: {offer.cells:,} cells, error "
        f"{offer.predicted_error:.2g}, baseline error {offer.baseline_error:.2g}"
    )


def _figures(offer: GridAssessment) -> str:
    return (
        f"{offer.description} ({offer.cells:,} cells, error {offer.predicted_error:.2g}, "
        f"baseline error {offer.baseline_error:.2g})"
    )


def _describe_finer(offer: GridAssessment) -> str:
    return f"The finer {offer.description} ({offer.cells:,} cells) needs epsilon {_loss(offer)}."


def _loss(offer: GridAssessment) -> str:
    return f"{offer.epsilon_halved:g}"


def _nothing(offers: tuple[GridAssessment, ...], unit: Unit, epsilon: float) -> str:
    """Return that no grid is proposed, and the grid and the loss that would do."""
    maps = [
        assessment for assessment in offers if assessment.privacy_unit == unit and assessment.is_map
    ]
    if not maps:
        return "no grid tried leaves a map of three cells, or of three hexagons."
    sentence = f"no grid has an error below half the baseline at epsilon {epsilon:g}"
    would = cheapest(maps, unit)
    if would is None:
        sentence += ", nor at ten times that."
    else:
        sentence += f"; {would.description} ({would.cells:,} cells) needs epsilon {_loss(would)}."
    usable = max((one for one in maps if one.beats_constant), key=order_by_cells, default=None)
    return (
        sentence if usable is None else f"{sentence} The finest usable grid is {_figures(usable)}."
    )


def _weaker(
    offers: tuple[GridAssessment, ...], unit: Unit, chosen: GridAssessment | None
) -> list[str]:
    """Return the finest grid of weaker units, if it is finer."""
    cells = 0 if chosen is None else chosen.cells
    finest_weaker = [
        assessment
        for weaker in WEAKER_UNITS[unit]
        if (assessment := recommend(offers, weaker)) is not None
    ]
    # A weaker promise is named only if it buys a finer map.
    best = max(finest_weaker, key=lambda assessment: assessment.cells, default=None)
    if best is None or best.cells <= cells:
        return []
    return [f"With a weaker promise: {_describe(best)}."]
