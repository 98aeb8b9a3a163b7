"""The request and the public facts of a plan: as words for plan.json, and back.

Losses, bounds and the quantum are exact text. Targets, the names of cells and what cells are stand
in columns of cells.parquet. What comes back is checked; a KeyError, TypeError or ValueError says
that a field is missing or of another kind.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms import Baseline, OptimalClipping
from hexveil.model.cells import Cells, CellTable, Labels
from hexveil.model.public_metadata import UNITS, PublicMetadata, ValueLattice
from hexveil.planning.clipping_range.private_range import (
    WEIGHT_RESOLUTION,
    ClippingRangeMode,
    PrivateClippingRange,
)
from hexveil.planning.clipping_range.two_stage_plan import TwoStagePlan
from hexveil.planning.request import ErrorKind, Method, Objective, Request, statistics

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.mechanisms import ThresholdMechanism
    from hexveil.model.occupancy import Occupancy

    Words = dict[str, Any]

HUGE = 1e6
"""Widths and errors of a saved interval are below this, in spans."""
TARGET, LABEL = "target_", "label_"
"""What the names of columns of targets and of labels begin with."""
MECHANISMS: dict[str, ThresholdMechanism] = {m.name: m for m in (Baseline(), OptimalClipping())}


def request_words(request: Request) -> dict[str, Any]:
    """Return the request as words; the targets themselves are in cells.parquet."""
    name = request.mechanism.name
    if MECHANISMS.get(name) != request.mechanism:
        raise InputError(
            f"a saved plan's mechanism must be one of {', '.join(MECHANISMS)}, got {name}; "
            "release such a plan without saving it."
        )
    return {
        "method": request.method,
        "mechanism": name,
        "statistics": list(request.statistics),
        "objective": request.objective,
        "error": request.error,
        "split": exact_text(request.split),
        "epsilon": exact_text(request.epsilon),
        "targets": None if request.target is None else list(request.target),
        "clipping_range": request.clipping_range,
        "range_share": exact_text(request.range_share),
        "edition": request.edition,
    }


def interval_words(interval: PrivateClippingRange) -> dict[str, Any]:
    """Return the decisions on a private range; the weights are in pairs.parquet."""
    return {
        "epsilon": decimal_text(interval.epsilon),
        "quantiles": [decimal_text(one) for one in interval.quantiles],
        "stretch": decimal_text(interval.widening),
        "width": interval.width,
        "clipped": interval.clipping_error,
        "radius": exact_text(interval.radius),
    }


def interval_of(said: Words, weight: NDArray[np.int64]) -> PrivateClippingRange:
    """Return the interval of a plan, checked as far as it stands alone."""
    low, high = (Fraction(one) for one in said["quantiles"])
    stretch = Fraction(said["stretch"])
    width, clipped = float(said["width"]), float(said["clipped"])
    sane = 0 < low < high < 1 and 1 <= stretch < HUGE
    if not sane or not 0 < width < HUGE or not 0 <= clipped < HUGE:
        raise InputError("its interval has quantiles or a width that no plan has.")
    if (weight < 0).any() or not 0 < int(weight.max()) <= WEIGHT_RESOLUTION:
        raise InputError("it has weights that no plan has.")
    epsilon = stated(said["epsilon"])
    radius = exact_of(said["radius"])
    if radius is not None and not 1 <= radius < HUGE:
        raise InputError("its interval has a radius that no plan has.")
    return PrivateClippingRange(
        epsilon, (low, high), stretch, width, clipped, weight, radius=radius
    )


def steps_words(steps: TwoStagePlan) -> dict[str, Any]:
    """Return the decisions on further stages; weights and clusters are in the tables."""
    return {
        "epsilon": decimal_text(steps.epsilon),
        "stretch": decimal_text(steps.widening),
        "class_noise": steps.cluster_noise.tolist(),
    }


def steps_of(said: Words, cells: pa.Table, users: pa.Table, pairs: pa.Table) -> TwoStagePlan:
    """Return the further steps of a plan, checked as far as they stand alone."""
    steps = TwoStagePlan(
        epsilon=stated(said["epsilon"]),
        widening=stated(said["stretch"]),
        labels=numbers(users, "class"),
        cluster_weight=numbers(users, "class_weight"),
        cluster_noise=np.array(said["class_noise"], dtype=np.float64),
        weight=numbers(pairs, "own_weight"),
        noise=numbers(cells, "own_noise"),
    )
    if not 1 <= steps.widening < HUGE:
        raise InputError("its steps have a stretch that no plan has.")
    classes = np.unique(steps.labels)
    if steps.cluster_noise.ndim != 1 or not np.array_equal(
        classes, np.arange(steps.cluster_noise.size)
    ):
        raise InputError("its classes of users are not numbered in order.")
    _check_weights(steps.cluster_weight, steps.labels, steps.cluster_noise)
    _check_weights(steps.weight, numbers(pairs, "cell"), steps.noise)
    return steps


def _check_weights(
    weight: NDArray[np.int64], group: NDArray[np.int64], noise: NDArray[np.float64]
) -> None:
    """Refuse weights or noise under which a cell or class has no loss at all."""
    if (weight < 0).any() or int(weight.max()) > WEIGHT_RESOLUTION:
        raise InputError("it has weights that no plan has.")
    weighed = np.bincount(group, weights=weight, minlength=noise.size)
    if not (weighed > 0).all() or not (np.isfinite(noise) & (noise > 0)).all():
        raise InputError("it has a cell or class without weights or without noise.")


def facts_words(facts: PublicMetadata) -> dict[str, Any]:
    """Return the public metadata beside counts and names of cells."""
    scale = facts.lattice
    return {
        "value": facts.value,
        "value_unit": facts.value_unit,
        "privacy_unit": facts.privacy_unit,
        "bounds": [decimal_text(scale.lower), decimal_text(scale.upper)],
        "quantum": decimal_text(scale.quantum),
        "grid": _grid_words(facts.cells.grid),
        "rules": dict(facts.rules),
        "identity": dict(facts.identity),
    }


def _grid_words(grid: Cells | Labels) -> dict[str, Any]:
    if isinstance(grid, Labels):
        return {"columns": list(grid.columns)}
    return {
        "resolution": grid.resolution,
        "timeslot": grid.timeslot,
        "timezone": grid.timezone,
        "slot": grid.slot,
    }


def request_of(said: Words, cells: pa.Table) -> Request:
    """Return the checked request; InputError for one that no plan may have."""
    error = one_of(said["error"], get_args(ErrorKind))
    request = Request(
        method=one_of(said["method"], get_args(Method)),
        mechanism=MECHANISMS[said["mechanism"]],
        statistics=statistics(said["statistics"], error),
        objective=one_of(said["objective"], get_args(Objective)),
        error=error,
        split=exact_of(said["split"]),
        epsilon=exact_of(said["epsilon"]),
        target=_targets(said["targets"], cells),
        clipping_range=one_of(said["clipping_range"], get_args(ClippingRangeMode)),
        range_share=exact_of(said["range_share"]),
        edition=None if said["edition"] is None else str(said["edition"]),
    )
    if (request.epsilon is None) == (request.target is None):
        raise InputError("it must ask for either a loss or targets.")
    return request


def _targets(names: list[str] | None, cells: pa.Table) -> dict[str, NDArray[np.float64]] | None:
    if names is None:
        return None
    return {
        one_of(name, ("mean", "variance", "sum")): numbers(cells, TARGET + name) for name in names
    }


def facts_of(said: Words, occupancy: Occupancy, cells: pa.Table) -> PublicMetadata:
    """Return the public facts, but for the way to count the records again."""
    table = CellTable(_grid(said["grid"]), **_places(cells))
    if list(table.names()) != cells["cell"].to_pylist():
        raise InputError("the names of cells do not fit its places or labels.")
    lower, upper = said["bounds"]
    return PublicMetadata(
        occupancy=occupancy,
        cells=table,
        lattice=ValueLattice.of((Fraction(lower), Fraction(upper)), Fraction(said["quantum"])),
        privacy_unit=one_of(said["privacy_unit"], UNITS),
        value=str(said["value"]),
        value_unit=str(said["value_unit"]),
        rules={str(name): int(count) for name, count in said["rules"].items()},
        identity={str(name): str(text) for name, text in said["identity"].items()},
    )


def _grid(said: Words) -> Cells | Labels:
    return Labels(*said["columns"]) if "columns" in said else Cells(**said)


def _places(cells: pa.Table) -> dict[str, Any]:
    """Return the columns that identify each cell, as `CellTable` takes them."""
    places = cells.column_names
    return {name: numbers(cells, name) for name in ("hexagon", "slot") if name in places} | {
        "labels": {
            name.removeprefix(LABEL): tuple(cells[name].to_pylist())
            for name in places
            if name.startswith(LABEL)
        }
    }


def exact_text(number: Fraction | None) -> str | None:
    """Return a number as exact text."""
    return None if number is None else decimal_text(number)


def numbers(table: pa.Table, column: str) -> NDArray[Any]:
    """Return a column without empty places as an array."""
    return np.asarray(table[column].combine_chunks().to_numpy(zero_copy_only=False))


def one_of(word: Any, known: tuple[Any, ...]) -> Any:  # noqa: ANN401  words of several types
    """Return a word that is one of the known ones; InputError otherwise."""
    if word not in known:
        raise InputError(f"{word!r} is none of {', '.join(map(str, known))}.")
    return word


def exact_of(text: str | None) -> Fraction | None:
    """Return a number above 0 from its exact text, None where there is none."""
    return None if text is None else stated(text)


def stated(text: str) -> Fraction:
    """Return a number above 0 from its exact text; TypeError where there is none."""
    number = Fraction(text)
    if number <= 0:
        raise InputError(f"{text} must be above 0.")
    return number
