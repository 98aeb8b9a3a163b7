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
from hexveil.mechanisms.presence import presence_decoding
from hexveil.mechanisms.presence.count_map import COUNT_MAP, decode_counts
from hexveil.mechanisms.presence.presence_allocation import FINE_MAP
from hexveil.model.cells import Cells, Labels, OneCell
from hexveil.model.statistic_terms import Share, parse_statistics
from hexveil.publishing.estimates.accuracy import beats_constant
from hexveil.publishing.estimates.table import TODAY
from hexveil.publishing.kinds import presence_table as released
from hexveil.publishing.kinds.distribution_checks import check_estimates
from hexveil.publishing.kinds.distribution_table import limits_of
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    check_delta,
    delta_of,
    find_differences,
    is_interval,
    is_same,
    lattice_of,
)
from hexveil.publishing.kinds.moment_checks import DEVIATION_TOLERANCE
from hexveil.publishing.kinds.presence_manifest import (
    GAUSSIAN,
    as_integers,
    stage_law,
    stage_losses,
    stated_ranges,
)
from hexveil.publishing.kinds.presence_table import OPEN, SMOOTHED, USERS, has_shapes
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
    mapped = released.map_statistics(statistics)
    needed = {
        "cell_cap": USERS in statistics and len(statistics) > 1,
        "bins": has_shapes(statistics),
        "histogram": mapped == (MEAN,) and "within" not in plan,
        "history": "within" in plan and mapped == (MEAN,),
    }
    for name, is_needed in needed.items():
        if (name in plan) != is_needed:
            yield f"plan/{name} does not belong to plan/statistics."
            return
    try:
        for term in parse_statistics(mapped or (MEAN,))[1]:
            if isinstance(term, Share):
                term.edge(lattice_of(manifest))
    except InputError:
        yield "plan/statistics names a statistic that no release has."
        return
    remembers = bool(manifest.get("memory", {}).get("releases"))
    if plan["columns"] != [*released.columns_of(statistics, remembers=remembers)]:
        yield "plan/columns are not those of plan/statistics."


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


def _grid(grid: Json) -> Cells | Labels:
    """Return the definition of a cell, from the manifest."""
    if grid["kind"] == "labels":
        columns = grid["columns"]
        return OneCell() if columns == ["cell"] and grid["cells"] == 1 else Labels(*columns)
    return Cells(grid["resolution"], grid["timeslot"], grid["timezone"], grid["slot"])


def check_presence(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses, statements and numbers that do not follow from each other."""
    yield from _check_losses(manifest)
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
    if statistics := released.map_statistics(plan["statistics"]):
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
    plan, statistics = manifest["plan"], manifest["plan"]["statistics"]
    noisy = {
        name: as_integers(numbers[name] * PARTS) for name in numbers if name.endswith("_noisy")
    }
    expected: dict[str, Floats] = {}
    if USERS in statistics:
        if (law := _law_of_counts(plan)) is None:
            yield "numbers of units have no stage of their own, with the stated cap on cells."
        else:
            expected |= decode_counts(noisy[f"{USERS}_noisy"], law, is_open).columns
    if has_shapes(statistics):
        weight, law = noisy["weight_noisy"] / PARTS, _published_law(plan)
        ends = presence_decoding.weight_interval(weight, law, plan["bins"], plan["open_from"])
        expected |= presence_decoding.noisy_columns("weight", weight, ends, is_open)
    elif MEAN in statistics:
        try:
            decoded = _decode_means(numbers, noisy, is_open, manifest)
        except InputError as error:
            yield str(error)
            return
        if TODAY[0] in numbers:
            # The estimates themselves: see publishing/memory/stored_day.py.
            columns = dict(decoded.columns)
            columns |= {
                today: columns.pop(name) for name, today in zip(ESTIMATED, TODAY, strict=True)
            }
            decoded = replace(decoded, columns=columns, error={MEAN: remembered_error(numbers)})
        made, place = released.map_accuracy(decoded)[0], "accuracy of mean"
        source = "the noisy numbers"
        yield from find_differences(
            manifest["accuracy"][0], made, place, source, DEVIATION_TOLERANCE
        )
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
    return law if is_same(stated, full) else None


def _decode_means(
    numbers: dict[str, Floats],
    noisy: dict[str, NDArray[np.int64]],
    is_open: NDArray[np.bool_],
    manifest: Json,
) -> presence_decoding.ReleasedMap:
    """Return the averages of the noisy numbers."""
    plan, lattice = manifest["plan"], lattice_of(manifest)
    lower, span = float(lattice.lower), float(lattice.span)
    window, centres, cut = stated_ranges(plan, numbers.__getitem__, is_open, (lower, lower + span))
    weight, law = noisy["weight_noisy"], _published_law(plan)
    upper = (weight + noisy["balance_noisy"]) // 2
    halves = np.concatenate([upper, weight - upper])
    threshold = None if plan["open_from"] is None else round(plan["open_from"] * PARTS)
    decoded = presence_decoding.decode_map(window, halves, law, cut, centres, threshold)
    return decoded.in_units(lower, span)


def _published_law(plan: Json) -> NoiseLaw:
    """Return the noise of the published map."""
    law = stage_law(plan)
    assert law is not None  # noqa: S101  the schema asks for a stage
    return law


# ---- losses ----


def _check_losses(manifest: Json) -> Iterator[str]:
    """Yield stages and statements that do not agree with the loss that is stated."""
    plan, guarantee, delta = manifest["plan"], manifest["guarantee"], delta_of(manifest)
    stages = plan["stages"]
    faults = [*check_delta(manifest, plan["fleet"]["units"])]
    if not delta and any(stage["noise"] == GAUSSIAN for stage in stages):
        faults.append("Gaussian noise keeps no pure promise, and no guarantee/delta is stated.")
    yield from faults
    if faults:
        return
    losses = [
        stage_losses(stage["noise"], stage["sensitivity"], stage["scale"], delta)
        for stage in stages
    ]
    for stage, loss in zip(stages, losses, strict=True):
        expected = {"squared_mu": None} | loss
        yield from find_differences(stage, expected, f"stage {stage['stage'][:40]!r}", "its noise")
        if stage["sensitivity"] < PARTS:
            yield "a stage states a sensitivity below that of one unit."
    if len({stage["stage"] for stage in stages}) < len(stages):
        yield "a stage stands twice."
    if stages[-1]["stage"] != _published_stage(plan) or stages[-1]["scale"] != plan["scale"]:
        yield "the scale of the plan is not that of the published map."
    total = math.fsum(loss["squared_mu" if delta else "epsilon"] for loss in losses)
    if delta and math.isfinite(total):
        total = square_epsilon(Fraction(total), delta)
    if total > round_up(Fraction(guarantee["epsilon_spent"])) * (1.0 + TOLERANCE):
        yield "the losses of the stages add up to more than guarantee/epsilon_spent."
    if guarantee["epsilon_requested"] != guarantee["epsilon_spent"]:
        yield "guarantee/epsilon_requested is not the loss of any unit, which is spent in full."


def _published_stage(plan: Json) -> str:
    """Return the name of the published stage."""
    if has_shapes(plan["statistics"]):
        return CELL_BINS
    return COUNT_MAP if plan["statistics"] == [USERS] else FINE_MAP


def _check_opening(counted: Floats, is_open: NDArray[np.bool_], manifest: Json) -> Iterator[str]:
    """Yield if the threshold is not that of the noise, or an open cell is below it."""
    plan = manifest["plan"]
    n_cells, law = manifest["grid"]["cells"], _published_law(plan)
    if (plan["false_openings"] is None) != (plan["open_from"] is None):
        yield "open_from and false_openings do not belong together."
        return
    if plan["open_from"] is None:
        return
    statistics, tail = plan["statistics"], min(plan["false_openings"] / n_cells, 0.5)
    # Numbers with noise that a weight, or a number of units, is the sum of.
    terms = plan["bins"] if has_shapes(statistics) else 2 if MEAN in statistics else 1
    expected = law.scale * law.total_quantile(terms, tail)
    # Noise is of whole parts.
    if not math.isclose(plan["open_from"] * PARTS, expected, rel_tol=1e-5, abs_tol=3.0):
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
