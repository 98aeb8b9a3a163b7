"""Rows of a plan: contribution caps and noise, per cell and per user. Public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, ErrorModel, span_in_quanta
from hexveil.accounting.privacy_loss import KeptRecords, clipped_by_caps
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import SuppressedPairs
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.request import Request

MAX_ERROR = 1e6
"""Predicted errors are below this, in spans."""


@dataclass(frozen=True, eq=False)
class CellForecast(ReadOnlyArrays):
    """Forecast of the cells of a map by earlier releases. Public.

    Attributes
    ----------
    mean, deviation : ndarray of float, shape (n_cells,)
        Of each cell's average, value units.
    within : float
        Standard deviation of user means within a cell, value units.
    releases : tuple of str
        Digests of the releases that it rests on.
    """

    mean: Floats
    deviation: Floats
    within: float
    releases: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PlanningProblem(ReadOnlyArrays):
    """Public input of every method: counts, bounds and request.

    Attributes
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
        Width of each cell's bounds.
    request : Request
    facts : PublicMetadata or None
        Where there are records: contributions are whole quanta of their lattice.
    forecast : CellForecast or None
        Where clipping ranges follow from earlier releases.
    """

    occupancy: Occupancy
    span: Floats
    request: Request
    facts: PublicMetadata | None = None
    forecast: CellForecast | None = None

    def with_forecast(self, forecast: CellForecast) -> PlanningProblem:
        """Return the problem with ranges by a forecast, where it would pay for ranges of means."""
        request = self.request
        is_free = request.clipping_range == "auto" and request.range_share is None
        if not is_free or request.noised != ("mean",) or self.facts is None:
            return self
        if request.resolve_range(self.occupancy, request.epsilon) == "bounds":
            return self
        request = replace(request, history=forecast.releases)
        return replace(self, request=request, forecast=forecast)

    def within(self, epsilon: Fraction) -> PlanningProblem:
        """Return the problem with a privacy loss in place of its epsilon or targets."""
        return replace(self, request=self.request.within(epsilon))

    def without_metadata(self) -> PlanningProblem:
        """Return the problem of the bare counts: contributions may be fractions of quanta."""
        return replace(self, facts=None)

    def objective_errors(self, models: Mapping[str, ErrorModel]) -> Floats:
        """Return the error of each cell that the objective is about.

        The planning error of the one statistic; of both the largest (for objective "mean" the
        average), as shares of the error of a constant.
        """
        request = self.request
        if len(models) == 1:
            (model,) = models.values()
            return np.asarray(model.error)
        unit = {"mean": self.span, "variance": self.span**2}
        shares = np.stack([m.error / (unit[n] * MAX_CONSTANT_ERROR[n]) for n, m in models.items()])
        over = shares.max if request.objective == "max" else shares.mean
        return np.asarray(over(axis=0), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PlanRows(ReadOnlyArrays):
    """Contribution cap of each user in each cell, and the noise of each cell.

    Attributes
    ----------
    mechanism : str
        How one cell was planned.
    contribution_cap : ndarray of int64, shape (n_cells,)
        t: samples kept of a user for the mean; 0 publishes the middle of the bounds.
    noise_scale_records : ndarray of float, shape (n_cells,)
        r: the mean's Laplace scale is U r / N; 0 where nothing is kept.
    variance_cap : ndarray of int64, shape (n_cells,)
        The same for the variance; 0 publishes 1/8 of the squared span.
    variance_noise : ndarray of float, shape (n_cells,)
        The variance's Laplace scale as a part of U²; 0 where nothing is kept.
    contribution_factor : ndarray of float, shape (n_users,)
        What is kept of a user's samples in every cell, from 0 to 1: a multiple of 2^-30.
    suppressed_pairs : SuppressedPairs or None
        Pairs of which nothing is kept.
    cell_epsilon : Fraction or None
        The loss of one cell, where every cell has the same.
    lower_bound : float or None
        What no plan of the class can go below, rounded down.
    bound_kind : str or None
        What `lower_bound` is about: "loss", "max error" or "mean error".
    """

    mechanism: str
    contribution_cap: Ints
    noise_scale_records: Floats
    variance_cap: Ints
    variance_noise: Floats
    contribution_factor: Floats
    suppressed_pairs: SuppressedPairs | None = None
    cell_epsilon: Fraction | None = None
    lower_bound: float | None = None
    bound_kind: str | None = None

    def mean_noise(self, problem: PlanningProblem) -> Floats:
        """Return the Laplace scale of each cell's mean, for bounds or a range of width 1."""
        return np.asarray(self.noise_scale_records / problem.occupancy.records_per_cell)

    def kept(self, problem: PlanningProblem, statistic: str | None = None) -> KeptRecords:
        """Return the records of each pair that count for a statistic.

        Those of a mean are whole quanta where there are records. Without a statistic records count
        wholly or not at all.
        """
        nothing, cap = np.zeros(problem.occupancy.n_cells), self.contribution_cap
        quanta = nothing
        if statistic == "variance":
            cap = self.variance_cap
        elif statistic == "mean" and problem.facts is not None:
            quanta = span_in_quanta(problem.span, problem.facts)
        return KeptRecords(cap, self.contribution_factor, quanta, self.suppressed_pairs)

    def contributions(self, problem: PlanningProblem, statistic: str) -> Floats:
        """Return the records of each pair that count for a statistic."""
        return self.kept(problem, statistic).of(problem.occupancy.local())

    def clipped_share(self, problem: PlanningProblem, statistic: str) -> Floats:
        """Return the share of each cell's records that a statistic moves to the midpoint."""
        work = partial(clipped_by_caps, kept=self.kept(problem, statistic))
        share = problem.occupancy.map_cells(work) / problem.occupancy.records_per_cell
        return np.asarray(share, dtype=np.float64)


def refuse_rows(wrong: Bools, fault: str) -> None:
    """Raise InputError with a fault and the first row that has it, if any has."""
    if wrong.any():
        raise InputError(f"{fault} in row {int(np.argmax(wrong))}.")


def full_factors(occupancy: Occupancy) -> Floats:
    """Return factors that reduce nobody."""
    return np.ones(occupancy.n_users)
