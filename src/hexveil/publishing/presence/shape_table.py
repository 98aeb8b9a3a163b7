"""Columns of a map of distributions with private presence: from noisy numbers and declared facts.

Each statistic `s` has `s`, `s_low` and `s_high`, null where a cell is closed, and its grade
`s_quality`; a histogram has these for each of its bins. Weight and quality are those of other maps
with private presence; `quality` is that of the first statistic.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.presence.shape_decoding import ShapeMap, decode_shapes
from hexveil.model.statistic_terms import Histogram, Share, Term, column_names, parse_statistics
from hexveil.publishing.distribution.distribution_table import describe_term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.presence.presence_request import PresenceRequest

ENDS, GRADE = ("", "_low", "_high"), "_quality"
WEIGHTS = ("quality", "weight", "weight_low", "weight_high", "weight_noisy")
_SHAPE = re.compile(
    r"(p\d{1,2}(_\d{1,6})?|share_(below|at_most|above|at_least)_[\w-]+|histogram_\d\d)(_low|_high)?"
)


def has_shapes(statistics: Sequence[str]) -> bool:
    """Return whether a release has quantiles, shares or a histogram."""
    return not set(statistics) <= {MEAN, "users"}


def map_statistics(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics of the map: all but numbers of units.

    Examples
    --------
    >>> map_statistics(("p50", "users"))
    ('p50',)
    """
    return tuple(statistic for statistic in statistics if statistic != "users")


def is_shape_column(name: str) -> bool:
    """Return whether a column has the name of a quantile, a share or a bin of a histogram.

    Examples
    --------
    >>> is_shape_column("p99_9_low"), is_shape_column("share_above_400"), is_shape_column("p")
    (True, True, False)
    """
    return not name.endswith(GRADE) and _SHAPE.fullmatch(name) is not None


def reserves(name: str) -> bool:
    """Return whether no label may have a name, as statistics of distributions need it.

    Examples
    --------
    >>> reserves("p85_quality"), reserves("mean_quality"), reserves("air_quality")
    (True, True, False)
    """
    graded = name.removesuffix(GRADE)
    return is_shape_column(name) or (graded != name and (graded == MEAN or is_shape_column(graded)))


def prefixes(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of estimates, in order; `quality` grades the first.

    Examples
    --------
    >>> prefixes(("mean", "p85", "share>=50"))
    ('mean', 'p85', 'share_at_least_50')
    """
    moments, terms = parse_statistics(tuple(statistics))
    return (*moments, *(name for term in terms for name in column_names(term)))


def estimated_columns(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of estimates of a map: all but numbers of units."""
    mapped = map_statistics(statistics)
    return prefixes(mapped) if mapped else ()


def shape_columns(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return all columns of these statistics, after the cell and whether it is open."""
    numbers = (f"{name}{end}" for name in prefixes(statistics) for end in (*ENDS, GRADE))
    return (*numbers, *WEIGHTS)


def decode_request(request: PresenceRequest, outputs: Outputs) -> ShapeMap:
    """Return the map of the outputs of all stages. Post-processing."""
    groups = request.grid.table.groupings()
    return decode_shapes(request.of_map.shape_allocation(), outputs, request.measured, groups)


def shape_numbers(request: PresenceRequest, decoded: ShapeMap) -> dict[str, Floats]:
    """Return the numbers of each column but the quality."""
    columns: dict[str, Floats] = {}
    for k, name in enumerate(request.measured.columns):
        for end, numbers in zip(ENDS, (decoded.estimate, decoded.low, decoded.high), strict=True):
            columns[f"{name}{end}"] = np.asarray(numbers[:, k])
    weights = (decoded.weight, decoded.weight_low, decoded.weight_high, decoded.weight_noisy)
    return columns | dict(zip(WEIGHTS[1:], weights, strict=True))


def shape_subjects(request: PresenceRequest) -> dict[str, tuple[str, bool]]:
    """Return the description of each statistic's columns, and whether it is in value units."""
    subjects = {MEAN: ("the average of the records", True)} if request.has_mean else {}
    for term in request.terms:
        texts = describe_term(term, request.lattice)
        for prefix, text in zip(column_names(term), texts, strict=True):
            subjects[prefix] = text, _is_value(term)
    return {
        f"{prefix}{end}": (words.format(text), is_value and end != GRADE)
        for prefix, (text, is_value) in subjects.items()
        for end, words in _END_WORDS.items()
    }


_END_WORDS = {
    "": "{}, estimated from noisy numbers by a model of the distribution of the cell; empty where "
    "the cell is closed",
    "_low": "lower end of the 95 percent interval of {}, by that model",
    "_high": "upper end of the 95 percent interval of {}, by that model",
    GRADE: "quality of {}: good, caution or noise, by the width of the interval; closed where "
    "nothing is published",
}


def _is_value(term: Term) -> bool:
    return not isinstance(term, (Share, Histogram))


def limits_of(statistics: Sequence[str], lattice: ValueLattice) -> dict[str, tuple[float, float]]:
    """Return the least and largest value of each column of estimates."""
    moments, terms = parse_statistics(tuple(statistics))
    bounds = float(lattice.lower), float(lattice.upper)
    limits = dict.fromkeys(moments, bounds)
    for term in terms:
        limits |= dict.fromkeys(column_names(term), bounds if _is_value(term) else (0.0, 1.0))
    return limits
