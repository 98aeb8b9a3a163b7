"""Columns of a map of distributions with private presence: from noisy numbers and declared facts.

Each statistic `s` has `s`, `s_low` and `s_high`, null where a cell is closed; a histogram has these
for each of its bins. Weight and quality are those of other maps with private presence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.presence.shapes.shape_decoding import decode_shapes
from hexveil.model.statistic_terms import Histogram, Share, column_names, parse_statistics
from hexveil.publishing.distribution.distribution_table import describe_term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.mechanisms.contract import Floats, Outputs
    from hexveil.mechanisms.presence.shapes.shape_decoding import ShapeMap
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.model.statistic_terms import Term
    from hexveil.planning.presence.shape_request import ShapeRequest

ENDS = ("", "_low", "_high")
WEIGHTS = ("quality", "weight", "weight_low", "weight_high")
_SHAPE = re.compile(
    r"(p\d{1,2}(_\d{1,6})?|share_(below|at_most|above|at_least)_[\w-]+|histogram_\d\d)(_low|_high)?"
)


def has_shapes(statistics: Sequence[str]) -> bool:
    """Return whether a release has quantiles, shares or a histogram."""
    return not set(statistics) <= {MEAN, "users"}


def is_shape_column(name: str) -> bool:
    """Return whether a column has the name of a quantile, a share or a bin of a histogram.

    Examples
    --------
    >>> is_shape_column("p99_9_low"), is_shape_column("share_above_400"), is_shape_column("p")
    (True, True, False)
    """
    return _SHAPE.fullmatch(name) is not None


def prefixes(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of estimates, in order; the first is the one that grades and pages show.

    Examples
    --------
    >>> prefixes(("mean", "p85", "share>=50"))
    ('mean', 'p85', 'share_at_least_50')
    """
    moments, terms = parse_statistics(tuple(statistics))
    return (*moments, *(name for term in terms for name in column_names(term)))


def shape_columns(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return all columns of these statistics, after the cell and whether it is open."""
    numbers = (f"{name}{end}" for name in prefixes(statistics) for end in ENDS)
    return (*numbers, *WEIGHTS)


def decode_request(request: ShapeRequest, outputs: Outputs) -> ShapeMap:
    """Return the map of the outputs of all stages. Post-processing."""
    groups = request.grid.table.groupings()
    return decode_shapes(request.allocation(), outputs, request.statistics, groups)


def shape_numbers(request: ShapeRequest, decoded: ShapeMap) -> dict[str, Floats]:
    """Return the numbers of each column but the quality."""
    columns: dict[str, Floats] = {}
    for k, name in enumerate(request.statistics.columns):
        for end, numbers in zip(ENDS, (decoded.estimate, decoded.low, decoded.high), strict=True):
            columns[f"{name}{end}"] = np.asarray(numbers[:, k])
    weights = (decoded.weight, decoded.weight_low, decoded.weight_high)
    return columns | {f"weight{end}": one for end, one in zip(ENDS, weights, strict=True)}


def shape_subjects(request: ShapeRequest) -> dict[str, tuple[str, bool]]:
    """Return the description of each statistic's columns, and whether it is in value units."""
    subjects = {MEAN: ("the average of the records", True)} if request.has_mean else {}
    for term in request.terms:
        texts = describe_term(term, request.lattice)
        for prefix, text in zip(column_names(term), texts, strict=True):
            subjects[prefix] = text, _is_value(term)
    return {
        f"{prefix}{end}": (_END_WORDS[end].format(text), is_value)
        for prefix, (text, is_value) in subjects.items()
        for end in ENDS
    }


_END_WORDS = {
    "": "{}, estimated from noisy numbers by a model of the distribution of the cell; empty where "
    "the cell is closed",
    "_low": "lower end of the 95 percent interval of {}, by that model",
    "_high": "upper end of the 95 percent interval of {}, by that model",
}


def _is_value(term: Term) -> bool:
    return not isinstance(term, (Share, Histogram))


def span_of(statistics: Sequence[str], lattice_span: float) -> float:
    """Return the width of the range of the first statistic."""
    moments, terms = parse_statistics(tuple(statistics))
    return lattice_span if moments or _is_value(terms[0]) else 1.0


def limits_of(statistics: Sequence[str], lattice: ValueLattice) -> dict[str, tuple[float, float]]:
    """Return the least and largest value of each column of estimates."""
    moments, terms = parse_statistics(tuple(statistics))
    bounds = float(lattice.lower), float(lattice.upper)
    limits = dict.fromkeys(moments, bounds)
    for term in terms:
        limits |= dict.fromkeys(column_names(term), bounds if _is_value(term) else (0.0, 1.0))
    return limits
