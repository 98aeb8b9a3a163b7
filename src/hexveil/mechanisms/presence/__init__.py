"""Sums and sensitivities under private presence: one loss, which any unit can suffer.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: a unit moves all numbers of a noise request together by an L1 distance of at most `by`,
or by at most `by` in squares; whole-numbered, wherever its records lie.
Loss: Σ_g d_g / b_g <= by / min b for discrete Laplace noise of scales b_g, where Σ_g d_g <= by.
Of discrete Gaussian noise of parameters r_g: Σ_g d_g² / r_g² <= by / min r², as a square of μ
(`accounting.gaussian_composition`), where Σ_g d_g² <= by.
Source: the Laplace mechanism (Dwork, McSherry, Nissim and Smith, 2006), on integers; the discrete
Gaussian (Canonne, Kamath and Steinke, 2020).

Which units exist is private, so losses have a single entry: that of any unit, present or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from hexveil.accounting.moves import ULP, Currency, losses, quotient
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS, Promise, promised
from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import round_up
from hexveil.mechanisms.contract import DONE, NoisyTotals, Stage
from hexveil.mechanisms.sensitivity_report import SensitivityReport
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil.model.private_pairs import PrivatePairs

N_ACCOUNTS = 1
"""Entries of losses: "any unit"."""
DOWN = 1.0 - 16.0 * ULP
"""Less than the rounding of a loss."""


class PresenceSums(PrivateSums):
    """Sums of a release with private presence. PRIVATE, with its shape.

    It has no array of pairs that stages with public occupancy read, so those refuse it.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: PrivatePairs) -> None:
        self.pairs = pairs

    def map_cells(self, *_: object, **__: object) -> NoReturn:
        """Refuse: pairs of private presence are not mapped by public cells."""
        raise TypeError("sums with private presence have no public occupancy.")


def total_over_units(sums: PrivateSums, work: Callable[[PrivatePairs], Ints]) -> Ints:
    """Return the value of a function of all pairs; refuse sums of a public occupancy. PRIVATE."""
    if not isinstance(sums, PresenceSums):
        raise TypeError("a stage with private presence measures PresenceSums only.")
    return work(sums.pairs)


@dataclass(frozen=True)
class AnyUnit(SensitivityReport):
    """Sensitivity of numbers that any unit moves together by a limited distance.

    Attributes
    ----------
    by : int
        Largest sum of the moves, or of their squares; whole.
    power : 1 or 2
    """

    by: int
    power: int = 1
    of_choices: ClassVar[bool] = True

    @classmethod
    def of(cls, noise: NoiseLaw, weights: int = 1) -> AnyUnit:
        """Return that any unit contributes at most so many full weights, in the noise's norm."""
        return cls(weights * PARTS**noise.power, noise.power)

    def charge(self, scales: Floats, n_users: int, currency: Currency) -> Floats:
        """Return the loss of any unit, rounded down: see `SensitivityReport`."""
        if (currency is losses) != (self.power == 1):
            return np.full(n_users, np.inf)
        loss = np.array([self.by])
        for _ in range(self.power):
            loss = quotient(loss, np.array([scales.min()]))
        return np.full(n_users, loss * DOWN)


# ---- contributions ----

ENLARGED = 1.0 + 2.0**-20


class Norm:
    """Size of the priced records of a unit, within which its weights are limited: their sum.

    Weights of a unit add up to at most `PARTS`.
    """

    def weights(self, pairs: PrivatePairs, priced: Ints) -> Ints:
        """Return the weight of each pair, by its unit's size. PRIVATE.

        In whole numbers, without any rounding but their floor.
        """
        # At least 1: a unit whose cells are all closed has no priced records.
        divisor = np.maximum(pairs.per_unit(priced), 1)
        return np.asarray(PARTS * priced // pairs.of_unit(divisor))

    def count_weights(self, cell_cap: int, visited: Ints) -> Ints:
        """Return floor(P min(1, k / K)) in each of K cells, k of them counting fully. PRIVATE."""
        return np.asarray(PARTS * cell_cap // np.maximum(visited, cell_cap))


class RootOfSquares(Norm):
    """The root of the sum of squares: squares of weights add up to at most PARTS².

    A sum of at most 2^22 squares of doubles, in any order, and its root are off by a factor of at
    most 1 + 2^-29, and the quotient by 1 + 2^-51. The enlarged root makes up for all of it.
    """

    def weights(self, pairs: PrivatePairs, priced: Ints) -> Ints:
        """Return the floors of quotients of doubles. PRIVATE."""
        squares = pairs.per_unit(priced.astype(np.float64) ** 2)  # type: ignore[arg-type]
        divisor = np.maximum(np.sqrt(squares) * ENLARGED, 1)
        quotients = (PARTS * priced).astype(np.float64) / pairs.of_unit(divisor)
        return np.floor(quotients).astype(np.int64)

    def count_weights(self, cell_cap: int, visited: Ints) -> Ints:
        """Return w = floor(P min(1, √(k/K))) in each of K cells: K w² <= k P². PRIVATE.

        Roots of whole numbers below 2^52 are exact enough for their floor.
        """
        squares = PARTS**2 * cell_cap // np.maximum(visited, cell_cap)
        return np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64)


L1, L2 = Norm(), RootOfSquares()


def norm_of(law: NoiseLaw) -> Norm:
    """Return the norm in which a unit's contribution is limited under this noise."""
    return L1 if law.power == 1 else L2


def any_unit_stage(
    name: str, n_noised: int, law: NoiseLaw, work: Callable[[PrivatePairs], Ints], weights: int = 1
) -> NoisyTotals:
    """Return the stage of numbers that any unit moves together by so many full weights at most.

    `work` has public arrays alone: an executor is sent it, and no stage with all that is in it.
    """
    total = partial(total_over_units, work=work)
    return NoisyTotals(name, n_noised, law, AnyUnit.of(law, weights), total)


# ---- plans ----


class AnyUnitPlan:
    """Base of plans that promise as much to any unit, present or not: a `StagedPlan`."""

    epsilon: Fraction
    delta: Fraction
    form: Any

    @property
    def promise(self) -> Promise:
        """The loss of any unit; each stage has a share of it."""
        return promised(self.epsilon, self.delta)

    @property
    def law(self) -> NoiseLaw:
        """Noise of the numbers that are published, at their share of the loss."""
        return self.promise.part(self.form.map_share).noise()

    @property
    def coarse_law(self) -> NoiseLaw:
        """Noise of the coarse numbers."""
        return self.promise.part(self.form.coarse_share).noise()

    def losses(self) -> Floats:
        """Return the loss of any unit, shape (1,), in ε or as a square of μ, rounded up: booked."""
        return np.full(N_ACCOUNTS, round_up(self.promise.amount))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage after these outputs: see `StagedPlan`."""
        # Each stage is built from the outputs of those before it, so no further than the first
        # that has none of its own.
        return next((stage for stage in self.stages(earlier) if stage.name not in earlier), DONE)

    def opening(self, outputs: Outputs) -> float | None:
        """Return the noisy number, in parts, from which a cell is open; None without a test."""
        raise NotImplementedError

    def open_from(self, outputs: Outputs) -> float | None:
        """Return the same in units."""
        opening = self.opening(outputs)
        return None if opening is None else opening / PARTS

    def statement(self, outputs: Outputs) -> dict[str, Any]:  # noqa: ARG002  of most kinds
        """Return the entries of the manifest that this kind of map alone has."""
        return {}

    def stages(self, earlier: Outputs) -> Iterator[Stage]:
        """Yield all stages in order, each made of the outputs before it."""
        raise NotImplementedError
