"""Public metadata of a data set: all that a plan may see.

`PublicMetadata` is what crosses from the private side to the public side. It is built from users,
places, times and counts alone; it holds no value and no user id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, decimal_text, to_bounds, to_fraction, to_positive_fraction
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.cells import Cells, CellTable, Labels
from hexveil.model.occupancy import Occupancy

Unit = Literal["user", "user-day", "user-week"]
MAX_QUANTA = 2**52
"""Largest distance, in quanta, of the bounds from 0 and from each other: larger numbers would
leave no room for sums, nor be exact as doubles."""
MAX_QUANTUM_TERM = 10**100
"""A quantum's numerator and denominator are at most this, see `ValueLattice`."""
UNITS: tuple[Unit, ...] = ("user", "user-day", "user-week")


@dataclass(frozen=True)
class ValueLattice:
    """Bounds and quantum of the value column: the public lattice on which sums are kept.

    A value is kept as the whole number (value - lower) / quantum, from 0 to `span_quanta`.

    No value can cause an error: with quantum a / b in lowest terms, a value x is clamped to the
    bounds as a double and becomes x * b / a. a and b are at most 10^100, and the bounds at most
    2^52 quanta from 0 and from each other, so that |x b| < 10^217; a sum of up to 2^53
    values times a, and one of squares times a twice, are below 10^250; the smallest number that is
    not 0 in between is above 10^-250. So no product leaves the doubles, nor becomes 0, whatever
    the value, and a whole number of quanta fits 64 bits.

    Attributes
    ----------
    lower, upper, quantum : Fraction
        In value units; both bounds are multiples of the quantum.
    """

    lower: Fraction
    upper: Fraction
    quantum: Fraction

    def __post_init__(self) -> None:
        if max(self.quantum.numerator, self.quantum.denominator) > MAX_QUANTUM_TERM:
            raise InputError(
                "quantum must be a number of ordinary size: as a fraction in lowest terms, its "
                "numerator and denominator have at most 100 digits."
            )
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if (bound / self.quantum).denominator != 1:
                raise InputError(
                    f"the {name} bound {decimal_text(bound)} is not a multiple of the quantum "
                    f"{decimal_text(self.quantum)}; change one of them."
                )
        # Distances from 0 count as well: a value is rounded to quanta from 0 before the bound is
        # taken off.
        if max(-self.lower, self.upper, self.span) > MAX_QUANTA * self.quantum:
            raise InputError(
                f"quantum {decimal_text(self.quantum)} is too fine for these bounds: sums "
                "could overflow; use a coarser quantum."
            )

    def check(self) -> None:
        """Refuse bounds that do not rise: a stranger may have written them."""
        if self.lower >= self.upper:
            raise InputError("the bounds of its values do not rise.")

    @classmethod
    def of(cls, bounds: object, quantum: Number) -> "ValueLattice":
        """Build a lattice from bounds and quantum as written by a caller."""
        lower, upper = to_bounds(bounds)
        return cls(lower, upper, to_positive_fraction(quantum, "quantum"))

    @property
    def span(self) -> Fraction:
        """Width of the bounds (U), in value units."""
        return self.upper - self.lower

    @property
    def span_quanta(self) -> int:
        """Width of the bounds in quanta."""
        return int(self.span / self.quantum)

    def to_quanta(self, value: Number, name: str) -> int:
        """Return a bound inside this scale in quanta above `lower`; refuse one off the lattice."""
        steps = (to_fraction(value, name) - self.lower) / self.quantum
        # Exact: a bound between two quanta would be rounded differently here and in the sums.
        if steps.denominator != 1 or not 0 <= steps <= self.span_quanta:
            raise InputError(
                f"{name} {value} must be a multiple of the quantum {decimal_text(self.quantum)} "
                f"within the bounds [{decimal_text(self.lower)}, {decimal_text(self.upper)}] "
                "the records were read with."
            )
        return int(steps)


class Recount(Protocol):
    """Counts the same records on another grid or for another privacy unit."""

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> "Iterable[PublicMetadata | None]":
        """Return the public facts on each grid; None where no cell is left after selection.

        Perhaps one after another, as they are asked for: whoever keeps none of them needs the
        memory of one. Places are counted on `Cells`; labels on `Labels` of some of the columns they
        were read by.
        """


REPEATS = "repeats of a user and time"
"""The rule that leaves out repeats, in `PublicMetadata.rules`."""
FEW_REPEATS = 0.03
"""Share of records up to which repeats are no reason to look at the times."""


def many_repeats(rules: Mapping[str, int]) -> tuple[int, int] | None:
    """Return how many of how many records repeats are; None where they are few, or kept."""
    if REPEATS not in rules:
        return None
    earlier_rules = list(rules)[1 : list(rules).index(REPEATS)]
    records = rules["records read"] - sum(rules[name] for name in earlier_rules)
    return (rules[REPEATS], records) if rules[REPEATS] > FEW_REPEATS * records else None


@dataclass(frozen=True, eq=False)
class PublicMetadata:
    """Public metadata of a data set; using it costs no privacy.

    Attributes
    ----------
    occupancy : Occupancy
    cells : CellTable
    lattice : ValueLattice
    privacy_unit : str
        The privacy unit; `occupancy` numbers these units as its users.
    value, value_unit : str
        Name of the value column, and its unit of measure ("" if not said).
    rules : mapping of str to int
        How many records each public rule left out or kept, in order.
    identity : mapping of str to str
        The public request: source names as configured, columns, repeats, selection, version.
    recount : Recount or None
        None where the records are not at hand: sums made elsewhere, saved plans.
    bins : FineBins or None
        Bins in which records were counted, for statistics of distributions; None without any.
    id_space : str
        Name of what an id names, which an account pins; "" if not known.
    """

    occupancy: Occupancy
    cells: CellTable
    lattice: ValueLattice
    privacy_unit: Unit = "user"
    value: str = "value"
    value_unit: str = ""
    rules: Mapping[str, int] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)
    recount: Recount | None = field(default=None, repr=False)
    bins: "FineBins | None" = field(default=None, repr=False)
    id_space: str = ""


@dataclass(frozen=True, eq=False)
class FineBins(ReadOnlyArrays):
    """Bins (a, b] that divide the span of the bounds.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_bins,)
        Rising. Bin j holds the quanta k with edges[j - 1] < k <= edges[j]; the first begins at 0,
        the last ends at the span.
    """

    edges: Ints

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return int(self.edges.size)

    @property
    def starts(self) -> Floats:
        """Lower ends of the bins as real numbers: half a quantum above the edge before."""
        return np.concatenate([[0.0], self.edges[:-1] + 0.5])

    @property
    def ends(self) -> Floats:
        """Upper ends of the bins as real numbers; the last is the span."""
        return np.concatenate([self.edges[:-1] + 0.5, [float(self.edges[-1])]])

    def above(self, edge: int) -> Bools:
        """Return which bins lie above an edge of theirs."""
        return np.asarray(self.edges > edge)

    def identity(self) -> str:
        """Return the edges as text."""
        return ",".join(map(str, self.edges.tolist()))
