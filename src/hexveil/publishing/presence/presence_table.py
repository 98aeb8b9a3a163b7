"""The released table of a map with private presence: a row for every declared cell.

Made from released numbers and declared facts alone. Numbers of closed cells are null, but for the
smoothed average: which cells are closed was decided by noisy numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.mechanisms.presence.count_map import CountedAllocation, CountedMap, UnitCountMap
from hexveil.mechanisms.presence.shape_decoding import ShapeMap
from hexveil.publishing.estimates.quality_grades import grade_intervals
from hexveil.publishing.estimates.table import described_table, name_columns
from hexveil.publishing.presence import shape_table
from hexveil.publishing.presence.map_accuracy import map_accuracy, mean_accuracy, stated_deviations
from hexveil.publishing.presence.shape_table import GRADE
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.mechanisms.presence.presence_decoding import PresenceMap
    from hexveil.model.cells import CellTable
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.presence.presence_request import PresenceRequest

    AnyMap = PresenceMap | UnitCountMap | ShapeMap | CountedMap

OPEN = "is_open"
SMOOTHED = "mean_smoothed"
SUMS = ("weight_noisy", "balance_noisy", "mean_centre", "mean_range_low", "mean_range_high")
"""Noisy numbers that averages and weights are made of, neither cut at 0 nor clipped."""
COLUMNS = {
    "mean": (
        "mean",
        "mean_low",
        "mean_high",
        "quality",
        "weight",
        "weight_low",
        "weight_high",
        SMOOTHED,
        *SUMS,
    ),
    "users": ("users", "users_low", "users_high", "quality", "users_noisy"),
}
"""Columns of each statistic, after the cell and whether it is open."""
USERS, USERS_GRADE = "users", "users_quality"
BESIDE = ("users", "users_low", "users_high", USERS_GRADE, "users_noisy")
"""Columns of numbers of units beside other statistics, whose grade is `quality`."""
PLACE = ("cell", "hexagon", "slot", "slot_end", "starts_at_utc")
CLOSED = "closed"
GOOD_SHARE, CAUTION_SHARE = 0.25, 1.0
"""Half width of the interval of a number of units, as a share of it, that is good or a caution."""
_TEMPLATE = "presence/columns.txt"
_SLACK = 1e-9


def columns_of(statistics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of these statistics, after the cell and whether it is open."""
    others = [statistic for statistic in statistics if statistic != USERS]
    if not others:
        return COLUMNS[USERS]
    columns = (
        shape_table.shape_columns(others) if shape_table.has_shapes(others) else COLUMNS["mean"]
    )
    return (*columns, *BESIDE) if USERS in statistics else columns


def decode_outputs(request: PresenceRequest, outputs: Outputs) -> AnyMap:
    """Return the map of the outputs of all stages of a request. Post-processing."""
    if not request.has_map:
        return request.count_allocation().decode(outputs)
    of_map: PresenceMap | ShapeMap
    if request.terms:
        of_map = shape_table.decode_request(request, outputs)
    else:
        of_map = request.of_map.mean_allocation().decode(outputs)
    stages = request.allocation()
    if not isinstance(stages, CountedAllocation):
        return of_map
    return CountedMap(of_map, stages.decode_counts(outputs, of_map.is_open))


def released_table(
    request: PresenceRequest,
    decoded: AnyMap,
    value: str = "value",
    value_unit: str = "",
) -> pa.Table:
    """Return the table of a decoded map, with descriptions and units of measure.

    Parameters
    ----------
    request : PresenceRequest
    decoded : PresenceMap, UnitCountMap, ShapeMap or CountedMap
    value, value_unit : str
        Name of the value column, and its unit of measure.
    """
    columns = name_columns(request.grid.table) | {OPEN: decoded.is_open}
    columns |= _number_columns(request, decoded)
    subjects = shape_table.shape_subjects(request) if request.terms else {}

    def describe_field(name: str) -> tuple[str, str]:
        text, is_value = subjects.get(name) or (describe(name), name.startswith("mean"))
        return text, value_unit if is_value else ""

    return described_table(columns, describe_field, value)


def _number_columns(request: PresenceRequest, decoded: AnyMap) -> dict[str, pa.Array]:
    """Return the columns of numbers and grades of a decoded map."""
    if isinstance(decoded, CountedMap):
        counted = count_columns(decoded.counts)
        counted[USERS_GRADE] = counted.pop("quality")
        beside = {name: counted[name] for name in BESIDE}
        return _number_columns(request, decoded.statistics) | beside
    if isinstance(decoded, UnitCountMap):
        return count_columns(decoded)
    if isinstance(decoded, ShapeMap):
        return _shape_columns(request, decoded)
    return mean_columns(request.lattice, decoded)


def describe(name: str) -> str:
    """Return the description of a column.

    Examples
    --------
    >>> describe("route")
    'public label of the cell'
    """
    return render_sentence(_TEMPLATE, "column", name=name)


def check_label_names(cells: CellTable) -> None:
    """Refuse label columns with names that the released table needs for itself."""
    needed = {*PLACE, OPEN, *BESIDE, *(name for names in COLUMNS.values() for name in names)}
    reserved = [
        name
        for name in cells.labels
        if (name in needed or shape_table.reserves(name)) and list(cells.labels) != ["cell"]
    ]
    if reserved:
        raise InputError(
            f"the label column {reserved[0]!r} has the name of a released column; rename it in the "
            "records."
        )


def grade_estimates(
    low: Floats, high: Floats, between: float | None, span: float, is_open: NDArray[np.bool_]
) -> list[str]:
    """Return the quality of estimates, from released numbers alone; closed cells are closed.

    Half of each interval is compared with the standard deviation between open cells that
    manifest.json states; without one, with the bounds.
    """
    half = np.where(is_open, (high - low) / 2.0, np.inf)
    return _with_closed(grade_intervals(half, between, span, is_open), is_open)


def grade_means(
    columns: Mapping[str, Floats],
    between: float | None,
    bounds: tuple[float, float],
    is_open: NDArray[np.bool_],
) -> list[str]:
    """Return the quality of averages: by their intervals, and cut off where an end is unknown.

    An end is unknown where the interval extends to a bound that the clipping range does not reach.

    Parameters
    ----------
    columns : mapping of str to ndarray of float, shape (n_cells,)
        Ends of intervals and of ranges, in value units.
    between : float or None
        Standard deviation between cells, by the manifest.
    bounds : tuple of float
    is_open : ndarray of bool, shape (n_cells,)
    """
    low, high = columns["mean_low"], columns["mean_high"]
    slack = _SLACK * (bounds[1] - bounds[0])
    is_unknown = (low <= bounds[0] + slack) & (columns["mean_range_low"] > bounds[0] + slack)
    is_unknown |= (high >= bounds[1] - slack) & (columns["mean_range_high"] < bounds[1] - slack)
    grades = np.array(grade_estimates(low, high, between, bounds[1] - bounds[0], is_open))
    return [str(grade) for grade in np.where(is_unknown, CUT_OFF, grades)]


def grade_columns(
    numbers: Mapping[str, Floats],
    limits: Mapping[str, tuple[float, float]],
    between: Mapping[str, float | None],
    is_open: NDArray[np.bool_],
) -> dict[str, list[str]]:
    """Return the columns of grades of statistics of distributions: each one's, and the first's.

    Parameters
    ----------
    numbers : mapping of str to ndarray of float, shape (n_cells,)
        Columns of estimates and of their ends.
    limits : mapping of str to tuple of float
        Least and largest value of each statistic, the first one first.
    between : mapping of str to float or None
        Standard deviation of each statistic between cells, by the manifest.
    is_open : ndarray of bool, shape (n_cells,)
    """
    graded = {}
    for name, (smallest, largest) in limits.items():
        low, high = numbers[f"{name}_low"], numbers[f"{name}_high"]
        graded[f"{name}{GRADE}"] = grade_estimates(
            low, high, between[name], largest - smallest, is_open
        )
    return graded | {"quality": next(iter(graded.values()))}


def grade_counts(low: Floats, high: Floats, units: Floats, is_open: NDArray[np.bool_]) -> list[str]:
    """Return the quality of numbers of units: half of the interval, as a share of the number."""
    share = np.divide(
        (high - low) / 2.0, units, out=np.full(units.size, np.inf), where=is_open & (units > 0)
    )
    grades = np.select([share <= GOOD_SHARE, share <= CAUTION_SHARE], ["good", "caution"], "noise")
    return _with_closed(grades.tolist(), is_open)


def _with_closed(grades: list[str], is_open: NDArray[np.bool_]) -> list[str]:
    return [one if is_there else CLOSED for one, is_there in zip(grades, is_open, strict=True)]


def mean_columns(lattice: ValueLattice, decoded: PresenceMap) -> dict[str, pa.Array]:
    """Return averages in value units, weights, and their intervals."""
    lower, span = float(lattice.lower), float(lattice.span)
    values = {
        "mean": decoded.mean,
        "mean_low": decoded.mean_low,
        "mean_high": decoded.mean_high,
        SMOOTHED: decoded.smoothed,
        "mean_centre": decoded.centre,
        "mean_range_low": decoded.range_low,
        "mean_range_high": decoded.range_high,
    }
    numbers = {name: lower + span * share for name, share in values.items()} | {
        name: getattr(decoded, name)
        for name in ("weight", "weight_low", "weight_high", "weight_noisy", "balance_noisy")
    }
    between = mean_accuracy(lattice, decoded)["between_cells"]
    grades = grade_means(numbers, between, (lower, lower + span), decoded.is_open)
    columns = {name: _nullable(column) for name, column in numbers.items()}
    columns["quality"] = pa.array(grades, type=pa.string())
    return {name: columns[name] for name in COLUMNS["mean"]}


def _shape_columns(request: PresenceRequest, decoded: ShapeMap) -> dict[str, pa.Array]:
    """Return statistics of distributions, weights, and their intervals."""
    numbers = shape_table.shape_numbers(request, decoded)
    names = shape_table.map_statistics(request.names)
    limits = shape_table.limits_of(names, request.lattice)
    columns = {name: _nullable(column) for name, column in numbers.items()}
    between = stated_deviations(map_accuracy(request, decoded))
    grades = grade_columns(numbers, limits, between, decoded.is_open)
    columns |= {name: pa.array(column, type=pa.string()) for name, column in grades.items()}
    return {name: columns[name] for name in shape_table.shape_columns(names)}


def count_columns(decoded: UnitCountMap) -> dict[str, pa.Array]:
    """Return numbers of units and their intervals."""
    numbers = decoded.units_low, decoded.units_high, decoded.units
    return {
        "users": _nullable(decoded.units),
        "users_low": _nullable(decoded.units_low),
        "users_high": _nullable(decoded.units_high),
        "quality": pa.array(grade_counts(*numbers, decoded.is_open), type=pa.string()),
        "users_noisy": _nullable(decoded.noisy),
    }


def _nullable(numbers: Floats) -> pa.Array:
    return pa.array(numbers, from_pandas=True)
