"""A plan is data, made in public: a row per cell, a row per user, before any value is read.

Of a (cell, user) pair with m records, f min(m, t) are kept: t is the cell's, f the user's; the
rest is put at the middle of the bounds. The sensitivity of the pair, and its loss, are formulas of
what is kept and of the cell's noise (accounting/error_model.py; mechanisms/clipped_mean.py for the
statistic).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss of a user: the sum over its cells and statistics of its own sensitivity / scale (ERRATA 3;
proof in accounting/privacy_loss.py). For the mean that is kept / r, r the noise scale counted in
records (scale = U r / N). The variance is published on a lattice of 2^-30 of its noise scale, and a
user is charged that step in each of its cells as well (mechanisms/clipped_variance.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.accounting import pair_losses
from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    ErrorModel,
    WeightedMeanErrorModel,
    constant_error,
    span_in_quanta,
)
from hexveil.accounting.pair_losses import LossParameters
from hexveil.base.rational import round_up, sum_upper_bounds
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.distributed_occupancy import DistributedOccupancy
from hexveil.planning.clipping_range import strategies
from hexveil.planning.clipping_range.variance_range import variance_error_model
from hexveil.planning.feasibility.utility_test import UtilityAssessment, assess_utility
from hexveil.planning.optimizers.mean_error import ObjectiveWeights, mean_error_lower_bound
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales
from hexveil.planning.serialization import loading, saving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.request import Request

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan(ReadOnlyArrays):
    """How each cell's statistics will be made and noised, and what that costs each user.

    Every array is public; value units unless said otherwise.

    Attributes
    ----------
    occupancy : Occupancy
    lower, upper : ndarray of float, shape (n_cells,)
        Bounds of each cell; a float means its shortest decimal text.
    allocation : PlanAllocation
        What is kept and how much noise is added: see there.
    request : Request
        What was asked for: the loss or the targets, the statistics, the method.
    baseline_error : float
        What one constant for all cells is assumed to miss on average (public, from outside).
    facts : PublicMetadata or None
        None for a bare occupancy, which can be planned but not released.
    """

    occupancy: Occupancy
    lower: Floats
    upper: Floats
    allocation: PlanAllocation
    request: Request
    baseline_error: float
    facts: PublicMetadata | None = None

    def __repr__(self) -> str:
        return (
            f"Plan(method={self.method!r}, mechanism={self.mechanism!r}, "
            f"n_cells={self.occupancy.n_cells}, n_users={self.occupancy.n_users}, "
            f"epsilon={float(self.epsilon):.6g}, mean_error={_shown(self.expected_error)})"
        )

    @property
    def method(self) -> str:
        """How cells were planned together."""
        return self.request.method

    @property
    def mechanism(self) -> str:
        """How one cell was planned; "factors" for a joint plan."""
        return self.allocation.mechanism

    @property
    def statistics(self) -> tuple[str, ...]:
        """What is published of each cell."""
        return self.request.statistics

    @property
    def requested_epsilon(self) -> Fraction:
        """The loss the plan was to stay within; where targets were given, what they cost."""
        return self.epsilon if self.request.epsilon is None else self.request.epsilon

    @property
    def contribution_cap(self) -> NDArray[np.int64]:
        """t: samples kept of a user for the mean; 0 publishes the middle of the bounds."""
        return self.allocation.contribution_cap

    @property
    def noise_scale_records(self) -> Floats:
        """r: Laplace scale of the sum, in records times span; 0 where nothing is kept."""
        return self.allocation.noise_scale_records

    @property
    def cell_epsilon(self) -> Fraction | None:
        """The loss of one cell, where every cell has the same."""
        return self.allocation.cell_epsilon

    @property
    def lower_bound(self) -> float | None:
        """What no plan of the joint plan's class goes below: see `bound_kind`."""
        if self.bound_kind == "mean error" and self.allocation.lower_bound is None:
            return self._average_bound
        return self.allocation.lower_bound

    @cached_property
    def _average_bound(self) -> float:
        """Return the lower bound of an average, which takes longer than the plan itself."""
        noises = (
            self.noise_scale_records / self.occupancy.records_per_cell,
            self.allocation.variance_noise,
        )
        rates = (np.divide(1.0, n, out=np.zeros_like(n), where=n > 0) for n in noises)
        return mean_error_lower_bound(
            ClippingProblem(self.occupancy),
            ObjectiveWeights.of(self.request, self.span, self.occupancy),
            float(self.requested_epsilon),
            InverseScales(*rates),
            self.allocation.contribution_factor,
        )

    @property
    def bound_kind(self) -> str | None:
        """Subject of `lower_bound`: the "loss", the "max error" or the "mean error".

        None without one: a bound of the mean error looks at each pair, so that there is none where
        pairs stay elsewhere.
        """
        afar = isinstance(self.occupancy, DistributedOccupancy)
        return (
            None
            if afar and self.allocation.bound_kind == "mean error"
            else self.allocation.bound_kind
        )

    @property
    def gap(self) -> float | None:
        """(value - lower_bound) / value, 0 where both are 0; None without a certificate."""
        if self.lower_bound is None:
            return None
        value = self._certified()
        return (value - self.lower_bound) / value if value else 0.0

    def _certified(self) -> float:
        """Return the figure that the certificate is about, in its units."""
        if self.bound_kind == "loss":
            return round_up(self.epsilon)
        errors = self.objective_errors()
        return float(errors.max() if self.bound_kind == "max error" else errors.mean())

    def objective_errors(self) -> Floats:
        """Return the error of each cell that the objective is about.

        The planning error of the one statistic; the sum of both where asked for; else the
        largest (for objective "mean" the average) of both as shares of what a constant can miss.
        """
        parts = list(self.error_models.values())
        if len(parts) == 1 or self.request.error == "sum":
            return np.asarray(np.sum([p.error for p in parts], axis=0), dtype=np.float64)
        unit = {"mean": self.span, "variance": self.span**2}
        shares = np.stack([p.error / (unit[p.name] * MAX_CONSTANT_ERROR[p.name]) for p in parts])
        over = shares.max if self.request.objective == "max" else shares.mean
        return np.asarray(over(axis=0), dtype=np.float64)

    @property
    def span(self) -> Floats:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    @cached_property
    def mean_contributions(self) -> Floats:
        """Samples of each pair that the mean keeps; with records at hand, in whole quanta."""
        return self._kept("mean")

    @cached_property
    def variance_contributions(self) -> Floats:
        """Samples of each pair that the variance keeps."""
        return self._kept("variance")

    def _kept(self, name: str) -> Floats:
        rows = self.allocation
        kept = pair_losses.contributed_records(
            self.occupancy, *self.caps_and_quanta(name), rows.contribution_factor
        )
        return kept if rows.suppressed_pairs is None else np.where(rows.suppressed_pairs, 0.0, kept)

    def caps_and_quanta(self, name: str) -> tuple[NDArray[np.int64], Floats]:
        """Return what a statistic keeps of a user in each cell, and the quanta in its bounds.

        Zeros for the quanta if what is kept need not be whole in them.
        """
        nothing = np.zeros(self.occupancy.n_cells)
        if name == "variance":
            return self.allocation.variance_cap, nothing
        return self.allocation.contribution_cap, nothing if self.facts is None else span_in_quanta(
            self.span, self.facts
        )

    @cached_property
    def error_models(self) -> dict[str, ErrorModel]:
        """What noise and clipping do to each noised statistic, by its name."""
        made = {"mean": self._mean, "variance": self._variance}
        return {name: made[name]() for name in self.request.noised}

    @property
    def mean_noise(self) -> Floats:
        """Laplace scale of each cell's mean, for bounds or for an interval of width 1."""
        return np.asarray(self.noise_scale_records / self.occupancy.records_per_cell)

    def _variance(self) -> ErrorModel:
        interval, noise = self.allocation.clipping_range, self.allocation.variance_noise
        if interval is None:
            missing = constant_error("variance", self.occupancy)
            return ErrorModel("variance", self.span**2, noise, self._away("variance"), missing)
        return variance_error_model(interval, self.occupancy, self.span, (self.mean_noise, noise))

    def _mean(self) -> ErrorModel:
        interval, occupancy, noise = self.allocation.clipping_range, self.occupancy, self.mean_noise
        if interval is None:
            return ErrorModel(
                "mean", self.span, noise, self._away("mean"), constant_error("mean", occupancy)
            )
        if self.allocation.two_stage is not None:
            return strategies.two_stage_error_model(
                occupancy, self.span, interval, noise, self.allocation.two_stage
            )
        return WeightedMeanErrorModel(
            "mean",
            self.span * interval.width,
            noise,
            np.zeros_like(noise),
            constant_error("mean", occupancy),
            max_bias=interval.max_bias(occupancy),
            expected_bias=interval.expected_bias(occupancy),
        )

    def _away(self, name: str) -> Floats:
        """Return the share of each cell's samples that a statistic has at the middle."""
        occupancy, rows = self.occupancy, self.allocation
        if rows.suppressed_pairs is None:
            cut = occupancy.map_cells(
                pair_losses.clipped_by_caps, self.caps_and_quanta(name), (rows.contribution_factor,)
            )
        else:
            cut = occupancy.map_cells(pair_losses.clipped_per_cell, pairs=(self._kept(name),))
        return np.asarray(cut / occupancy.records_per_cell, dtype=np.float64)

    @property
    def primary_statistic(self) -> ErrorModel:
        """The first statistic with noise: the mean, unless only the variance was asked for."""
        return next(iter(self.error_models.values()))

    @property
    def scale(self) -> Floats:
        """Laplace scale of each cell's first statistic; 0: a constant."""
        return self.primary_statistic.scale

    @property
    def bias(self) -> Floats:
        """Worst-case bias of each cell's first statistic."""
        return self.primary_statistic.bias

    @property
    def error(self) -> Floats:
        """Planning error of each cell's first statistic: worst-case bias plus expected |noise|."""
        return self.primary_statistic.error

    @property
    def bound95(self) -> Floats:
        """Error of the first statistic not exceeded with probability 95 percent."""
        return self.primary_statistic.bound95

    def losses(self) -> Floats:
        """Loss of each user over all cells, in epsilon, rounded up; shape (n_users,)."""
        return self._losses.copy()

    @cached_property
    def _losses(self) -> Floats:
        if self.allocation.clipping_range is None:
            return np.asarray(
                self.occupancy.map_users(pair_losses.user_losses, *self.loss_parameters)
            )
        # Each term was made by a few correctly rounded operations: eight ulps cover them.
        terms = self.pair_losses() * (1.0 + 2.0**-49)
        lost = sum_upper_bounds(self.occupancy.user, terms, self.occupancy.n_users)
        if self.allocation.two_stage is not None:
            in_classes, in_cells = self.allocation.two_stage.losses(self.occupancy)
            lost = np.maximum(lost, np.nextafter(in_classes + in_cells, np.inf))
        return np.asarray(np.nextafter(lost + round_up(self._shared), np.inf))

    @property
    def _shared(self) -> Fraction:
        """Return what everybody loses: whoever is in the map may have moved what it decides."""
        parts = (self.allocation.clipping_range, self.allocation.two_stage)
        return sum((one.epsilon for one in parts if one is not None), Fraction(0))

    def pair_losses(self) -> Floats:
        """Return what each (cell, user) pair adds to its user's loss, not yet rounded up."""
        occupancy = self.occupancy
        if self.allocation.clipping_range is not None:
            # The mean is needed for the variance as well, and its loss adds to the variance's.
            noises = [self.mean_noise]
            noises += [self.allocation.variance_noise] if "variance" in self.request.noised else []
            shares = self.allocation.clipping_range.shares(occupancy)
            rates = [np.divide(1.0, one, out=np.zeros_like(one), where=one > 0) for one in noises]
            return np.asarray(sum(shares * one[occupancy.cell] for one in rates))
        cells, users, dropped = self.loss_parameters
        return pair_losses.pair_losses(occupancy, *cells, *users, *dropped)

    @cached_property
    def loss_parameters(
        self,
    ) -> tuple[LossParameters, tuple[Floats, ...], tuple[NDArray[np.bool_], ...]]:
        """What decides the loss of pairs: figures of cells, of users, and of pairs."""
        occupancy, rows, parts = self.occupancy, self.allocation, self.error_models
        nothing = np.zeros(occupancy.n_cells)

        def whole(name: str) -> NDArray[np.bool_]:
            return np.equal(parts[name].clipped_share if name in parts else nothing, 0.0)

        cells = LossParameters(
            records=occupancy.records_per_cell,
            cap=rows.contribution_cap,
            noise=rows.noise_scale_records,
            span_quanta=self.caps_and_quanta("mean")[1],
            variance_cap=rows.variance_cap,
            variance_noise=rows.variance_noise,
            unclipped=whole("mean"),
            variance_unclipped=whole("variance"),
            publishes_mean=np.full(occupancy.n_cells, "mean" in parts),
            publishes_variance=np.full(occupancy.n_cells, "variance" in parts),
        )
        return (
            cells,
            (rows.contribution_factor,),
            () if rows.suppressed_pairs is None else (rows.suppressed_pairs,),
        )

    @cached_property
    def epsilon(self) -> Fraction:
        """Loss of the most exposed user, rounded up: what the release costs."""
        return Fraction(float(self._losses.max(initial=0.0)))

    @cached_property
    def l0_epsilon(self) -> Fraction:
        """What counting cells would claim: each cell's loss charged to all who are in it."""
        occupancy = self.occupancy
        if self.allocation.clipping_range is None:
            if self.cell_epsilon is not None:
                cells = occupancy.map_users(pair_losses.count_charged_cells, *self.loss_parameters)
                return self.cell_epsilon * int(cells.max(initial=0))
            given, users, dropped = self.loss_parameters
            most = occupancy.map_cells(pair_losses.max_pair_loss, given, users, dropped)
            charged = occupancy.map_users(
                pair_losses.composed_losses, (most, *given), users, dropped
            )
            return Fraction(float(charged.max(initial=0.0)))
        terms = self.pair_losses()
        most = np.maximum.reduceat(terms, occupancy.start[:-1])[occupancy.cell]
        charged = sum_upper_bounds(
            occupancy.user, np.where(terms > 0, most, 0.0), occupancy.n_users
        )
        if self.allocation.two_stage is not None:
            charged = np.maximum(charged, self.allocation.two_stage.composed_losses(occupancy))
        claimed = float(charged.max(initial=0.0))
        return Fraction(math.nextafter(claimed + round_up(self._shared), math.inf))

    @property
    def worst_case_error(self) -> float | dict[str, float]:
        """Largest planning error of a cell: by statistic where several are planned apart."""
        return self._errors(np.max)

    @property
    def expected_error(self) -> float | dict[str, float]:
        """Average planning error over cells: by statistic where several are planned apart."""
        return self._errors(np.mean)

    def _errors(self, over_cells: Callable[[Floats], np.floating[Any]]) -> float | dict[str, float]:
        if len(self.error_models) == 1 or self.request.error == "sum":
            return float(over_cells(self.objective_errors()))
        return {name: float(over_cells(part.error)) for name, part in self.error_models.items()}

    @cached_property
    def support(self) -> UtilityAssessment:
        """Whether the map would say more than one constant, by the public prior."""
        return assess_utility(
            self.occupancy,
            self.primary_statistic,
            self.span,
            float(self.requested_epsilon),
            self.baseline_error,
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One readable name per cell."""
        if self.facts is not None:
            return self.facts.cells.names()
        return tuple(str(i) for i in range(self.occupancy.n_cells))

    @cached_property
    def table(self) -> pa.Table:
        """A row per cell: public counts, what is kept, noise, and the errors to expect."""
        occupancy = self.occupancy
        columns = {
            "cell": pa.array(self.names, type=pa.string()),
            "users": occupancy.users_per_cell,
            "records": occupancy.records_per_cell,
            "mechanism": pa.array([self.mechanism] * occupancy.n_cells, type=pa.string()),
            "lower": self.lower,
            "upper": self.upper,
            "kept": self.contribution_cap
            if "mean" in self.error_models
            else self.allocation.variance_cap,
        }
        for name, part in self.error_models.items():
            columns |= {
                f"{name}_scale": part.scale,
                f"{name}_bias": part.bias,
                f"{name}_error": part.error,
                f"{name}_bound95": part.bound95,
            }
        return pa.table(columns)

    @cached_property
    def users(self) -> pa.Table:
        """A row per user (by number): cells, records, factor and loss."""
        occupancy = self.occupancy
        return pa.table(
            {
                "user": np.arange(occupancy.n_users),
                "cells": occupancy.cells_per_user,
                "records": occupancy.records_per_user,
                "factor": self.allocation.contribution_factor,
                "loss": self._losses,
            }
        )

    def save(self, folder: str | Path) -> Path:
        """Write the plan into a new folder, to be reviewed and then released; return its path.

        A plan is for the records it was made for: a release refuses records whose occupancy
        differs. For tomorrow's records keep the goal, a run file (TOML), and plan them.

        Parameters
        ----------
        folder : str or Path
            New, in a folder that exists. It holds plan.json, cells.parquet, users.parquet and
            pairs.parquet: public facts, users by number. They show where each numbered user
            reported, so give them to reviewers, not to everybody.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the plan's mechanism is not of hexveil.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        return saving.save(self, folder)

    @staticmethod
    def load(folder: str | Path) -> Plan:
        """Return the plan that `save` wrote into a folder; releasing it is releasing that plan.

        It cannot count the records again, so that it does not advise on coarser grids.

        Raises
        ------
        InputError
            If a file is missing, was edited, is of another format, or holds what no plan has.
        StorageError
            If a file cannot be read.
        """
        return loading.load(folder, Plan)


def _shown(error: float | dict[str, float]) -> str:
    if isinstance(error, dict):
        return "{" + ", ".join(f"{name}: {value:.4g}" for name, value in error.items()) + "}"
    return f"{error:.4g}"
