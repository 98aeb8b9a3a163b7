"""ARRAY-AVERAGING: the average of the means of arrays of user means.

Source: IOT section III-C, RW section III; user means in the places as in IOT section IV-A.
The average is lo + Σ_l w_l (x̄_l - lo) with public weights w that sum to one: a user's places,
each divided by its array's samples and by the number of arrays. In integers user l contributes
floor(W s/m) with W = floor(2^26 w/max w), fewer bits where they would not fit 64, and the estimate
is (Σ + noise)/ΣW.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: W S, exactly (`linear_sum`); U max w of the estimate. At most U/K under either
grouping, where IOT prints 2U/K for WRAPAROUND (ERRATA 7).
Loss: ε for the user of largest weight, ε W/max W for the others.
Worst-case bias: U Σ max(m/N - w, 0), exact (ERRATA 8; IOT Lemma V.1 holds for full arrays only).
Rounding w to W and contributions down moves an estimate by less than 2^-24 U.

OPT-ARRAY-AVERAGING: BESTFIT arrays of the length that a worst-case error recommends.

Source: IOT and RW section VI. "minimax" minimises IOT eq. (15), which takes arrays as full, and
"minimax_std" RW eq. (4), where noise counts by its standard deviation (ERRATA 15); "surrogate"
minimises its convex stand-in of Lemma VI.2 as in ERRATA 6, rounded to the whole number of smaller
error, and "surrogate_printed" is the lemma's rule as printed, which misses that minimum.
Neighbours, integers, sensitivity, loss and bias: those of ARRAY-AVERAGING. The cap is computed
from public counts and ε, so it costs nothing: a rule that misses its minimum costs accuracy alone.

Readings of a cell: means of pseudo-users (arrays), and sums of users.

Source: IOT sections III-A and IV-A (every place of a user holds the mean of all its samples); caps
by `accounting.pseudo_user_caps`, groupings by `accounting.pseudo_users`.
Neighbours: one user's values all change within the bounds; users and counts are public, so a
grouping is too.

A piece is what one user has in one array. With G = 2^10 parts of a quantum, a user of m records and
sum s puts floor(G size s/m) into an array that holds `size` of its samples, and the array's value
is v = floor(Σ over its pieces / fill), a whole number from 0 to G S.
Sensitivity of v: a piece moves by at most G S size, and floor(x/fill) by at most
ceil(G S size/fill) when x moves by that: the reach of the piece. Arrays of other users do not move.
The sum of arrays clipped to a range of width w moves by at most Σ min(w, reach) over the user's
pieces: one piece under BESTFIT, up to two under WRAPAROUND (ERRATA 7).
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from hexveil.accounting import pseudo_user_caps
from hexveil.accounting.bias import linear_error
from hexveil.accounting.pseudo_users import PseudoUsers, best_fit, check_cap, wrap_around
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.single_cell import CellMechanism, CellProblem
from hexveil.mechanisms.single_cell.clipped_user_sums import LinearMean, LinearSum, weighted_share
from hexveil.mechanisms.stage_data import ROOM, TAIL, PrivateSums

GroupingRule = Literal["best_fit", "wrap_around"]
CapRule = Literal[
    "median", "sqrt", "minimax", "minimax_std", "surrogate", "surrogate_printed", "exact"
]

GROUPINGS = {"best_fit": best_fit, "wrap_around": wrap_around}
CAPS = get_args(CapRule)
CAP_RULES: dict[str, Callable[[Ints, Fraction], int]] = {
    "median": lambda counts, _: pseudo_user_caps.median_cap(counts),
    "sqrt": lambda counts, _: pseudo_user_caps.sqrt_cap(counts),
    "minimax": pseudo_user_caps.minimax_cap,
    "minimax_std": partial(pseudo_user_caps.minimax_cap, noise="std"),
    # A count, so that it is whole.
    "surrogate_printed": lambda n, _: int(pseudo_user_caps.surrogate_cap(n, rule="printed")),
    "exact": pseudo_user_caps.exact_cap,
}
"""Caps by all rules but "surrogate", of counts and the cell's loss."""

GRAIN = 2**10
"""G: parts of a quantum in which array means are counted."""


def check_rules(grouping: str, cap: str | int) -> None:
    """Raise InputError unless both are known and go together."""
    if grouping not in GROUPINGS:
        raise InputError(f'grouping must be "best_fit" or "wrap_around", got {grouping!r}.')
    if isinstance(cap, str):
        if cap not in CAPS:
            raise InputError(f"cap must be a whole number or one of {', '.join(CAPS)}; got {cap}.")
        if cap == "exact" and grouping != "best_fit":
            raise InputError('cap "exact" is the best for grouping "best_fit"; choose another.')
    else:
        check_cap(cap)


def group_users(
    counts: Ints, epsilon: Fraction, grouping: GroupingRule, cap: CapRule | int
) -> PseudoUsers:
    """Return the arrays of a cell by these rules.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_users,)
    epsilon : Fraction
        The cell's loss.
    grouping : {"best_fit", "wrap_around"}
    cap : str or int
        A rule of `CapRule`: "minimax_std" counts the noise by its standard deviation, as RW eq. (4)
        does; "surrogate_printed" is the rule of Lemma VI.2 as printed (ERRATA 6). "surrogate" takes
        the better of the rule's floor and ceiling, by worst-case error; "exact" tries
        the counts only if one is above 10,000, which would take minutes.

    Raises
    ------
    InputError
        If a whole cap is so large that WRAPAROUND fills no array.
    """
    place = GROUPINGS[grouping]
    if cap == "surrogate":
        real_cap = pseudo_user_caps.surrogate_cap(counts)
        options = [place(counts, c) for c in sorted({math.floor(real_cap), math.ceil(real_cap)})]
        return min(options, key=lambda g: linear_error(g.weights, counts, 1.0, epsilon))
    return place(counts, CAP_RULES[cap](counts, epsilon) if isinstance(cap, str) else cap)


@dataclass(frozen=True, eq=False)
class PseudoUserMeans:
    """Array means of a cell as integers: see the module's head.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_users,)
    span : int
        S.
    piece_user, piece_size, piece_array : ndarray of int64, shape (n_pieces,)
        Sorted by array.
    fill : ndarray of int64, shape (n_arrays,)
        Samples in each array.
    """

    counts: Ints
    span: int
    piece_user: Ints
    piece_size: Ints
    piece_array: Ints
    fill: Ints
    grain: ClassVar[int] = GRAIN

    @classmethod
    def from_grouping(cls, groups: PseudoUsers, counts: Ints, span: int) -> "PseudoUserMeans":
        """Return the reading of a grouping."""
        # Sorted by array once, so that measuring is a single pass.
        order = np.argsort(groups.piece_array, kind="stable")
        user, size = groups.piece_user[order], groups.piece_size[order]
        return cls(counts, span, user, size, groups.piece_array[order], groups.fill)

    @property
    def top(self) -> int:
        """Largest array mean, in quanta."""
        return self.span

    @property
    def size(self) -> int:
        """K, the number of arrays."""
        return self.fill.size

    @cached_property
    def key(self) -> Hashable:
        """Content: allocations of other ε with the same arrays share the integers."""
        columns = (self.counts, self.piece_user, self.piece_size, self.piece_array)
        return "pseudo-user means", self.span, *(column.tobytes() for column in columns)

    def values(self, sums: PrivateSums) -> Ints:
        """Return the array means, shape (batch, n_arrays). PRIVATE."""
        user = self.piece_user
        weight = GRAIN * self.piece_size
        pieces = weighted_share(weight, sums.total[:, user], self.counts[user], self.span)
        # Pieces of one array stand together, and no array is empty.
        begin = np.flatnonzero(np.diff(self.piece_array, prepend=-1))
        return np.asarray(np.add.reduceat(pieces, begin, axis=1) // self.fill)

    @cached_property
    def pieces(self) -> Ints:
        """Arrays that each user has samples in."""
        return np.bincount(self.piece_user, minlength=self.counts.size)

    @cached_property
    def reach(self) -> Ints:
        """Largest change of an array by the user of each piece."""
        return np.asarray(-(-GRAIN * self.span * self.piece_size // self.fill[self.piece_array]))

    def user_sensitivity(self, width: int) -> Ints:
        """Return each user's largest change of the sum of values clipped to a range so wide."""
        total = np.zeros(self.counts.size, dtype=np.int64)
        np.add.at(total, self.piece_user, np.minimum(width, self.reach))
        return total

    def max_sensitivity(self, width: Ints) -> Ints:
        """Return the largest change of any user for ranges of these widths."""
        if self.pieces.max() == 1:  # min(width, reach) grows with the reach
            return np.asarray(np.minimum(width, self.reach.max()))
        # Trials find few different widths; each costs a pass over the users.
        distinct, index = np.unique(width, return_inverse=True)
        largest = np.array([self.user_sensitivity(int(w)).max() for w in distinct], dtype=np.int64)
        return np.asarray(largest[index])


@dataclass(frozen=True, eq=False)
class UserSums:
    """Sums of users as they are, in quanta above the lower bound: user l moves its own alone."""

    counts: Ints
    span: int
    grain: ClassVar[int] = 1

    @property
    def top(self) -> int:
        """Largest sum there can be."""
        return self.span * int(self.counts.max())

    @property
    def size(self) -> int:
        """Number of users."""
        return self.counts.size

    @property
    def key(self) -> Hashable:
        """The same integers for every allocation of a cell."""
        return "user sums"

    def values(self, sums: PrivateSums) -> Ints:
        """Return the sums, shape (batch, n_users). PRIVATE."""
        return sums.total

    @property
    def pieces(self) -> Ints:
        """One sum per user."""
        return np.ones_like(self.counts)

    def user_sensitivity(self, width: int) -> Ints:
        """Return each user's largest change of the sum of values clipped to a range so wide."""
        return np.minimum(width, self.span * self.counts)

    def max_sensitivity(self, width: Ints) -> Ints:
        """Return the largest change of any user for ranges of these widths."""
        return np.minimum(width, self.top)


RangeReading: TypeAlias = PseudoUserMeans | UserSums
"""Integers from 0 to grain times `top`, in parts of a quantum, that can be clipped to a range."""


WEIGHT_BITS = 26
"""The largest weight is 2^26, unless sums or noise would not fit 64 bits."""


def integer_weights(weights: Floats, span: int, epsilon: Fraction) -> Ints:
    """Return W, from public weights w: 2^26 for the largest, fewer bits if that does not fit.

    Examples
    --------
    >>> from fractions import Fraction
    >>> integer_weights(np.array([0.5, 0.25]), 8, Fraction(1)).tolist() == [2**26, 2**25]
    True
    """
    relative = weights / weights.max()
    # Both the sum and its noise grow with the weights, and must stay within the room.
    room = ROOM / (span * (float(relative.sum()) + TAIL / float(epsilon)))
    bits = max(min(WEIGHT_BITS, math.floor(math.log2(room))), 0)
    return np.asarray(np.floor(relative * 2.0**bits), dtype=np.int64)


@dataclass(frozen=True, repr=False)
class ArrayAveraging(CellMechanism):
    """The average of array means plus Laplace noise of scale U max w / ε.

    Parameters
    ----------
    grouping : {"best_fit", "wrap_around"}
        BESTFIT keeps a user's samples together; WRAPAROUND fills every array (IOT section III-A).
    cap : str or int
        Length of an array: "median" (IOT), "sqrt" (IOT eq. (9)), "minimax" (IOT eq. (15)),
        "minimax_std" (RW eq. (4): noise by its standard deviation), "surrogate" (Lemma VI.2 as in
        ERRATA 6), "surrogate_printed" (its rule as printed), "exact" (the least worst-case error of
        BESTFIT), or a number of samples.

    Raises
    ------
    InputError
        If a word is unknown, a cap is below 1, or "exact" is asked of WRAPAROUND.

    Examples
    --------
    >>> plan = ArrayAveraging(cap="sqrt").plan([9, 4, 1, 1], bounds=(0, 8), epsilon=1)
    >>> plan.allocation.groups.cap, plan.allocation.groups.n_arrays, plan.noise_scale
    (4, 3, 2.6666666666666665)
    """

    shown_always = ("grouping", "cap")

    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "median"

    def __post_init__(self) -> None:
        check_rules(self.grouping, self.cap)

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> LinearMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        groups = group_users(cell.counts, epsilon, self.grouping, self.cap)
        # Whole weights are public, and the estimate divides by their sum: they add no bias.
        weight = integer_weights(groups.weights, cell.span, epsilon)
        ends = np.zeros_like(weight), weight * cell.span
        stage = LinearSum("mean", cell.counts, weight, *ends, cell.span, epsilon)
        return LinearMean(cell, epsilon, (stage,), int(weight.sum()), groups=groups)


Objective = Literal["minimax", "minimax_std", "surrogate", "surrogate_printed"]


@dataclass(frozen=True, repr=False)
class OptArrayAveraging(CellMechanism):
    """ArrayAveraging under BESTFIT, its cap chosen by worst-case error.

    Parameters
    ----------
    objective : {"minimax", "minimax_std", "surrogate", "surrogate_printed"}
        Error that the cap minimises: IOT eq. (15), RW eq. (4), Lemma VI.2; or the rule that
        Lemma VI.2 prints.

    Raises
    ------
    InputError
        If the objective is another word.

    Examples
    --------
    >>> plan = OptArrayAveraging().plan([6, 4, 3, 1], bounds=(0, 8), epsilon=2)
    >>> plan.allocation.groups.cap, plan.noise_scale
    (6, 1.3333333333333333)
    """

    shown_always = ("objective",)

    objective: Objective = "minimax"

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            objectives = ", ".join(get_args(Objective))
            raise InputError(f"objective must be one of {objectives}; got {self.objective!r}.")

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> LinearMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        return ArrayAveraging("best_fit", self.objective).allocate_cell(cell, epsilon)
