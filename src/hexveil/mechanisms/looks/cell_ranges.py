"""ClippingKind ranges of single cells: shares of ε for each stage, weights and noise.

One range for the whole map cuts off cells that differ much from the others. Here a histogram of all
user means gives the range of a first look at every cell, at the share `FIRST_SHARE` of what is left
of ε; then every cell keeps that range, or is measured anew in a range of its own at the rest.
A user's loss by a cell does not depend on the cell's range: noise is in proportion to its width.
So weights and noise are planned before any value is read (mechanisms/looks/ for the proof).

The histogram has the noise 2/ε' votes in each bin, W the votes of all users, at most one each. Its
share of ε rises as votes fall, between bounds: the tails that it shows are added to estimates, so
that its noise counts there too.

What is assumed (costs accuracy, never privacy): user means as in
mechanisms/looks/one_range.py; a range reaches `HALF_WIDTH` deviations either way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from hexveil.accounting.promise import PARTS, Promise, of_amount
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.mechanisms import looks
from hexveil.mechanisms.looks import user_weights
from hexveil.mechanisms.looks.cell_stages import (
    CellRangeOutputs,
    CellRangeStages,
    GaussianCellStages,
    PosteriorRangeSelection,
)
from hexveil.mechanisms.looks.pooled_means import HALF_WIDTH
from hexveil.mechanisms.looks.weighted_mean import WeightedVotes
from hexveil.mechanisms.looks.weighted_ranges import WeightedRanges
from hexveil.mechanisms.stage_data import Outputs, to_value_units
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import Weights
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, PlanningProblem, weighted_rows
from hexveil.planning.optimizers.calibration import fit_noise
from hexveil.smoothing.user_mean_law import CellDesign

FIRST_SHARE = Fraction(3, 10)
"""Share of the cells' loss for the first look."""
MIN_HISTOGRAM_SHARE, USUAL_SHARE, MAX_HISTOGRAM_SHARE = (Fraction(n, 100) for n in (2, 8, 20))
"""Shares of ε for the histogram: at least, until it is precise, and at most."""
FEW_VOTES, MANY_VOTES = 160, 480
"""Votes times epsilon of the histogram below which it is rough, and above which it is precise."""
CELLS_EXPECTED = {LAPLACE: 0.9, GAUSSIAN: 0.85}
"""Share of the promise that is expected to be left to the cells."""
HISTOGRAM_WEIGHTS = 2
"""A user who changes takes its votes from some bins, and gives them to others."""


def histogram_share(votes: Fraction, epsilon: Fraction) -> Fraction:
    """Return the share of ε that the pooled histogram takes.

    Parameters
    ----------
    votes : Fraction
        W, the votes of all users.
    epsilon : Fraction

    Examples
    --------
    >>> fleets = map(Fraction, (300, 1000, 4000, 20_000))
    >>> [float(histogram_share(votes, Fraction(1))) for votes in fleets]
    [0.2, 0.16, 0.08, 0.024]
    """
    rough, precise = (n / (votes * epsilon) for n in (FEW_VOTES, MANY_VOTES))
    share = min(max(rough, min(precise, USUAL_SHARE), MIN_HISTOGRAM_SHARE), MAX_HISTOGRAM_SHARE)
    # A share is printed and booked as a short exact number.
    return Fraction(math.ceil(share * 1000), 1000)


def plan_cell_ranges(
    occupancy: Occupancy,
    promise: Promise,
    epsilon: Fraction,
    share: Fraction | None,
    iterations: int = user_weights.ITERATIONS,
) -> tuple[PerCellRange, Floats]:
    """Return the decisions, and each cell's noise for a range of width 1.

    Parameters
    ----------
    occupancy : Occupancy
    promise : Pure or Squares
        The most that a user may lose, in all.
    epsilon : Fraction
        The promise as it was asked for.
    share : Fraction or None
        Part of it for the pooled histogram; default by the votes.
    iterations : int
        Of the search for weights; fewer of them are good enough for a prediction.

    """
    # What is left for the cells follows from the weights' votes; some less changes weights little.
    law = promise.law
    expected = CELLS_EXPECTED[law] * float(promise.amount)
    prior = user_weights.user_mean_prior(HALF_WIDTH)
    weights = user_weights.find_user_weights(occupancy, expected, prior, iterations, law=law)
    if share is None:
        # Gaussian votes as precise as those of a pure plan of this ε, if they do not cost too much.
        votes = int(WeightedVotes(weights.weight).user_votes.sum())
        wanted = epsilon * histogram_share(Fraction(votes, PARTS), epsilon)
        most = promise.part(MAX_HISTOGRAM_SHARE).amount
        pooled = min(promise.laplace_amount(wanted, HISTOGRAM_WEIGHTS), most)
    else:
        pooled = promise.part(share).amount
    plan = PerCellRange(pooled, FIRST_SHARE, weights.weight)
    left = promise.amount - pooled
    return plan, weights.noise * (expected / float(left)) ** (1.0 / law.power)


@dataclass(frozen=True, eq=False)
class PerCellRange(WeightedRanges):
    """User means are clipped to ranges of their cells, which depend on a first look.

    The noise of each cell, if all that the cells may cost is spent on one number, is that of the
    allocation's rows.

    Attributes
    ----------
    histogram_loss : Fraction
        Loss of every user by the pooled histogram; under a δ as a square of μ.
    first_share : Fraction
        Share of the cells' loss that the first look of a cell costs.
    weight : Weights
        Whole weights of user means; a user's part of a cell's number is its weight over their sum.
    outputs : CellRangeOutputs or None
        After a release.
    """

    histogram_loss: Fraction
    first_share: Fraction
    weight: Weights
    outputs: CellRangeOutputs | None = None
    mode: ClassVar[Literal["per-cell"]] = "per-cell"
    strategy: ClassVar[str] = "cell_ranges"
    borrows: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        share = 0 < self.first_share < 1
        if self.histogram_loss <= 0 or not share or self.outputs is not None:
            raise InputError("its ranges have shares of epsilon, or outputs, that no plan has.")

    def released(self) -> CellRangeOutputs:
        """Return the outputs.

        Raises
        ------
        InputError
            Before a release.
        """
        if self.outputs is None:
            raise InputError("the ranges of cells are chosen by a release, not before.")
        return self.outputs

    def mean_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the means."""
        return self.mean_model(problem.span, rows.mean_noise(problem), problem.request.law)

    def mean_model(self, span: Floats, noise: Floats, law: NoiseLaw = LAPLACE) -> ErrorModel:
        """Return the error model of means with this noise in a range of width 1.

        Before a release all cells are taken to keep the range of the first look, of the width that
        the prior says. Worst-case bias and bound are about user means clipped to the cell's own
        range.
        """
        width, last = np.full(noise.size, 2.0 * HALF_WIDTH * user_weights.PRIOR_SD), noise
        if self.outputs is not None:
            # A cell that is measured anew has the rest of the loss, or of the square of μ.
            rest, width = float(1 - self.first_share), self.outputs.width
            last = np.where(self.outputs.moved, noise / rest ** (1.0 / law.power), noise)
        prior = user_weights.user_mean_prior(HALF_WIDTH)
        by_weights = user_weights.expected_bias(self.weight, prior)
        expected = np.hypot(by_weights, user_weights.expected_clipping_error(HALF_WIDTH))
        return self.mean_in_width(span * width, last, expected, law)

    def shared(self, delta: Fraction) -> Promise:
        """Return the loss of every user of the map: whoever is in it may move the histogram."""
        return of_amount(self.histogram_loss, delta)

    def stages(self, plan: looks.Planned, scale: ValueLattice) -> CellRangeStages:
        """Return histogram and looks at cells, on the lattice of the records."""
        lattice, steps, delta = looks.lattice_of(plan, scale), scale.span_quanta, plan.request.delta
        lower, noise = lattice.lower_value, plan.mean_noise
        selection = PosteriorRangeSelection(
            CellDesign.of(self.weight),
            noise,
            float(self.first_share),
            (lower, lower + lattice.quantum * steps),
            is_gaussian=bool(delta),
        )

        def errors(released: CellRangeOutputs) -> ErrorModel:
            return replace(self, outputs=released).mean_error(plan.problem, plan.allocation)

        return (GaussianCellStages if delta else CellRangeStages)(
            self.weighted_mean(plan),
            lattice,
            plan.booked_losses,
            self.shared(delta),
            self.first_share,
            selection,
            errors,
        )

    def with_outputs(self, stages: Any, outputs: Outputs) -> PerCellRange:  # noqa: ANN401  its own
        """Return the same with the ranges that a release chose."""
        return replace(self, outputs=stages.released(outputs))

    # ---- what a release states ----

    def steps(self, plan: looks.Planned, total: Fraction) -> list[looks.PrivateStep]:
        """Return the pooled histogram, the first look and the cells.

        A cell that keeps its range spends what is listed for both of its steps on one number.
        """
        outputs, span = self.released(), float(plan.span[0])
        first, delta, lower = outputs.pooled, plan.request.delta, float(plan.lower[0])

        def in_units(quanta: int) -> float:
            return to_value_units(quanta, outputs.span_quanta, lower, span)

        pooled = {
            # Votes of units: a whole number of 2^-20 of a unit's, exact as a double.
            "votes": [votes / PARTS for votes in outputs.votes],
            "total": outputs.total / PARTS,
            "centre": in_units(first.centre),
            "below": span * first.below / outputs.span_quanta,
            "above": span * first.above / outputs.span_quanta,
        }
        left = total - self.shared(delta).amount
        look = left * self.first_share
        ends = {"lower": in_units(first.lower), "upper": in_units(first.upper)}
        return [
            looks.PrivateStep("pooled_histogram", self.histogram_loss, pooled),
            looks.PrivateStep("first_look", look, ends),
            looks.PrivateStep(
                "cells", left - look, {"moved": int(np.count_nonzero(outputs.moved))}
            ),
        ]

    def cell_entries(self, plan: looks.Planned) -> dict[str, list[Any]]:
        """Return the clipping range of each cell's last number, in value units."""
        outputs = self.released()
        ends = outputs.lower, outputs.upper
        return looks.stated_ranges(plan, outputs.span_quanta, *ends, outputs.moved)

    def words(self, plan: looks.Planned, price: looks.Shown, part: looks.Shown) -> str:  # noqa: ARG002
        """Return the price of the stages before the cells, and the inputs of each cell's range."""
        return (
            "one for each cell. A histogram of all vehicles' averages is released at "
            f"{part(self.histogram_loss)}. It gives the range of a first noisy look at every "
            "cell, and shows what ranges cut off. A cell keeps that range, or is measured again "
            f"in a range of its own, with the other {float(1 - self.first_share):.0%} of its "
            "loss; both cost the same."
        )


def allocate_cell_ranges(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return weights and noise of cells with ranges of their own."""
    request = problem.request
    assert request.epsilon is not None  # noqa: S101  targets are met at an epsilon that is tried
    share = request.range_share
    plan, noise = plan_cell_ranges(problem.occupancy, promise, request.epsilon, share)
    return fit_noise(problem, promise, weighted_rows(problem.occupancy, plan, noise))
