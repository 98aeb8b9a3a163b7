"""Statistics of the distribution of a cell's records: quantiles, shares, histograms. Public.

A caller writes them as text: `"p85"` is the value that 85 percent of a cell's records do not
exceed, `"share<10"` the share of records below 10, `"histogram"` the shares of records in bins of
equal width. Levels, thresholds and bins are public: they come from the caller, never from values.

Values lie on the public lattice of the records (`ValueLattice`), after clamping and rounding, and
`"<"`, `"<="`, `">"` and `">="` mean exactly that on the lattice. Bins (a, b] of whole quanta
(`FineBins`) have an edge at each threshold, and a value on an edge counts in the bin below it:
`"share<10"` has its edge one quantum below 10, so that a value of 10 counts as not below it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text, items_of, to_fraction
from hexveil.model.public_metadata import FineBins, ValueLattice

MOMENTS = ("mean", "variance", "sd")
"""Statistics that are sums, and no part of this module."""
FINE_BINS = 64
"""Bins of equal width in which records are counted, before thresholds divide them further."""
HISTOGRAM_BINS = 20
MAX_TERMS = 40
"""Statistics of one request."""
_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,6})?|100(?:\.0*)?)")
_SHARE = re.compile(r"share\s*(<=|>=|<|>)\s*([-+]?\d[\d.]*(?:[eE][-+]?\d+)?)")
_HISTOGRAM = re.compile(r"histogram(?::([1-9]|1\d|20))?")
_WORDS = {"<": "below", "<=": "at_most", ">": "above", ">=": "at_least"}
_SHARE_PREFIX = re.compile(r"share_(below|at_most|above|at_least)_(minus_)?(\d+(?:_\d+)?)")
Estimator = Literal["auto", "ranks", "bins"]
"""How a cell's distribution is measured: by ranks of its records, by bins, or by prediction."""
FORMS = '"mean", "variance", "sd", "p50" (any quantile from p0.000001 on), "share<10", "histogram"'


@dataclass(frozen=True)
class Quantile:
    """The value that a share of a cell's records do not exceed.

    Attributes
    ----------
    level : Fraction
        Between 0 and 1, like 17/20 for "p85".
    """

    level: Fraction

    @property
    def text(self) -> str:
        """Canonical text."""
        return f"p{decimal_text(self.level * 100)}"

    @property
    def column(self) -> str:
        """Prefix of its columns."""
        return self.text.replace(".", "_")


@dataclass(frozen=True)
class Share:
    """The share of a cell's records on one side of a public threshold.

    Attributes
    ----------
    sign : "<", "<=", ">" or ">="
    threshold : Fraction
        In value units, a multiple of the quantum.
    """

    sign: str
    threshold: Fraction

    @property
    def text(self) -> str:
        """Canonical text."""
        return f"share{self.sign}{decimal_text(self.threshold)}"

    @property
    def column(self) -> str:
        """Prefix of its columns, like "share_below_10"."""
        number = decimal_text(self.threshold).replace("-", "minus_").replace(".", "_")
        return f"share_{_WORDS[self.sign]}_{number}"

    @property
    def is_above(self) -> bool:
        """Whether it is the share of the larger values."""
        return self.sign.startswith(">")

    def edge(self, lattice: ValueLattice) -> int:
        """Return the last quantum below the threshold, or on it if that counts as below.

        Raises
        ------
        InputError
            If the threshold is off the lattice, or one side of it has no value within the bounds.
        """
        place = (self.threshold - lattice.lower) / lattice.quantum
        if place.denominator != 1:
            raise InputError(
                f"statistics: the threshold of {self.text!r} is not a multiple of the quantum "
                f"{decimal_text(lattice.quantum)} that values are rounded to; change one of them."
            )
        edge = int(place) - (self.sign in ("<", ">="))
        if not 0 <= edge < lattice.span_quanta:
            raise InputError(
                f"statistics: {self.text!r} is the same for all values within the bounds "
                f"[{decimal_text(lattice.lower)}, {decimal_text(lattice.upper)}]; name a threshold "
                "between them."
            )
        return edge


@dataclass(frozen=True)
class Histogram:
    """The shares of a cell's records in bins of equal width over the bounds."""

    n_bins: int = HISTOGRAM_BINS
    column = "histogram"

    @property
    def text(self) -> str:
        """Canonical text; "histogram:10" of fewer bins than by default."""
        return self.column if self.n_bins == HISTOGRAM_BINS else f"{self.column}:{self.n_bins}"

    def edges(self, lattice: ValueLattice) -> Ints:
        """Return the upper ends of the bins, in quanta above the lower bound."""
        return equal_edges(self.n_bins, lattice.span_quanta)


Term: TypeAlias = Quantile | Share | Histogram


def parse_statistics(statistics: Sequence[str] | str) -> tuple[tuple[str, ...], tuple[Term, ...]]:
    """Return the moments and the statistics of distributions, each in one order.

    Parameters
    ----------
    statistics : sequence of str, or str

    Raises
    ------
    InputError
        If a text is no statistic, or two name the same one.

    Examples
    --------
    >>> moments, terms = parse_statistics(("p85", "mean", "share<10.0", "p50"))
    >>> moments, [term.text for term in terms]
    (('mean',), ['p50', 'p85', 'share<10'])
    """
    names = tuple(items_of(statistics))
    if not names or len(names) > MAX_TERMS:
        raise InputError(f"statistics must be 1 to {MAX_TERMS} of {FORMS}, got {len(names)}.")
    moments = tuple(name for name in MOMENTS if name in names)
    terms = [_parse(name) for name in names if name not in MOMENTS]
    if len(moments) + len(terms) < len(names) or len({term.column for term in terms}) < len(terms):
        raise InputError(
            "statistics must each be asked once; two texts, such as 'p50' and 'p50.0', can name "
            "the same one."
        )
    return moments, tuple(sorted(terms, key=_order))


def distribution_terms(statistics: Sequence[str] | str) -> tuple[Term, ...]:
    """Return the statistics of distributions among those asked; none of none."""
    return parse_statistics(statistics)[1] if items_of(statistics) else ()


def on_lattice(terms: Sequence[Term], lattice: ValueLattice) -> tuple[Term, ...]:
    """Return the statistics on a lattice: a histogram has at most a bin for each quantum.

    Values that are whole numbers from 0 to 10 have a histogram of ten bins, the first of which
    holds 0 and 1.
    """
    return tuple(
        Histogram(min(term.n_bins, lattice.span_quanta)) if isinstance(term, Histogram) else term
        for term in terms
    )


def has_distribution(statistics: Sequence[str] | str) -> bool:
    """Return whether quantiles, shares or histograms are among statistics that were asked for.

    Of unknown names some begin like them: their own message helps most.
    """
    names = items_of(statistics)
    return any(
        isinstance(name, str) and re.match(r"\s*(p\d|share|histogram)", name) for name in names
    )


def _parse(name: object) -> Term:
    text = name.strip() if isinstance(name, str) else ""
    if match := _HISTOGRAM.fullmatch(text):
        return Histogram(int(match[1] or HISTOGRAM_BINS))
    if match := _QUANTILE.fullmatch(text):
        level = Fraction(match[1]) / 100
        if not 0 < level < 1:
            extreme = "p0 is the smallest" if not level else "p100 is the largest"
            raise InputError(
                f"statistics: the quantile {extreme} record of a cell, which one vehicle decides "
                "alone; ask for a level between 0 and 100, like 'p5'."
            )
        return Quantile(level)
    if match := _SHARE.fullmatch(text):
        return Share(match[1], to_fraction(match[2], f"threshold of {text!r}"))
    raise InputError(f"statistics must be some of {FORMS}, got {name!r}.")


def _order(term: Term) -> tuple[int, Fraction, str]:
    match term:
        case Quantile(level):
            return 0, level, ""
        case Share(sign, threshold):
            return 1, threshold, sign
        case Histogram():
            return 2, Fraction(0), ""


def column_names(term: Term) -> list[str]:
    """Return the prefixes of a statistic's columns."""
    if isinstance(term, Histogram):
        return [f"{term.column}_{number + 1:02d}" for number in range(term.n_bins)]
    return [term.column]


def term_of(name: str) -> Term | None:
    """Return the statistic of a text or of a prefix of columns; None for means and variances.

    Examples
    --------
    >>> term_of("share_at_least_7_5"), term_of("histogram_07"), term_of("mean")
    (Share(sign='>=', threshold=Fraction(15, 2)), Histogram(n_bins=20), None)
    """
    if re.fullmatch(r"histogram_\d+", name):
        return Histogram()
    if match := _SHARE_PREFIX.fullmatch(name):
        signs = {word: sign for sign, word in _WORDS.items()}
        number = Fraction(match[3].replace("_", "."))
        return Share(signs[match[1]], -number if match[2] else number)
    text = name.replace("_", ".")
    forms = (_QUANTILE.fullmatch(text), _SHARE.fullmatch(name), _HISTOGRAM.fullmatch(name))
    return _parse(text) if any(forms) else None


def equal_edges(n_bins: int, span_quanta: int) -> Ints:
    """Return the upper ends of bins of nearly equal width that end at the span.

    Examples
    --------
    >>> equal_edges(4, 10).tolist(), equal_edges(4, 3).tolist()
    ([2, 5, 7, 10], [1, 2, 3])
    """
    ends = {span_quanta * (number + 1) // n_bins for number in range(n_bins)} - {0}
    return np.array(sorted(ends), dtype=np.int64)


def half_bin(lattice: ValueLattice) -> float:
    """Return half the width of a bin that no threshold divides, in value units."""
    return float(lattice.quantum) * max(lattice.span_quanta / FINE_BINS, 1.0) / 2.0


def fine_bins(lattice: ValueLattice, terms: Sequence[Term]) -> FineBins:
    """Return bins of equal width, divided at thresholds and at the ends of a histogram.

    Raises
    ------
    InputError
        If a threshold is off the lattice, or divides nothing.
    """
    edges = [equal_edges(FINE_BINS, lattice.span_quanta)]
    edges += [term.edges(lattice) for term in terms if isinstance(term, Histogram)]
    edges += [np.array([term.edge(lattice)]) for term in terms if isinstance(term, Share)]
    return FineBins(np.unique(np.concatenate(edges)))


def column_of(statistic: str) -> str:
    """Return the prefix of a statistic's columns, by its text or by that prefix.

    Raises
    ------
    InputError
        If it is a whole histogram.

    Examples
    --------
    >>> column_of("share<10"), column_of("p85"), column_of("mean"), column_of("histogram_07")
    ('share_below_10', 'p85', 'mean', 'histogram_07')
    """
    term = term_of(statistic)
    if not isinstance(term, Histogram):
        return statistic if term is None else column_names(term)[0]
    if statistic == term.text:
        first, *_, last = column_names(term)
        raise InputError(f"a histogram has many numbers; name one bin, {first} to {last}.")
    return statistic
