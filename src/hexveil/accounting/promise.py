"""A promise: an exact amount of one currency, which divides, buys noise, and has an ε.

`Pure` is an amount of ε, and `Squares` an amount of μ² at a δ. Whoever divides a loss, or chooses
the noise for a share of it, asks the promise.

Neighbours: decided by the caller.
Loss: pure losses Σ moved / scale add up over stages. Squares of μ, Σ moved² / scale² with their
lattice term, add up as well, also over stages that earlier outcomes chose; a purely ε-private stage
has the square of that loss (accounting/gaussian_composition.py, with proof and source). With p the
power of the law, a stage that a unit moves by n full weights of P = 2^20 parts, n P^p in Σ moved^p,
gets noise of scale (n P^p / amount)^(1/p), rounded up, and costs the amount.
Division: errors fall about as amount^(-1/p), so that Σ w e / x^(1/p) is least, given Σ x, where x
is as (w e)^(p/(p+1)).
Rounding: amounts are exact and parts of a whole add up to it; an ε to be planned with is rounded
down, one that is stated up.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self, TypeAlias

import numpy as np

from hexveil.accounting import gaussian_composition
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, Gaussian, Laplace, NoiseLaw
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up

PARTS = 2**20
"""Whole-number parts of a unit's full weight, of all its votes, and of the span of the bounds."""
MAX_SCALE = Fraction(2**51)
"""Largest noise scale. Below it noise leaves room in 64 bits for the weight of 2^32 units, so that
the noise door never refuses a release for its records."""
RESOLUTION, DECIMALS = 2**40, 10**12
"""Parts of ε are rounded down to one of these; the first leaves room for sums of doubles."""
KEPT = 1 - Fraction(1, 2**26)
"""Share of a square that is planned with: sums of rounded squares stay within the whole."""
SMALLEST = 0.1
"""Share of a part of least need, times the number of parts."""
STEPS = 32
"""Shares are multiples of 1 / (32 times the number of parts)."""


@dataclass(frozen=True)
class _Amount:
    """An amount of either currency.

    Attributes
    ----------
    amount : Fraction
    """

    amount: Fraction
    law: ClassVar[NoiseLaw]

    def part(self, share: Fraction) -> Self:
        """Return a part of it, exactly."""
        return replace(self, amount=self.amount * share)

    def divide(self, weights: Sequence[Fraction], errors: Sequence[float]) -> list[Fraction]:
        """Return each part's share, of least weighted sum of predicted errors.

        Parameters
        ----------
        weights : sequence of Fraction
            Importance of each part.
        errors : sequence of float
            Predicted error of each part at the same amount, without a unit of measure.

        Examples
        --------
        >>> weights, errors = [Fraction(1), Fraction(4)], [0.5, 0.5]
        >>> [str(share) for share in Pure(Fraction(1)).divide(weights, errors)]
        ['21/64', '43/64']
        >>> [str(share) for share in Squares(Fraction(1), Fraction(0)).divide(weights, errors)]
        ['9/32', '23/32']
        """
        exponent = self.law.power / (self.law.power + 1.0)
        sizes = [
            (float(weight) * max(error, 1e-9)) ** exponent
            for weight, error in zip(weights, errors, strict=True)
        ]
        ideal = np.array(sizes) / sum(sizes)
        shares = np.maximum(ideal, SMALLEST / ideal.size)
        # What the smallest gained is the largest's loss: shares are of one whole.
        shares[np.argmax(ideal)] -= float(shares.sum() - 1.0)
        steps = STEPS * ideal.size
        later = [Fraction(round(share * steps), steps) for share in shares[1:].tolist()]
        return [1 - sum(later, Fraction(0)), *later]


@dataclass(frozen=True)
class Pure(_Amount):
    """ε-differential privacy; the amount is ε."""

    law: ClassVar[NoiseLaw] = LAPLACE
    delta: ClassVar[Fraction] = Fraction(0)

    @property
    def epsilon(self) -> Fraction:
        """Return ε."""
        return self.amount

    @property
    def planned(self) -> Fraction:
        """The ε to plan with, rounded down so that sums of losses in doubles stay within it."""
        return _step_down(self.amount)

    def epsilons(self, shares: Sequence[Fraction]) -> list[Fraction]:
        """Return the ε of parts, which add up to it exactly, all but the first of 12 decimals.

        As texts of 12 decimals, rounded up, they then add up exactly, too.

        Examples
        --------
        >>> [str(one) for one in Pure(Fraction(1)).epsilons([Fraction(3, 4), Fraction(1, 4)])]
        ['3/4', '1/4']
        """
        later = [Fraction(math.floor(one * self.amount * DECIMALS), DECIMALS) for one in shares[1:]]
        return [self.amount - sum(later, Fraction(0)), *later]

    def share_worth(self, epsilon: Fraction, stages: int) -> Fraction:  # noqa: ARG002  see Squares
        """Return the share that purely private stages of this ε together cost."""
        return epsilon / self.amount

    def choices(self, number: int = gaussian_composition.CHOICES) -> Fraction:  # noqa: ARG002  see Squares
        """Return the ε that choices may cost together: all of it."""
        return self.amount

    def noise(self, weights: int = 1) -> Laplace:
        """Return the noise of numbers that a unit moves by so many full weights, in parts.

        Raises
        ------
        InputError
            If noise of that scale could leave 64 bits, whatever the records are.

        Examples
        --------
        >>> Pure(Fraction(1, 2)).noise().scale == 2 * PARTS
        True
        """
        scale = weights * PARTS / self.amount
        if scale > MAX_SCALE:
            raise InputError(
                "epsilon is too small: its noise could leave the range of 64-bit integers. Ask for "
                "a larger epsilon, or for fewer cells per unit."
            )
        return Laplace(round_up(scale))

    def laplace_epsilon(self, weights: int = 1) -> Fraction:  # noqa: ARG002  see Squares
        """Return the ε at which Laplace noise deviates as the noise of this does: its own."""
        return self.amount

    @staticmethod
    def laplace_amount(epsilon: Fraction, weights: int = 1) -> Fraction:  # noqa: ARG004  see Squares
        """Return its own amount: the noise deviates as Laplace noise of this ε."""
        return epsilon

    @staticmethod
    def noise_share(share: Fraction) -> Fraction:
        """Return the divisor of the noise of all of it for a share: the share."""
        return share

    @staticmethod
    def losses(booked: Floats) -> Floats:
        """Return the ε of many units from their bookings."""
        return booked


@dataclass(frozen=True)
class Squares(_Amount):
    """(ε, δ)-differential privacy; the amount is a square of μ.

    Attributes
    ----------
    delta : Fraction
    """

    delta: Fraction
    law: ClassVar[NoiseLaw] = GAUSSIAN

    @property
    def epsilon(self) -> Fraction:
        """ε at δ, rounded up."""
        return Fraction(gaussian_composition.square_epsilon(self.amount, self.delta))

    @property
    def planned(self) -> Fraction:
        """The ε at δ to plan with, rounded down.

        Examples
        --------
        >>> whole = promised(Fraction(1), Fraction("1e-6"))
        >>> half = promised(whole.part(Fraction(1, 2)).planned, Fraction("1e-6"))
        >>> bool(2 * half.amount <= whole.amount), round(float(half.epsilon), 2)
        (True, 0.69)
        """
        return self._rounded(_step_down)

    def _rounded(self, cut: Callable[[float], Fraction]) -> Fraction:
        """Return an ε within the amount, rounded down by a function."""
        target = self.amount * KEPT
        epsilon = cut(gaussian_composition.square_epsilon(target, self.delta))
        while gaussian_composition.calibrated_square(epsilon, self.delta) > target:
            epsilon = cut(float(epsilon) * (1.0 - 1e-8))
        return epsilon

    def epsilons(self, shares: Sequence[Fraction]) -> list[Fraction]:
        """Return the ε of parts in digits that processors agree on; squares add up to the whole."""
        return [self.part(share)._rounded(gaussian_composition.cut_digits) for share in shares]  # noqa: SLF001  its own

    def choices(self, number: int = gaussian_composition.CHOICES) -> Fraction:
        """Return the ε that choices of equal loss, purely private, may cost together."""
        return number * gaussian_composition.pure_of_square(self.amount / number)

    def share_worth(self, epsilon: Fraction, stages: int) -> Fraction:
        """Return the share that stages of equal loss cost, purely private at ε together."""
        each = gaussian_composition.square_of_pure(float(epsilon / stages))
        return Fraction(gaussian_composition.cut_digits(stages * each / float(self.amount)))

    def noise(self, weights: int = 1) -> Gaussian:
        """Return the noise of numbers that a unit moves by the root of so many full weights.

        Raises
        ------
        InputError
            If noise of that scale could leave 64 bits, whatever the records are.

        Examples
        --------
        >>> round(promised(Fraction(1), Fraction("1e-6")).noise(2).scale / PARTS, 2)
        5.98
        """
        variance = weights * PARTS**2 / self.amount
        if variance > MAX_SCALE**2:
            raise InputError(
                "epsilon is too small for this delta: its noise could leave the range of 64-bit "
                "integers. Ask for a larger epsilon."
            )
        deviation = math.nextafter(math.sqrt(round_up(variance)), math.inf)
        # The lattice term is proved for parameters from 1 on.
        return Gaussian(max(deviation, gaussian_composition.MIN_DEVIATION))

    def laplace_epsilon(self, weights: int = 1) -> Fraction:
        """Return the ε at which Laplace noise deviates as the noise of this does."""
        return Fraction(weights * math.sqrt(2.0) / (self.noise(weights).scale / PARTS))

    @staticmethod
    def laplace_amount(epsilon: Fraction, weights: int = 1) -> Fraction:
        """Return the amount with noise that deviates as Laplace noise of this ε."""
        return epsilon**2 / (2 * weights)

    @staticmethod
    def noise_share(share: Fraction) -> Fraction:
        """Return the divisor of the noise of all of it for a share: its root, rounded down.

        Examples
        --------
        >>> round(float(Squares.noise_share(Fraction(9, 100))), 9)
        0.3
        """
        square = share.numerator * RESOLUTION**2 // share.denominator
        return Fraction(math.isqrt(square), RESOLUTION)

    def losses(self, booked: Floats) -> Floats:
        """Return the ε at δ of many units from their bookings, for figures."""
        return gaussian_composition.epsilons_of_squares(booked, self.delta)


Promise: TypeAlias = Pure | Squares


def _step_down(epsilon: Fraction | float) -> Fraction:
    """Return ε rounded down to a step of the resolution, by one step at least."""
    # At least one step less: the sum of rounded parts must stay below the ε asked for.
    steps = math.floor(epsilon * RESOLUTION) - 1
    if steps < 1:
        raise InputError("epsilon is too small to be divided; ask for a larger one.")
    return Fraction(steps, RESOLUTION)


def promised(epsilon: Fraction, delta: Fraction) -> Promise:
    """Return the promise of ε, or of (ε, δ) with δ above 0, its square rounded down.

    Raises
    ------
    InputError
        If so little is asked for that nothing could be measured.
    """
    return (
        Squares(gaussian_composition.calibrated_square(epsilon, delta), delta)
        if delta
        else Pure(epsilon)
    )


def check_units(delta: Fraction, n_units: int) -> None:
    """Refuse a δ, above 0, that would allow to publish one of so many units outright.

    Raises
    ------
    InputError
        If δ is not below 1 over their number.
    """
    if delta:
        gaussian_composition.check_delta(float(delta), n_units)


def summed(epsilons: Iterable[Fraction], delta: Fraction) -> Promise:
    """Return the promise of parts with these ε together, all at one δ.

    Examples
    --------
    >>> round(float(summed([Fraction(1, 2)] * 2, Fraction("1e-6")).epsilon), 2)
    0.72
    """
    parts = (promised(epsilon, delta).amount for epsilon in epsilons)
    return of_amount(sum(parts, Fraction(0)), delta)


def of_amount(amount: Fraction, delta: Fraction) -> Promise:
    """Return the promise of an amount of ε, or of squares of μ with δ above 0."""
    return Squares(amount, delta) if delta else Pure(amount)


def choices_worth(
    epsilon: Fraction, delta: Fraction, choices: int = gaussian_composition.CHOICES
) -> Promise:
    """Return the cost of choices of equal loss that are purely ε-private together."""
    return of_amount(
        Fraction(gaussian_composition.range_square(epsilon, choices)) if delta else epsilon, delta
    )
