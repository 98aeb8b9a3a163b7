"""Checks of a release with private presence: its table, and its losses by its stages.

Recomputed from the manifest: the loss of each stage from sensitivity and scale, their sum, the
weight from which a cell is open, the intervals of weights and numbers of units, and grades.
Averages, and the choices behind them, leave nothing else to be recomputed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.noise_law import Gaussian
from hexveil.accounting.promise import PARTS
from hexveil.base.rational import round_up
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.mechanisms.presence.count_map import COUNT_MAP, decode_counts
from hexveil.mechanisms.presence.presence_allocation import FINE_MAP
from hexveil.model.cells import Cells, Labels, OneCell
from hexveil.publishing.estimates.quality_grades import beats_constant
from hexveil.publishing.places import PLACE
from hexveil.publishing.presence.map_accuracy import MIN_COMPARED, stated_deviations
from hexveil.publishing.presence.presence_manifest import GAUSSIAN, law_of, stage_losses
from hexveil.publishing.presence.presence_table import (
    OPEN,
    SMOOTHED,
    UNCUT,
    USERS,
    USERS_GRADE,
    columns_of,
    count_columns,
    grade_counts,
    grade_means,
)
from hexveil.publishing.presence.shape_table import estimated_columns, has_shapes
from hexveil.publishing.verification import shape_checks
from hexveil.publishing.verification.decoded_maps import (
    check_decoded,
    compare_columns,
    in_parts,
    published_law,
)
from hexveil.publishing.verification.files.file_comparison import (
    TOLERANCE,
    check_names,
    check_outlines,
)
from hexveil.report.promise_wording import (
    assumptions,
    neighbours,
    not_protected,
    probability_factor,
    promise,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats

    Json = dict[str, Any]


LEAST_DELTA = Fraction(1, 10**300)
"""Smallest δ that a double holds."""


def check_presence_table(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield the faults of columns and cells of the table; numbers come afterwards."""
    if problem := shape_checks.unreadable_statistics(manifest):
        yield problem
        return
    needed, stated = columns_of(manifest["plan"]["statistics"]), manifest["plan"]["columns"]
    # Earlier versions did not publish uncut numbers.
    if stated not in ([*needed], [name for name in needed if name not in UNCUT]):
        yield "plan/columns are not those of plan/statistics."
        return
    if ("histogram" in manifest["plan"]) != ("balance_noisy" in stated):
        yield "plan/histogram does not belong to plan/columns."
        return
    needed = _columns(manifest)
    for name in (*needed, OPEN):
        if name not in table.column_names:
            yield f"cells.parquet has no column {name!r}."
            return
    labels = manifest["grid"].get("columns", [])
    known_names = {*needed, OPEN, *PLACE, *labels, "geometry"}
    strange = sorted({*table.column_names} - known_names)
    if strange:
        yield f"cells.parquet has a column {strange[0]!r}, which no such release has."
        return
    names = table["cell"].to_pylist()
    if len(set(names)) < len(names):
        yield "a cell stands twice."
    if manifest["grid"]["kind"] == "hexagons" and "geometry" not in table.column_names:
        yield "cells.parquet has no column 'geometry'."
        return
    yield from check_outlines(table, manifest)
    yield from check_names(table, manifest)
    described = json.dumps([repr(_grid(manifest["grid"])), *names]).encode()
    if hashlib.sha256(described).hexdigest() != manifest["grid"]["fingerprint"]:
        yield "cells.parquet does not have the cells of the declared grid, in that order."


def check_presence(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses, statements and numbers that do not follow from each other."""
    yield from check_presence_losses(manifest)
    yield from check_presence_numbers(table, manifest)


def check_presence_numbers(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers that do not follow from each other, or from the manifest."""
    plan = manifest["plan"]
    is_open = np.array(table[OPEN].to_pylist(), dtype=bool)
    numbers = {
        name: np.asarray(table[name].to_numpy(), dtype=np.float64)
        for name in _columns(manifest)
        if not name.endswith("quality")
    }
    if manifest["grid"]["in_use"] and not is_open.all():
        yield "a cell that was declared to be in use is closed."
    for name, column in numbers.items():
        # The smoothed average borrows from other cells: a closed cell has one too.
        is_expected = is_open | (name == SMOOTHED)
        if (np.isfinite(column) != is_expected).any() or np.isinf(column).any():
            yield f"{name} is there for a closed cell, or missing for an open one."
            return
    counted = "users" if plan["statistics"] == [USERS] else "weight"
    yield from _check_opening(numbers[counted], is_open, manifest)
    yield from check_decoded(table, numbers, manifest)
    # Earlier versions stated no accuracy, and graded by intervals.
    faults = tuple(_accuracy_faults(is_open, manifest)) if "accuracy" in manifest else ()
    yield from faults
    if not faults and "accuracy" in manifest:
        yield from _check_grades(table, numbers, is_open, manifest)
    if "cell_cap" in plan:
        yield from _check_counts_beside(table, numbers, is_open, manifest)
    if has_shapes(plan["statistics"]):
        yield from shape_checks.check_shapes(numbers, is_open, manifest)
    elif "mean" in plan["statistics"]:
        yield from _check_means(numbers, is_open, manifest)


def _check_counts_beside(
    table: pa.Table, numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> Iterator[str]:
    """Yield if numbers of units beside a map are not those of their own stage."""
    plan = manifest["plan"]
    stages = [stage for stage in plan["stages"] if stage["stage"] == COUNT_MAP]
    law, full = None, plan["cell_cap"] * PARTS
    if len(stages) == 1:
        law = law_of(stages[0]["noise"], stages[0]["scale"])
        full = math.sqrt(plan["cell_cap"] * PARTS**2) if isinstance(law, Gaussian) else full
    if law is None or stages[0]["sensitivity"] != full:
        yield "numbers of units have no stage of their own, with the stated cap on cells."
        return
    decoded = decode_counts(in_parts(numbers, USERS), law, is_open)
    columns = count_columns(decoded)
    columns[USERS_GRADE] = columns.pop("quality")
    yield from compare_columns(table, columns, USERS)


def check_presence_losses(manifest: Json) -> Iterator[str]:
    """Yield stages and statements that do not agree with the loss that is stated."""
    fault = _delta_fault(manifest)
    if fault is not None:
        yield fault
        return
    yield from _check_stages(manifest["plan"], delta_of(manifest))
    guarantee, spent = manifest["guarantee"], Fraction(manifest["guarantee"]["epsilon_spent"])
    if recomputed_loss(manifest) > round_up(spent) * (1.0 + TOLERANCE):
        yield "the losses of the stages add up to more than guarantee/epsilon_spent."
    if guarantee["epsilon_requested"] != guarantee["epsilon_spent"]:
        yield "guarantee/epsilon_requested is not the loss of any unit, which is spent in full."
    unit, delta = guarantee["privacy_unit"], delta_of(manifest)
    factor = guarantee["probability_factor"]
    words = {
        "promise": promise(unit, spent, protect="presence", delta=delta),
        "neighbours": neighbours(unit, protect="presence"),
        "assumptions": [
            *assumptions(unit, protect="presence", delta=delta),
            # Its words are checked with the manifest (`column_totals.check_together`).
            *guarantee["assumptions"][-1:] * ("columns_together" in manifest),
        ],
        "not_protected": not_protected(protect="presence"),
    }
    for key, text in words.items():
        if guarantee[key] != text:
            yield f"guarantee/{key} is not that of this model and loss."
    stated = math.inf if factor is None else factor
    if not math.isclose(stated, probability_factor(spent), rel_tol=TOLERANCE):
        yield "guarantee/probability_factor is not e to the power of guarantee/epsilon_spent."


def _delta_fault(manifest: Json) -> str | None:
    """Return the fault in the δ of a manifest; None without one."""
    plan, delta = manifest["plan"], delta_of(manifest)
    if delta and not LEAST_DELTA <= delta < 1:
        return "guarantee/delta is no probability above 0."
    if delta * plan["fleet"]["units"] >= 1:
        return "guarantee/delta is not below one over the declared number of units."
    if not delta and any(stage["noise"] == GAUSSIAN for stage in plan["stages"]):
        return "Gaussian noise keeps no pure promise, and no guarantee/delta is stated."
    return None


def _check_stages(plan: Json, delta: Fraction) -> Iterator[str]:
    """Yield stages that are not those of the plan, or state another loss than their noise has."""
    stages = plan["stages"]
    if len({stage["stage"] for stage in stages}) < len(stages):
        yield "a stage stands twice."
    for stage in stages:
        found = _losses_of(stage, delta)
        if found.keys() != stage.keys() & {"epsilon", "squared_mu"} or any(
            not math.isclose(stage[name], loss, rel_tol=TOLERANCE) for name, loss in found.items()
        ):
            yield f"the loss of the stage {stage['stage'][:40]!r} is not that of its noise."
    last = stages[-1]
    if last["stage"] != _published_stage(plan) or last["scale"] != plan["scale"]:
        yield "the scale of the plan is not that of the published map."
    if any(stage["sensitivity"] < PARTS for stage in stages):
        yield "a stage states a sensitivity below that of one unit."


def delta_of(manifest: Json) -> Fraction:
    """Return the δ that a manifest states; 0 of a pure promise."""
    return Fraction(manifest["guarantee"].get("delta", 0))


def _losses_of(stage: Json, delta: Fraction) -> dict[str, float]:
    """Return the loss of a stage by its sensitivity and scale."""
    return stage_losses(stage["noise"], stage["sensitivity"], stage["scale"], delta)


def _published_stage(plan: Json) -> str:
    """Return the name of the published stage."""
    if has_shapes(plan["statistics"]):
        return CELL_BINS
    return COUNT_MAP if plan["statistics"] == [USERS] else FINE_MAP


def recomputed_loss(manifest: Json) -> float:
    """Return ε of all stages together, at the δ that is stated."""
    delta = delta_of(manifest)
    losses = [_losses_of(stage, delta) for stage in manifest["plan"]["stages"]]
    if not delta:
        return math.fsum(loss["epsilon"] for loss in losses)
    square = math.fsum(loss["squared_mu"] for loss in losses)
    return square_epsilon(Fraction(square), delta) if math.isfinite(square) else math.inf


def _columns(manifest: Json) -> tuple[str, ...]:
    return tuple(manifest["plan"]["columns"])


def _grid(grid: Json) -> Cells | Labels:
    """Return the definition of a cell, from the manifest."""
    if grid["kind"] == "labels":
        columns = grid["columns"]
        return OneCell() if columns == ["cell"] and grid["cells"] == 1 else Labels(*columns)
    return Cells(grid["resolution"], grid["timeslot"], grid["timezone"], grid["slot"])


def _check_opening(counted: Floats, is_open: NDArray[np.bool_], manifest: Json) -> Iterator[str]:
    """Yield if the threshold is not that of the noise, or an open cell is below it."""
    plan = manifest["plan"]
    n_cells, law = manifest["grid"]["cells"], published_law(manifest)
    if (plan["false_openings"] is None) != (plan["open_from"] is None):
        yield "open_from and false_openings do not belong together."
        return
    if plan["open_from"] is None:
        return
    expected: float
    if has_shapes(plan["statistics"]):
        expected = shape_checks.shape_threshold(manifest, law)
    elif "mean" in plan["statistics"]:
        expected = law.opening_threshold(n_cells, plan["false_openings"])
    else:
        expected = law.quantile(min(plan["false_openings"] / n_cells, 0.5))
    if not math.isclose(plan["open_from"] * PARTS, expected, rel_tol=TOLERANCE, abs_tol=0.5):
        yield "open_from is not that of the noise and the number of cells."
    if (counted[is_open] < plan["open_from"] - TOLERANCE).any():
        yield "a cell is open below open_from."


def _accuracy_faults(is_open: NDArray[np.bool_], manifest: Json) -> Iterator[str]:
    """Yield statements on accuracy that contradict the cells or themselves."""
    stated = [statement["statistic"] for statement in manifest["accuracy"]]
    if stated != list(estimated_columns(manifest["plan"]["statistics"])):
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    for statement in manifest["accuracy"]:
        error, between = statement["typical_error"], statement["between_cells"]
        if statement["beats_constant"] != beats_constant(error, between):
            yield "accuracy/beats_constant is not that of the error and the deviation."
        if (error is None) == is_open.any() or (between is None) != (is_open.sum() < MIN_COMPARED):
            yield "the accuracy in manifest.json is not that of so many open cells."


def _check_grades(
    table: pa.Table, numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> Iterator[str]:
    """Yield if grades are not those of the intervals."""
    if has_shapes(manifest["plan"]["statistics"]):
        for name, grades in shape_checks.shape_grades(numbers, is_open, manifest).items():
            if grades != table[name].to_pylist():
                yield f"{name} is not that of the intervals."
        return
    if "mean" in manifest["plan"]["statistics"]:
        if "mean_range_low" not in numbers:
            return
        lower, upper = (float(Fraction(manifest["bounds"][end])) for end in ("lower", "upper"))
        between = stated_deviations(manifest["accuracy"])["mean"]
        grades = grade_means(numbers, between, (lower, upper), is_open)
    else:
        ends = numbers["users_low"], numbers["users_high"]
        grades = grade_counts(*ends, numbers["users"], is_open)
    if grades != table["quality"].to_pylist():
        yield "quality is not that of the intervals."


def _check_means(
    numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> Iterator[str]:
    """Yield if averages and their intervals do not lie in order within the bounds."""
    lower, upper = (float(Fraction(manifest["bounds"][end])) for end in ("lower", "upper"))
    slack = TOLERANCE * max(1.0, upper - lower)
    smoothed = numbers[SMOOTHED]
    if not ((smoothed >= lower - slack) & (smoothed <= upper + slack)).all():
        yield f"{SMOOTHED} is out of the bounds."
    inner = [numbers[one][is_open] for one in ("mean_low", "mean", "mean_high")]
    ends = [np.full_like(inner[0], lower), *inner, np.full_like(inner[0], upper)]
    if any((above < below - slack).any() for below, above in itertools.pairwise(ends)):
        yield "mean_low, mean and mean_high are no interval within the bounds."


def describe_presence(manifest: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the figures that were recomputed and agree, and those that could not be, in words."""
    guarantee, plan = manifest["guarantee"], manifest["plan"]
    stages, columns = plan["stages"], plan["columns"]
    at = f" at delta {guarantee['delta']}" if "delta" in guarantee else ""
    loss = (
        f"loss of any {guarantee['privacy_unit']}, present or not: "
        f"{recomputed_loss(manifest):.9g} by the noise of {len(stages)} "
        f"{'stage' if len(stages) == 1 else 'stages'}, {guarantee['epsilon_spent']} as stated{at}"
    )
    if has_shapes(plan["statistics"]):
        unknown = ["statistics of distributions: they follow from numbers not in the folder"]
    elif "balance_noisy" in columns:
        unknown = ["smoothed averages: they borrow from cells whose numbers are not published"]
    else:
        unknown = ["averages and their intervals"] * (plan["statistics"] != [USERS])
    return (loss, AVERAGES if "balance_noisy" in columns else INTERVALS), tuple(unknown)


INTERVALS = (
    "intervals of weights or numbers of units, and the weight from which a cell is open: by the "
    "law of the noise"
)
AVERAGES = f"averages, by noisy sums; {INTERVALS}"
