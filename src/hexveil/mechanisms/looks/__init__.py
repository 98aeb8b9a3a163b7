"""Looks at values: kinds of clipping, a class each, with their stages and the loss of these.

A kind states checks of numbers that a stranger may have written, how far users move its numbers,
its errors, the stages of a release, and what a release adds to it.

Loss: the moves of the stages in the noise that is drawn, added up and rounded up
(accounting/moves.py). A release books exactly these numbers, and its meter adds the same terms up
again from the scales that go to the noise library. Where a range is chosen privately the cells cost
the same in every range (`weighted_mean`, `cell_ranges`), and the choices cost all users alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.moves import Currency, PairMoves, currency_of
from hexveil.accounting.promise import Promise, of_amount
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import stage_data
from hexveil.mechanisms.contract import Stage
from hexveil.mechanisms.looks.clipped_mean import CellLattice
from hexveil.mechanisms.looks.weighted_mean import weighted_moves
from hexveil.mechanisms.pooled_law import MeanView
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import Weights
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.request import ClippingRangeMode, Request

Planned: TypeAlias = Any
"""What is planned of a value column: a `MomentComponent` (planning/), which imports kinds."""
Rows = TypeVar("Rows", bound=PlanAllocation)
Shown = Callable[[Fraction], str]


class ReleaseAllocation(ReadOnlyArrays):
    """Base of the stages of a plan, on the lattice of the records.

    Attributes
    ----------
    booked : ndarray of float, shape (n_users,)
        Loss of each user on the worst path of outputs, or its square of μ, rounded up.
    """

    booked: Floats

    def losses(self) -> Floats:
        """Return each user's privacy loss on the worst path of outputs, rounded up: booked."""
        return self.booked

    def next_stage(self, earlier: stage_data.Outputs) -> Stage | None:
        """Return the stage after these outputs."""
        raise NotImplementedError

    def check_release(self, epsilon: float, *, has_squares: bool) -> None:
        """Refuse, from public facts, statistics that cannot be computed or noised as stated.

        Raises
        ------
        InputError
            If weights or noise would not have the stated loss, bounds are not the records', a
            variance has no sums of squares, or numbers could leave 64 bits.
        """

    def numbers(self, outputs: stage_data.Outputs) -> dict[str, Ints]:  # noqa: ARG002  of ranges
        """Return the last noisy integer of each cell, by statistic, which a range may cut off."""
        return {}

    def decode(self, outputs: stage_data.Outputs) -> tuple[stage_data.Decoded, ...]:
        """Return the published statistics."""
        raise NotImplementedError

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, stage_data.EstimateGrid]:
        """Return where published numbers can lie, by statistic."""
        raise NotImplementedError

    def view(self, outputs: stage_data.Outputs) -> MeanView | None:  # noqa: ARG002  of private ranges
        """Return what a posterior of means before clipping is made of; None where there is none."""
        return None


@dataclass(frozen=True)
class PrivateStep:
    """A step of a release that looks at values, as its manifest lists it.

    Attributes
    ----------
    name : str
    cost : Fraction
        Largest cost to a user, in the currency of the promise.
    outputs : mapping
        What it released, and what it was for; exact numbers are an epsilon, to be rounded up.
    """

    name: str
    cost: Fraction
    outputs: Mapping[str, Any]


class ClippingKind(ReadOnlyArrays):
    """Base of kinds of clipping; nothing outside asks which kind one is."""

    mode: ClassVar[ClippingRangeMode | Literal["remembered"]]
    has_stages: ClassVar[bool] = False
    """Whether every cell has stages of a mechanism of one cell."""
    strategy: ClassVar[str] = ""
    """How a range is found, as in the manifest; "" within public bounds."""
    basis: ClassVar[str] = "prediction"
    """What planning errors are."""
    borrows: ClassVar[bool] = False
    """Whether estimates of means borrow from the whole map already."""

    def fits(self, occupancy: Occupancy) -> bool:  # noqa: ARG002  of kinds with arrays
        """Return whether its arrays are those of these cells and users."""
        return True

    def check_plan(self, rows: PlanAllocation, occupancy: Occupancy, request: Request) -> None:
        """Refuse numbers that no such plan has: a stranger may have written them.

        Raises
        ------
        InputError
        """

    def error_models(self, problem: PlanningProblem, rows: PlanAllocation) -> dict[str, ErrorModel]:
        """Return the error model of each noised statistic, by its name."""
        models = {"mean": self.mean_error, "variance": self.variance_error}
        return {name: models[name](problem, rows) for name in problem.request.noised}

    def mean_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the means."""
        raise NotImplementedError

    def variance_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:  # noqa: ARG002
        """Return the error model of the variances; refuse them where there are none."""
        raise misfit()

    def shared(self, delta: Fraction) -> Promise:
        """Return the part that every user spends beside the cells, on the map as a whole."""
        return of_amount(Fraction(0), delta)

    def losses(self, problem: PlanningProblem, rows: PlanAllocation) -> Any:  # noqa: ANN401  with the methods of `StatedLosses`
        """Return the losses of the plan, in the currency of its promise."""
        raise NotImplementedError

    def stages(self, plan: Planned, scale: ValueLattice) -> ReleaseAllocation:
        """Return the stages of the plan on the lattice of the records.

        Raises
        ------
        InputError
            If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
            cell keeps records without noise.
        """
        raise NotImplementedError

    def with_outputs(self, stages: Any, outputs: stage_data.Outputs) -> Self:  # noqa: ANN401, ARG002  its own
        """Return the same with the outputs of its private stages."""
        return self

    def restored(self, problem: PlanningProblem, allocation: Rows) -> Rows:  # noqa: ARG002
        """Return the allocation of a saved plan of this kind: what was not saved is made anew."""
        return allocation

    # ---- what a release states ----

    def steps(self, plan: Planned, total: Fraction) -> list[PrivateStep]:  # noqa: ARG002
        """Return the steps that look at values, and all that they cost together."""
        return [PrivateStep("cells", total, {})]

    def cell_entries(self, plan: Planned) -> dict[str, list[Any]]:  # noqa: ARG002
        """Return the statements of a manifest on each cell, by name."""
        return {}

    def words(self, plan: Planned, price: Shown, part: Shown) -> str:  # noqa: ARG002
        """Return the assumptions of a private range; "" without one.

        An epsilon has a price, and an amount of the promise's currency a part of all.
        """
        return ""

    def names(self) -> list[str]:
        """Return the name of the mechanism of each cell; none where all have the plan's."""
        return []

    def cut_off(self, plan: Planned, numbers: Mapping[str, Ints]) -> dict[str, stage_data.CutOff]:  # noqa: ARG002
        """Return the cells that a released range cuts off, by statistic, from noisy integers."""
        return {}


@dataclass(frozen=True, eq=False)
class StatedLosses:
    """Losses by the moves of one stage, and by choices for the whole map.

    Attributes
    ----------
    moves : PairMoves
    promise : Pure or Squares
        What every user spends beside the cells.
    cell_epsilon : Fraction or None
        The loss of one cell, where every cell has the same and nothing is spent beside them.
    """

    moves: PairMoves
    promise: Promise
    cell_epsilon: Fraction | None = None

    @property
    def _currency(self) -> Currency:
        return currency_of(self.promise.law)

    def _with_shared(self, losses: Floats) -> Floats:
        shared = round_up(self.promise.amount)
        return np.nextafter(losses + shared, np.inf) if shared else losses

    def per_user(self) -> Floats:
        """Return the booking of each user, rounded up: ε, or a square of μ under a δ."""
        return self._with_shared(self.moves.per_user(self._currency, up=True))

    def per_pair(self) -> Floats:
        """Return the loss of each pair, not yet rounded up; pairs must be at hand."""
        self.moves.occupancy.local()  # refuses others, and says what to do
        return self.moves.per_pair(self._currency)

    def counted(self) -> Fraction | float:
        """Return the loss that counting cells claims: each cell's largest, for all its users."""
        if self.cell_epsilon is not None:
            return self.cell_epsilon * int(self.moves.charged_cells().max(initial=0))
        claimed = self._with_shared(self.moves.claimed(self._currency))
        largest = Fraction(float(claimed.max(initial=0.0)))
        return float(of_amount(largest, self.promise.delta).epsilon)


# ---- what kinds with weights share ----


def weighted_losses(
    occupancy: Occupancy, weight: Weights, noises: tuple[Floats, ...], shared: Promise
) -> StatedLosses:
    """Return the losses of weighted numbers in a range of width 1: noise grows with the width."""
    width = np.ones(occupancy.n_cells, dtype=np.int64)
    numbers = tuple(weighted_moves(weight, width, noise * weight.totals) for noise in noises)
    return StatedLosses(PairMoves(occupancy, numbers), shared)


def stated_ranges(
    plan: Planned, steps: int, lower: Ints, upper: Ints, moved: Bools
) -> dict[str, list[Any]]:
    """Return the clipping range of each cell in value units, as a manifest states it."""
    bounds = float(plan.lower[0]), float(plan.span[0])
    low, high = (
        [stage_data.to_value_units(end, steps, *bounds) for end in ends.tolist()]
        for ends in (lower, upper)
    )
    cells = zip(low, high, moved.tolist(), strict=True)
    stated = [{"lower": one, "upper": other, "moved": own} for one, other, own in cells]
    return {"clipping_range": stated}


# ---- checks ----


def misfit() -> InputError:
    """Return the refusal of a plan of another kind than was requested."""
    return InputError("its interval and its request do not fit together.")


def lattice_of(plan: Planned, scale: ValueLattice) -> CellLattice:
    """Return where the plan's cells stand on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, or a sum could leave 64 bits.
    """
    most = int(plan.problem.occupancy.records_per_cell.max())
    # Sums are counted in half quanta, and noise needs room beside them.
    if 4 * scale.span_quanta * most >= stage_data.ROOM:
        raise InputError(
            f"a cell of {most} records on a lattice of {scale.span_quanta} steps does not fit "
            "whole numbers of 64 bits; use a coarser quantum."
        )
    lower, upper = float(plan.lower[0]), float(plan.upper[0])
    if (plan.lower != lower).any() or (plan.upper != upper).any():
        raise InputError("the plan has cells with bounds of their own; plan again.")
    low, high = scale.to_quanta(lower, "lower bound"), scale.to_quanta(upper, "upper bound")
    return CellLattice(low, high - low, scale.span_quanta, lower, float(scale.quantum))
