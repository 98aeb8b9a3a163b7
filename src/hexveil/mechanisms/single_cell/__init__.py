"""One cell: its public facts, mechanisms for its mean, and the fixed stages that these allocate.

Neighbours: one user's values all change within the bounds; users and counts are public.
Loss: the sum over the stages of what each costs a user at most, whatever the others found.

A study plans one cell in value units (`CellPlan`): its estimates come from the contract's own loop,
with the stages, integers and decoding of a release, and a noise source that is handed in.
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_bounds, to_positive_fraction
from hexveil.mechanisms.contract import DONE, MemoryJournal, NoiseSource, Stage, execute
from hexveil.mechanisms.private_quantile import ROUND_UP
from hexveil.mechanisms.sensitivity_report import UNMETERED, Separate
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Values

STUDY_SPAN = 2**20
"""Quanta of the bounds in a study."""


@dataclass(frozen=True, eq=False)
class CellProblem:
    """Public facts of one cell.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_users,)
        Records of each user, at least 1.
    lower : Fraction
        Lower bound of a value, in value units.
    quantum : Fraction
        Resolution of sums, in value units.
    span : int
        Width of the bounds in quanta.
    """

    counts: Ints
    lower: Fraction
    quantum: Fraction
    span: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of a value, in value units."""
        return float(self.lower), float(self.lower + self.quantum * self.span)

    @property
    def width(self) -> float:
        """Width of the bounds, in value units."""
        return float(self.quantum * self.span)

    @property
    def total(self) -> int:
        """N, the records of the cell."""
        return int(self.counts.sum())

    def sums(self, user_means: ArrayLike) -> PrivateSums:
        """Return the sums of users with these means, projected to the bounds: for a study.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,) or (batch, n_users)
            In value units.

        Raises
        ------
        InputError
            If there is not one mean per user.
        """
        means = np.asarray(user_means, dtype=np.float64)
        if means.ndim not in {1, 2} or means.shape[-1] != self.counts.size:
            raise InputError(f"one mean per user is needed ({self.counts.size}).")
        lower, upper = self.bounds
        heights = (np.clip(means, lower, upper) - lower) * (self.span / (upper - lower))
        # Made-up values: their sums are rounded to quanta as those of records are.
        total = np.rint(heights * self.counts).astype(np.int64)
        return PrivateSums(np.minimum(total, self.span * self.counts))


def study_cell(counts: ArrayLike, bounds: object) -> CellProblem:
    """Return a cell for a study, on a lattice of `STUDY_SPAN` quanta.

    Raises
    ------
    InputError
        If a count is below 1, or bounds are reversed or infinite.
    """
    lower, upper = to_bounds(bounds)
    return CellProblem(check_counts(counts), lower, (upper - lower) / STUDY_SPAN, STUDY_SPAN)


class BoundedStage(Stage, Protocol):
    """A stage with a bound on its loss that holds whatever earlier stages found."""

    def losses(self) -> Floats:
        """Return each user's loss by this stage at most, rounded up."""

    def sensitivity(self, earlier: Outputs) -> tuple[Separate, ...]:
        """Return how far each user moves the one number of each query: see `Stage`."""


@dataclass(frozen=True)
class EstimateError:
    """Error of the estimate of one cell, for bounds of some width.

    Attributes
    ----------
    scale : float
        Laplace scale, which is also the expected absolute noise; the largest that can occur.
    bound95 : float
        Error not exceeded with probability 95 percent, whatever the values.
    bias : float, optional
        Largest |expected estimate - true value| over all values; None where it depends on private
        choices: no closed form is known.
    """

    scale: float
    bound95: float
    bias: float | None = None


@dataclass(frozen=True, eq=False)
class CellAllocation(ABC):
    """The public plan of one cell's mean: fixed stages, and how the last one is read.

    Attributes
    ----------
    cell : CellProblem
    epsilon : Fraction
        Loss of the whole release.
    stages : tuple of BoundedStage
    """

    figures: ClassVar[tuple[str, ...]] = ("cell", "groups")
    """Fields that follow from counts and loss, and that no draw and no estimate reads."""

    cell: CellProblem
    epsilon: Fraction
    stages: tuple[BoundedStage, ...]

    @abstractmethod
    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates in quanta above the lower bound, shape (batch,); not clamped."""

    @abstractmethod
    def sensitivity(self, width: float) -> float:
        """Return the largest change of the noiseless estimate, for bounds of this width.

        Where the noise is fitted to a range found privately, of the widest range there is.
        """

    @abstractmethod
    def error(self, width: float) -> EstimateError:
        """Return the error of the estimate, for bounds of this width."""

    @abstractmethod
    def grid(self) -> tuple[float, float]:
        """Return the start and the step of the numbers that estimates can be, in quanta.

        Both are no numbers where estimates are a curve of integers.
        """

    def losses(self) -> Floats:
        """Return each user's privacy loss whatever is released, rounded up."""
        total = np.zeros(self.cell.counts.size)
        for stage in self.stages:
            total += stage.losses()
        # Every stage is rounded up by itself; the margin is for adding them.
        return np.asarray(total * ROUND_UP)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next of the fixed stages."""
        return self.stages[len(earlier)] if len(earlier) < len(self.stages) else DONE


# ---- mechanisms ----


class CellMechanism(ABC):
    """An algorithm for the mean of one cell; a frozen data class of its options.

    It shows itself as constructed, options at their default left out: `parse` reads that text back.
    """

    shown_always: ClassVar[tuple[str, ...]] = ()
    shown_by_position: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> CellAllocation:
        """Return the allocation of one cell, from public facts alone.

        Parameters
        ----------
        cell : CellProblem
        epsilon : Fraction
            The cell's loss.
        """

    def choose(self, cell: CellProblem, epsilon: Fraction) -> str:  # noqa: ARG002  here none
        """Return the choice that predicted errors make from public facts, as text; "" for none.

        Predictions differ between processors in their last digits, so that a plan stores its
        choices instead of making them again.
        """
        return ""

    def allocate_chosen(self, cell: CellProblem, epsilon: Fraction, choice: str) -> CellAllocation:
        """Return the allocation of one cell with a choice that `choose` made; its loss is ε.

        Raises
        ------
        InputError
            If this mechanism makes no such choice.
        """
        if choice:
            raise unknown_choice(self.name)
        return self.allocate_cell(cell, epsilon)

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> "CellPlan":
        """Return the public plan of one cell in value units, for a study.

        Parameters
        ----------
        counts : array_like of int, shape (n_users,)
            Samples per user, each >= 1. Public.
        bounds : pair of numbers
            Lower and upper bound of a value, in value units.
        epsilon : number
            The cell's loss.

        Raises
        ------
        InputError
            On counts below 1, reversed or infinite bounds, an epsilon not above zero.
        """
        cell, loss = study_cell(counts, bounds), to_positive_fraction(epsilon, "epsilon")
        return CellPlan(self.allocate_cell(cell, loss))

    @property
    def name(self) -> str:
        """As constructed, for tables."""
        itself: Any = self  # every mechanism is a data class
        options = []
        for field in dataclasses.fields(itself):
            value = getattr(self, field.name)
            text = f'"{value}"' if isinstance(value, str) else repr(value)
            if field.name in self.shown_by_position:
                options.append(text)
            elif field.name in self.shown_always or value != field.default:
                options.append(f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(options)})"

    def __repr__(self) -> str:
        return self.name


def unknown_choice(name: str) -> InputError:
    """Return the refusal of a choice that a mechanism never makes."""
    return InputError(f"the plan has a choice that {name} does not make; plan and save again.")


@dataclass(frozen=True, eq=False)
class CellPlan:
    """A mechanism's allocation of one cell, with its figures in value units.

    Attributes
    ----------
    allocation : CellAllocation
        Stages, and public facts such as the pseudo-users.
    """

    allocation: CellAllocation

    @property
    def cell(self) -> CellProblem:
        """Public facts of the cell."""
        return self.allocation.cell

    @property
    def epsilon(self) -> Fraction:
        """Loss of the whole release."""
        return self.allocation.epsilon

    @property
    def error(self) -> EstimateError:
        """Error of the estimate."""
        return self.allocation.error(self.cell.width)

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change.

        Where the noise is fitted to a range found privately: for the widest range.
        """
        return self.allocation.sensitivity(self.cell.width)

    @property
    def noise_scale(self) -> float:
        """Laplace scale, which is also the expected |noise|; the largest that can occur."""
        return self.error.scale

    @property
    def worst_case_bias(self) -> float | None:
        """Largest |expected estimate - true mean| over all values; None of private ranges."""
        return self.error.bias

    @property
    def worst_case_error(self) -> float | None:
        """Planning error: worst-case bias plus expected |noise|; None like `worst_case_bias`."""
        bias = self.worst_case_bias
        return None if bias is None else bias + self.noise_scale

    @property
    def bound95(self) -> float:
        """Error not exceeded with probability 95 percent, whatever the values."""
        return self.error.bound95

    def outputs(self, sums: PrivateSums, source: NoiseSource) -> Outputs:
        """Return the noisy integers of all stages: see `estimates`."""
        return execute(self.allocation, sums, source, MemoryJournal(), UNMETERED)

    def estimates(self, sums: PrivateSums, source: NoiseSource) -> Floats:
        """Return estimates in value units, one per data set or trial: see `CellProblem.sums`."""
        return self._in_value_units(self.allocation.estimate(self.outputs(sums, source)))

    def noiseless_estimates(self, sums: PrivateSums) -> Floats:
        """Return estimates before noise in value units, of a mechanism without private choices.

        Raises
        ------
        InputError
            If the mechanism makes private choices, so that there is no single such estimate.
        """
        measured = {}
        for stage in self.allocation.stages:
            # Without noise there are no outputs of earlier stages, which a second stage would need.
            (values,) = stage.measure(sums, Outputs())
            if len(self.allocation.stages) > 1 or not isinstance(values, Values):
                raise InputError("a mechanism that makes private choices has no single estimate.")
            measured[stage.name] = values.integers
        estimates = self._in_value_units(self.allocation.estimate(Outputs(measured)))
        # A cell that no stage reads has one estimate for all data sets.
        return np.asarray(np.broadcast_to(estimates, (len(sums.total),)))

    def estimate(self, user_means: ArrayLike, source: NoiseSource) -> float:
        """Return one estimate, for a study: of user means in the order of the counts."""
        return float(self.estimates(self.cell.sums(user_means), source)[0])

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return independent estimates with simulated noise, in value units.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,) or (trials, n_users)
            The same values in every trial, or values of each trial.
        generator : numpy.random.Generator
            Plain floating-point randomness: for study only.
        trials : int

        Returns
        -------
        ndarray of float, shape (trials,)
        """
        from hexveil.mechanisms.simulated_noise import SimulatedNoise  # noqa: PLC0415  a release never loads it

        sums = self.cell.sums(user_means)
        if len(sums.total) not in {1, trials}:
            raise InputError(
                f"one mean per user is needed ({self.cell.counts.size}), for all or for each of "
                f"{trials} trials."
            )
        estimates = self.estimates(sums, SimulatedNoise(generator, trials))
        return np.asarray(np.broadcast_to(estimates, (trials,)))

    def _in_value_units(self, estimates: Floats) -> Floats:
        return np.asarray(float(self.cell.lower) + float(self.cell.quantum) * estimates)
