"""The released table of a map with private presence: a row for every declared cell.

Made from released numbers and declared facts alone. Numbers of closed cells are null, but for the
smoothed average: which cells are closed was decided by noisy numbers.

Each statistic `s` of a distribution has `s`, `s_low`, `s_high` and its grade `s_quality`, a
histogram these for each of its bins; `quality` is that of the first statistic.

Accuracy as the manifest states it: how much open cells differ is estimated from noisy numbers and
their noise, never from published intervals: these are widened for weights, clipping and bounds. Of
averages by the method of moments, as in the other privacy model; of distributions by the spread of
their tilts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrays import Floats
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.presence.count_map import COUNT_MAP, decode_counts
from hexveil.mechanisms.presence.presence_decoding import ReleasedMap
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import column_names, parse_statistics
from hexveil.planning.presence.presence_request import PresenceRequest
from hexveil.publishing.estimates.accuracy import beats_constant, grade_intervals
from hexveil.publishing.estimates.table import TODAY, described_table, name_columns
from hexveil.publishing.kinds.distribution_table import describe_terms, limits_of
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.templates import render_sentence

Statement = dict[str, Any]

OPEN, SMOOTHED = "is_open", "mean_smoothed"
USERS, USERS_GRADE = "users", "users_quality"
ENDS, GRADE = ("", "_low", "_high"), "_quality"
COUNTS = ("users", "users_low", "users_high", "quality", "users_noisy")
WEIGHTS = ("quality", "weight", "weight_low", "weight_high", "weight_noisy")
MEANS = (
    *("mean", "mean_low", "mean_high"),
    *WEIGHTS[:-1],
    *(SMOOTHED, "weight_noisy", "balance_noisy"),
    *("mean_centre", "mean_range_low", "mean_range_high"),
)
"""Columns of averages alone. Noisy numbers, that averages and weights are made of, are neither cut
at 0 nor clipped."""
BESIDE = tuple(USERS_GRADE if name == "quality" else name for name in COUNTS)
"""Columns of numbers of units beside other statistics, whose grade is `quality`."""
PLACE = ("cell", "hexagon", "slot", "slot_end", "starts_at_utc")
TAKEN = frozenset((*PLACE, OPEN, *COUNTS, *BESIDE, *MEANS, *TODAY))
"""Names that no label may have, beside those of the statistics that are released."""
CLOSED = "closed"
MIN_COMPARED = 3
"""Open cells from which on cells are compared with each other."""
GOOD_SHARE, CAUTION_SHARE = 0.25, 1.0
"""Half width of the interval of a number of units, as a share of it, that is good or a caution."""
_TEMPLATE = "presence/columns.txt"
_SLACK = 1e-9
# ---- columns ----


def has_shapes(statistics: Sequence[str]) -> bool:
    """Return whether a release has quantiles, shares or a histogram."""
    return not set(statistics) <= {MEAN, USERS}


def map_statistics(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics of the map: all but numbers of units.

    Examples
    --------
    >>> map_statistics(("p50", "users"))
    ('p50',)
    """
    return tuple(statistic for statistic in statistics if statistic != USERS)


def estimated_columns(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of estimates of a map, in order: all but numbers of units.

    Examples
    --------
    >>> estimated_columns(("mean", "p85", "share>=50", "users")), estimated_columns(("users",))
    (('mean', 'p85', 'share_at_least_50'), ())
    """
    if not (mapped := map_statistics(statistics)):
        return ()
    moments, terms = parse_statistics(mapped)
    return (*moments, *(name for term in terms for name in column_names(term)))


def columns_of(statistics: Sequence[str], *, remembers: bool = False) -> tuple[str, ...]:
    """Return the columns of these statistics, after the cell and whether it is open.

    Averages that remember earlier days have those of the day alone beside them.
    """
    estimated = estimated_columns(statistics)
    if not estimated:
        return COUNTS
    columns: tuple[str, ...] = (*MEANS, *TODAY) if remembers else MEANS
    if has_shapes(statistics):
        columns = (*(f"{name}{end}" for name in estimated for end in (*ENDS, GRADE)), *WEIGHTS)
    return (*columns, *BESIDE) if USERS in statistics else columns


# ---- a release ----


def decode_outputs(request: PresenceRequest, outputs: Outputs) -> ReleasedMap:
    """Return the map of the outputs of all stages, in value units. Post-processing.

    A share of a later day stands as an average: see `read_share`.
    """
    if not request.has_map:
        return request.count_allocation().decode(outputs)
    of_map, lattice = request.of_map, request.lattice
    if request.has_bins:
        groups = request.grid.table.groupings()
        decoded = of_map.shape_allocation().decode(outputs, request.measured, groups)
    else:
        decoded = of_map.mean_allocation().decode(outputs)
        if not request.terms:
            decoded = decoded.in_units(float(lattice.lower), float(lattice.span))
    if not request.count_share:
        return decoded
    noisy, law = outputs[COUNT_MAP][0], request.count_allocation().law
    return decoded.beside(decode_counts(noisy, law, decoded.is_open))


def read_share(request: PresenceRequest, decoded: ReleasedMap) -> ReleasedMap:
    """Return the map of a later day with a share in the place of the average of its indicator."""
    if request.forecast is None or request.share is None:
        return decoded
    name, columns = request.share.column, dict(decoded.columns)
    columns |= {f"{name}{end}": columns[f"{MEAN}{end}"] for end in ENDS}
    error, between = decoded.error[MEAN], decoded.between[MEAN]
    return ReleasedMap(decoded.is_open, columns, {name: error}, {name: between})


def released_table(
    request: PresenceRequest, decoded: ReleasedMap, value: str = "value", value_unit: str = ""
) -> pa.Table:
    """Return the table of a decoded map, with descriptions and units of measure.

    Parameters
    ----------
    request : PresenceRequest
    decoded : ReleasedMap
    value, value_unit : str
        Name of the value column, and its unit of measure.
    """
    between = stated_deviations(map_accuracy(decoded))
    made = {name: pa.array(column, from_pandas=True) for name, column in decoded.columns.items()}
    made |= grade_columns(request.names, request.lattice, decoded.columns, between, decoded.is_open)
    columns = name_columns(request.grid.table) | {OPEN: decoded.is_open}
    remembers = TODAY[0] in decoded.columns
    columns |= {name: made[name] for name in columns_of(request.names, remembers=remembers)}
    described = [*describe_terms(request.terms, request.lattice)]
    if described and request.has_mean:
        described.append((MEAN, "the average of the records", True))
    subjects = {
        f"{prefix}{end}": (end, subject, value_unit if is_value and end != GRADE else "")
        for prefix, subject, is_value in described
        for end in (*ENDS, GRADE)
    }

    def describe_field(name: str) -> tuple[str, str]:
        if name in subjects:
            end, subject, unit = subjects[name]
            return render_sentence(_TEMPLATE, "shape", end=end, subject=subject), unit
        unit = value_unit if name.startswith("mean") else ""
        return render_sentence(_TEMPLATE, "column", name=name), unit

    return described_table(columns, describe_field, value)


def map_accuracy(decoded: ReleasedMap) -> list[Statement]:
    """Return the manifest's statement on accuracy, an entry for each column of estimates."""
    statements = []
    for name, errors in decoded.error.items():
        open_errors = errors[decoded.is_open]
        error = float(np.mean(open_errors)) if open_errors.size else None
        between = decoded.between[name] if open_errors.size >= MIN_COMPARED else None
        statements.append(
            {
                "statistic": name,
                "typical_error": error,
                "between_cells": between,
                "beats_constant": beats_constant(error, between),
            }
        )
    return statements


def stated_deviations(statements: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the deviation between cells of each column, by statements on accuracy."""
    return {statement["statistic"]: statement["between_cells"] for statement in statements}


# ---- grades ----


def grade_columns(
    statistics: Sequence[str],
    lattice: ValueLattice,
    numbers: Mapping[str, Floats],
    between: Mapping[str, float | None],
    is_open: NDArray[np.bool_],
) -> dict[str, list[str]]:
    """Return the columns of grades, from released numbers alone.

    Parameters
    ----------
    statistics : sequence of str
    lattice : ValueLattice
    numbers : mapping of str to ndarray of float, shape (n_cells,)
        Columns of estimates and of their ends, in value units.
    between : mapping of str to float or None
        Standard deviation of each estimate between cells, by the manifest.
    is_open : ndarray of bool, shape (n_cells,)
    """
    graded = {}
    if USERS in statistics:
        low, units, high = (numbers[f"{USERS}{end}"] for end in ("_low", "", "_high"))
        graded[USERS_GRADE] = grade_counts(low, high, units, is_open)
    first, *_ = estimated_columns(statistics) or (USERS,)
    if has_shapes(statistics):
        limits = limits_of(*parse_statistics(map_statistics(statistics)), lattice)
        for name, (least, largest) in limits.items():
            ends = numbers[f"{name}_low"], numbers[f"{name}_high"]
            width = largest - least
            graded[f"{name}{GRADE}"] = grade_estimates(*ends, between[name], width, is_open)
    elif first == MEAN:
        bounds = float(lattice.lower), float(lattice.lower) + float(lattice.span)
        graded[f"{MEAN}{GRADE}"] = _grade_means(numbers, between[MEAN], bounds, is_open)
    return graded | {"quality": graded[f"{first}{GRADE}"]}


def grade_estimates(
    low: Floats, high: Floats, between: float | None, span: float, is_open: NDArray[np.bool_]
) -> list[str]:
    """Return the quality of estimates; closed cells are closed.

    Half of each interval is compared with the standard deviation between open cells that
    manifest.json states; without one, with the bounds.
    """
    half = np.where(is_open, (high - low) / 2.0, np.inf)
    grades = grade_intervals(half, between, span, is_open)
    return [str(grade) for grade in np.where(is_open, grades, CLOSED)]


def _grade_means(
    columns: Mapping[str, Floats],
    between: float | None,
    bounds: tuple[float, float],
    is_open: NDArray[np.bool_],
) -> list[str]:
    """Return the quality of averages: by their intervals, and cut off where an end is unknown.

    An end is unknown where the interval extends to a bound that the clipping range does not reach.
    """
    low, high = columns["mean_low"], columns["mean_high"]
    slack = _SLACK * (bounds[1] - bounds[0])
    is_unknown = (low <= bounds[0] + slack) & (columns["mean_range_low"] > bounds[0] + slack)
    is_unknown |= (high >= bounds[1] - slack) & (columns["mean_range_high"] < bounds[1] - slack)
    grades = np.array(grade_estimates(low, high, between, bounds[1] - bounds[0], is_open))
    return [str(grade) for grade in np.where(is_unknown, CUT_OFF, grades)]


def grade_counts(low: Floats, high: Floats, units: Floats, is_open: NDArray[np.bool_]) -> list[str]:
    """Return the quality of numbers of units: half of the interval, as a share of the number."""
    share = np.divide(
        (high - low) / 2.0, units, out=np.full(units.size, np.inf), where=is_open & (units > 0)
    )
    grades = np.select([share <= GOOD_SHARE, share <= CAUTION_SHARE], ["good", "caution"], "noise")
    return [str(grade) for grade in np.where(is_open, grades, CLOSED)]
