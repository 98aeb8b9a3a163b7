"""Checks of a release with private presence: its table, and its losses by its stages.

Recomputed from the manifest: the loss of each stage from sensitivity and scale, their sum, the
weight from which a cell is open, the intervals of weights and numbers of units, and grades.
Averages, and the choices behind them, leave nothing else to be recomputed. Statistics of a cell's
distribution are those of one: they agree.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.presence.count_map import COUNT_MAP, decode_counts
from hexveil.mechanisms.presence.presence_allocation import FINE_MAP
from hexveil.mechanisms.presence.presence_decoding import (
    ReleasedMap,
    decode_map,
    noisy_columns,
    weight_interval,
)
from hexveil.model.cells import Cells, Labels, OneCell
from hexveil.model.statistic_terms import Share, parse_statistics
from hexveil.publishing.estimates.accuracy import beats_constant
from hexveil.publishing.estimates.table import TODAY
from hexveil.publishing.kinds import presence_table as released
from hexveil.publishing.kinds.distribution_checks import check_estimates, lattice_of
from hexveil.publishing.kinds.distribution_table import limits_of
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    check_delta,
    delta_of,
    is_interval,
)
from hexveil.publishing.kinds.moment_checks import DEVIATION_TOLERANCE, is_same
from hexveil.publishing.kinds.presence_manifest import (
    GAUSSIAN,
    as_integers,
    stage_law,
    stage_losses,
    stated_ranges,
)
from hexveil.publishing.kinds.presence_table import (
    OPEN,
    SMOOTHED,
    USERS,
    has_shapes,
    map_statistics,
)
from hexveil.publishing.memory.presence_history import ESTIMATED, remembered_error
from hexveil.report.manifest_view import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats

    Json = dict[str, Any]


RECOMPUTED = (
    "the loss of any privacy unit, present or not, by the noise of all stages",
    "weights, numbers of units, and averages by noisy sums; and from which weight a cell is open",
)
UNKNOWN = (
    "smoothed averages and statistics of distributions: their numbers are not in the folder",
)
"""What a folder lets anybody recompute, and what it does not."""


def check_declared_statements(manifest: Json) -> Iterator[str]:
    """Yield statements that no release of this kind has; run before any part is used."""
    plan, statistics = manifest["plan"], manifest["plan"]["statistics"]
    if (USERS in statistics and len(statistics) > 1) != ("cell_cap" in plan):
        yield "plan/cell_cap does not belong to plan/statistics."
        return
    if has_shapes(statistics) and "bins" not in plan:
        yield "plan/bins is missing."
        return
    try:
        lattice = lattice_of(manifest)
        for term in parse_statistics(map_statistics(statistics) or (MEAN,))[1]:
            if isinstance(term, Share):
                term.edge(lattice)
    except InputError:
        yield "plan/statistics names a statistic that no release has."
        return
    remembers = _remembers(manifest)
    if plan["columns"] != [*released.columns_of(statistics, remembers=remembers)]:
        yield "plan/columns are not those of plan/statistics."
    elif ("history" in plan) != ("within" in plan):
        yield "plan/history and plan/within do not belong together."
    elif ("histogram" in plan or "within" in plan) != ("balance_noisy" in plan["columns"]):
        yield "plan/histogram does not belong to plan/columns."


def _remembers(manifest: Json) -> bool:
    """Return whether averages remember earlier days."""
    return bool(manifest.get("memory", {}).get("releases"))


def number_columns(manifest: Json) -> list[str]:
    """Return the columns of numbers."""
    return [name for name in manifest["plan"]["columns"] if not name.endswith("quality")]


def typed_columns(manifest: Json) -> dict[str, pa.DataType]:
    """Return the columns of a map with private presence, with their types."""
    types = dict.fromkeys(manifest["plan"]["columns"], pa.string())
    return {OPEN: pa.bool_()} | types | dict.fromkeys(number_columns(manifest), pa.float64())


def check_declared_cells(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if the cells of the table are not those that were declared."""
    described = json.dumps([repr(_grid(manifest["grid"])), *table["cell"].to_pylist()]).encode()
    if hashlib.sha256(described).hexdigest() != manifest["grid"]["fingerprint"]:
        yield "cells.parquet does not have the cells of the declared grid, in that order."


def check_presence(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses, statements and numbers that do not follow from each other."""
    yield from check_presence_losses(manifest)
    yield from _check_numbers(table, manifest)


def _check_numbers(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers that do not follow from each other, or from the manifest."""
    plan, lattice = manifest["plan"], lattice_of(manifest)
    is_open = np.array(table[OPEN].to_pylist(), dtype=bool)
    numbers = {name: numbers_of(table, name) for name in number_columns(manifest)}
    if manifest["grid"]["in_use"] and not is_open.all():
        yield "a cell that was declared to be in use is closed."
    for name, values in numbers.items():
        # The smoothed average borrows from other cells: a closed cell has one too.
        is_expected = is_open | (name == SMOOTHED)
        if (np.isfinite(values) != is_expected).any() or np.isinf(values).any():
            yield f"{name} is there for a closed cell, or missing for an open one."
            return
    counted = USERS if plan["statistics"] == [USERS] else "weight"
    yield from _check_opening(numbers[counted], is_open, manifest)
    if faults := tuple(_accuracy_faults(is_open, manifest)):
        yield from faults
    else:
        yield from _check_decoded(numbers, is_open, manifest)
        between = released.stated_deviations(manifest["accuracy"])
        grades = released.grade_columns(plan["statistics"], lattice, numbers, between, is_open)
        for name in plan["columns"]:
            if name in grades and grades[name] != table[name].to_pylist():
                yield f"{name} is not that of the intervals."
    if statistics := map_statistics(plan["statistics"]):
        moments, terms = parse_statistics(statistics)
        limits = limits_of(moments, terms, lattice)
        opened = {name: values[is_open] for name, values in numbers.items()}.__getitem__
        yield from check_estimates(limits, terms, lattice, opened, "", TOLERANCE)
        smoothed, slack = [numbers.get(SMOOTHED, np.zeros(0))] * 3, TOLERANCE * float(lattice.span)
        if MEAN in moments and not is_interval(smoothed, limits[MEAN], slack):
            yield f"{SMOOTHED} is out of the bounds."


# ---- columns, made again of the noisy numbers as a release does ----


def _check_decoded(
    numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> Iterator[str]:
    """Yield columns that the functions of a release do not make of the noisy numbers."""
    statistics = manifest["plan"]["statistics"]
    expected: dict[str, Floats] = {}
    if USERS in statistics:
        if (law := _law_of_counts(manifest["plan"])) is None:
            yield "numbers of units have no stage of their own, with the stated cap on cells."
        else:
            noisy = as_integers(numbers[f"{USERS}_noisy"] * PARTS)
            expected |= decode_counts(noisy, law, is_open).columns
    if has_shapes(statistics):
        weight, plan = as_integers(numbers["weight_noisy"] * PARTS) / PARTS, manifest["plan"]
        ends = weight_interval(weight, _published_law(plan), plan["bins"], plan["open_from"])
        expected |= noisy_columns("weight", weight, ends, is_open)
    elif MEAN in statistics:
        try:
            decoded = _decode_means(numbers, is_open, manifest)
        except InputError as error:
            yield str(error)
            return
        if _remembers(manifest):
            own = {name: decoded[name.replace("_today", "")] for name in TODAY}
            errors = {"mean": remembered_error(numbers)}
            # The estimates themselves: see publishing/memory/stored_day.py.
            kept = {name: one for name, one in decoded.columns.items() if name not in ESTIMATED}
            decoded = replace(decoded, columns=kept | own, error=errors)
        stated = manifest["accuracy"][0]
        if not all(
            is_same(stated[name], number, DEVIATION_TOLERANCE)
            if isinstance(number, float)
            else stated[name] == number
            for name, number in released.map_accuracy(decoded)[0].items()
        ):
            yield "the accuracy of mean does not follow from the noisy numbers of the cells."
        expected |= decoded.columns
    # It borrows from cells whose noisy numbers are not published.
    for name in expected.keys() - {SMOOTHED}:
        ends = numbers[name], expected[name]
        if not np.allclose(*ends, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            yield f"{name} does not follow from the noisy numbers of the cells."


def _law_of_counts(plan: Json) -> NoiseLaw | None:
    """Return the noise of numbers of units; None if their stage is not that of the cap."""
    law = stage_law(plan, COUNT_MAP)
    if law is None or "cell_cap" not in plan:
        return law
    full = float(plan["cell_cap"] ** (1 / law.power)) * PARTS
    (stated,) = (one["sensitivity"] for one in plan["stages"] if one["stage"] == COUNT_MAP)
    return law if math.isclose(stated, full, rel_tol=TOLERANCE) else None


def _decode_means(
    numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> ReleasedMap:
    """Return the averages of the noisy numbers."""
    plan, lattice = manifest["plan"], lattice_of(manifest)
    lower, span = float(lattice.lower), float(lattice.span)
    ranges = stated_ranges(plan, numbers.__getitem__, is_open, (lower, lower + span))
    weight = as_integers(numbers["weight_noisy"] * PARTS)
    upper = (weight + as_integers(numbers["balance_noisy"] * PARTS)) // 2
    noisy, (window, centres, cut) = np.concatenate([upper, weight - upper]), ranges
    threshold = None if plan["open_from"] is None else round(plan["open_from"] * PARTS)
    law = _published_law(plan)
    return decode_map(window, noisy, law, cut, centres, threshold).in_units(lower, span)


def _published_law(plan: Json) -> NoiseLaw:
    """Return the noise of the published map."""
    law = stage_law(plan)
    assert law is not None  # noqa: S101  the schema asks for a stage
    return law


# ---- losses ----


def check_presence_losses(manifest: Json) -> Iterator[str]:
    """Yield stages and statements that do not agree with the loss that is stated."""
    plan, delta = manifest["plan"], delta_of(manifest)
    faults = [*check_delta(manifest, plan["fleet"]["units"])]
    if not delta and any(stage["noise"] == GAUSSIAN for stage in plan["stages"]):
        faults.append("Gaussian noise keeps no pure promise, and no guarantee/delta is stated.")
    yield from faults
    if faults:
        return
    yield from _check_stages(plan, delta)
    guarantee = manifest["guarantee"]
    spent = Fraction(guarantee["epsilon_spent"])
    if recomputed_loss(manifest) > round_up(spent) * (1.0 + TOLERANCE):
        yield "the losses of the stages add up to more than guarantee/epsilon_spent."
    if guarantee["epsilon_requested"] != guarantee["epsilon_spent"]:
        yield "guarantee/epsilon_requested is not the loss of any unit, which is spent in full."


def _check_stages(plan: Json, delta: Fraction) -> Iterator[str]:
    """Yield stages that are not those of the plan, or state another loss than their noise has."""
    stages = plan["stages"]
    if len({stage["stage"] for stage in stages}) < len(stages):
        yield "a stage stands twice."
    for stage in stages:
        expected = _losses_of(stage, delta)
        if expected.keys() != stage.keys() & {"epsilon", "squared_mu"} or any(
            not math.isclose(stage[name], loss, rel_tol=TOLERANCE)
            for name, loss in expected.items()
        ):
            yield f"the loss of the stage {stage['stage'][:40]!r} is not that of its noise."
    published = stages[-1]
    if published["stage"] != _published_stage(plan) or published["scale"] != plan["scale"]:
        yield "the scale of the plan is not that of the published map."
    if any(stage["sensitivity"] < PARTS for stage in stages):
        yield "a stage states a sensitivity below that of one unit."


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


def _losses_of(stage: Json, delta: Fraction) -> dict[str, float]:
    """Return the loss of a stage by its sensitivity and scale."""
    return stage_losses(stage["noise"], stage["sensitivity"], stage["scale"], delta)


def _grid(grid: Json) -> Cells | Labels:
    """Return the definition of a cell, from the manifest."""
    if grid["kind"] == "labels":
        columns = grid["columns"]
        return OneCell() if columns == ["cell"] and grid["cells"] == 1 else Labels(*columns)
    return Cells(grid["resolution"], grid["timeslot"], grid["timezone"], grid["slot"])


def _check_opening(counted: Floats, is_open: NDArray[np.bool_], manifest: Json) -> Iterator[str]:
    """Yield if the threshold is not that of the noise, or an open cell is below it."""
    plan = manifest["plan"]
    n_cells, law = manifest["grid"]["cells"], _published_law(plan)
    if (plan["false_openings"] is None) != (plan["open_from"] is None):
        yield "open_from and false_openings do not belong together."
        return
    if plan["open_from"] is None:
        return
    expected: float
    tail = min(plan["false_openings"] / n_cells, 0.5)
    if has_shapes(plan["statistics"]):
        expected = float(np.ceil(law.scale * law.total_quantile(plan["bins"], tail)))
    elif "mean" in plan["statistics"]:
        expected = law.opening_threshold(n_cells, plan["false_openings"])
    else:
        expected = law.quantile(tail)
    if not math.isclose(plan["open_from"] * PARTS, expected, rel_tol=TOLERANCE, abs_tol=0.5):
        yield "open_from is not that of the noise and the number of cells."
    if (counted[is_open] < plan["open_from"] - TOLERANCE).any():
        yield "a cell is open below open_from."


def _accuracy_faults(is_open: NDArray[np.bool_], manifest: Json) -> Iterator[str]:
    """Yield statements on accuracy that contradict the cells or themselves."""
    stated = [statement["statistic"] for statement in manifest["accuracy"]]
    if stated != list(released.estimated_columns(manifest["plan"]["statistics"])):
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    for statement in manifest["accuracy"]:
        error, between = statement["typical_error"], statement["between_cells"]
        if statement["beats_constant"] != beats_constant(error, between):
            yield "accuracy/beats_constant is not that of the error and the deviation."
        if (error is None) == is_open.any() or (between is None) != (
            is_open.sum() < released.MIN_COMPARED
        ):
            yield "the accuracy in manifest.json is not that of so many open cells."
