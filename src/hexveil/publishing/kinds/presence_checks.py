"""Checks of a release with private presence: its table, and its losses by its stages.

Recomputed from the manifest: the loss of each stage from sensitivity and scale, their sum, and the
weight from which a cell is open. Weights, numbers of units and averages are made again of the noisy
numbers by the functions of a release, and so are accuracy and grades; what is smoothed, and
statistics of distributions whose bins are in no `memory.npy`, are taken as they are stated. Those
of a cell are those of one distribution: they agree.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Bools, Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.distribution.shape_statistics import MEAN, ShapeStatistics
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit
from hexveil.mechanisms.presence import presence_decoding
from hexveil.mechanisms.presence.count_map import COUNT_MAP, decode_counts
from hexveil.mechanisms.presence.presence_decoding import ReleasedMap
from hexveil.mechanisms.presence.remembered_map import RememberedShapes
from hexveil.mechanisms.presence.shape_allocation import estimate_cells
from hexveil.model.cells import Cells, Labels, OneCell, attribute_codes
from hexveil.model.public_metadata import FineBins
from hexveil.model.statistic_terms import on_lattice, parse_statistics
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
from hexveil.publishing.memory import stored_day
from hexveil.publishing.memory.presence_history import ESTIMATED, remembered_error
from hexveil.publishing.memory.score_history import read_shape
from hexveil.report.manifest_view import numbers_of

Json = dict[str, Any]


def check_declared_statements(manifest: Json) -> Iterator[str]:
    """Yield statements that no release of this kind has; run before any part is used."""
    plan, statistics = manifest["plan"], manifest["plan"]["statistics"]
    is_mean, is_remembered = released.map_statistics(statistics) == (MEAN,), "within" in plan
    is_kept = is_mean or has_shapes(statistics)
    needed = {
        "cell_cap": USERS in statistics and len(statistics) > 1,
        "bins": has_shapes(statistics),
        "histogram": is_mean and not is_remembered,
        "history": is_kept and (is_remembered or plan["form"] == RememberedShapes.kind),
    }
    if any((name in plan) != is_needed for name, is_needed in needed.items()):
        yield f"one of {', '.join(needed)} in plan does not belong to plan/statistics."
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
    plan, lattice = manifest["plan"], lattice_of(manifest)
    is_open = np.array(table[OPEN].to_pylist(), dtype=bool)
    numbers = {name: numbers_of(table, name) for name in number_columns(manifest)}
    for name, values in numbers.items():
        # The smoothed average borrows from other cells: a closed cell has one too.
        is_expected = is_open | (name == SMOOTHED)
        if (np.isfinite(values) != is_expected).any() or np.isinf(values).any():
            yield f"{name} is there for a closed cell, or missing for an open one."
            return
    yield from _check_opening(numbers, is_open, manifest)
    try:
        decoded = _decode_again(numbers, is_open, manifest)
    except InputError as error:
        yield str(error)
        return
    stated, made = manifest["accuracy"], released.map_accuracy(decoded)
    yield from find_differences(stated, made, "accuracy", "the cells", DEVIATION_TOLERANCE)
    # By stated numbers: rounding must not turn a grade.
    between = released.stated_deviations(stated)
    grades = released.grade_columns(plan["statistics"], lattice, numbers, between, is_open)
    for name in plan["columns"]:
        if name in grades:
            if grades[name] != table[name].to_pylist():
                yield f"{name} is not that of the intervals."
            continue
        ends = numbers[name], decoded[name]
        if not np.allclose(*ends, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            yield f"{name} does not follow from the noisy numbers of the cells."
    if statistics := released.map_statistics(plan["statistics"]):
        moments, terms = parse_statistics(statistics)
        limits = limits_of(moments, terms, lattice)
        opened = {name: values[is_open] for name, values in numbers.items()}.__getitem__
        yield from check_estimates(limits, terms, lattice, opened, "", TOLERANCE)
        smoothed, slack = [numbers.get(SMOOTHED, np.zeros(0))] * 3, TOLERANCE * float(lattice.span)
        if MEAN in moments and not is_interval(smoothed, limits[MEAN], slack):
            yield f"{SMOOTHED} is out of the bounds."


# ---- the map, made again of the noisy numbers as a release does ----


def _decode_again(numbers: dict[str, Floats], is_open: Bools, manifest: Json) -> ReleasedMap:
    """Return the map that the noisy numbers give; the rest of it as it is stated.

    Raises
    ------
    InputError
        Of noise or ranges that no release has.
    """
    plan, statistics = manifest["plan"], manifest["plan"]["statistics"]
    noisy = {
        name: as_integers(numbers[name] * PARTS) for name in numbers if name.endswith("_noisy")
    }
    columns, error, between = dict(numbers), {}, {}
    if has_shapes(statistics):
        weight, law = noisy["weight_noisy"] / PARTS, _published_law(plan)
        # Of a map of two halves it is exact: see `decode_map`.
        margin = law.opening_threshold(1, presence_decoding.MISS / 2) / PARTS
        known = plan["bins"], plan["open_from"], margin if "within" in plan else None
        ends = presence_decoding.weight_interval(weight, law, *known)
        columns |= presence_decoding.noisy_columns("weight", weight, ends, is_open)
        stated = {one["statistic"]: one for one in manifest["accuracy"]}
        for name in released.estimated_columns(statistics):
            error[name] = np.full(is_open.size, stated[name]["typical_error"], dtype=float)
            between[name] = stated[name]["between_cells"]
    elif MEAN in statistics:
        decoded = _decode_means(numbers, noisy, is_open, manifest)
        made, error, between = dict(decoded.columns), dict(decoded.error), dict(decoded.between)
        # It borrows from cells whose noisy numbers are not published.
        del made[SMOOTHED]
        if TODAY[0] in numbers:
            # The estimates themselves: see publishing/memory/stored_day.py.
            made |= {today: made.pop(name) for name, today in zip(ESTIMATED, TODAY, strict=True)}
            error = {MEAN: remembered_error(numbers)}
        columns |= made
    if USERS in statistics:
        columns |= decode_counts(noisy[f"{USERS}_noisy"], _law_of_counts(plan), is_open).columns
    return ReleasedMap(is_open, columns, error, between)


def _law_of_counts(plan: Json) -> NoiseLaw:
    """Return the noise of numbers of units; InputError if their stage is not that of the cap."""
    law, stages = stage_law(plan, COUNT_MAP), {one["stage"]: one for one in plan["stages"]}
    power = 1 if law is None else law.power
    full = float(plan.get("cell_cap", 0) ** (1 / power)) * PARTS
    if law is None or (full and not is_same(stages[COUNT_MAP]["sensitivity"], full)):
        raise InputError("numbers of units have no stage with the stated cap on cells.")
    return law


def _decode_means(
    numbers: dict[str, Floats], noisy: dict[str, NDArray[np.int64]], is_open: Bools, manifest: Json
) -> ReleasedMap:
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


def check_bins(content: bytes, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield statistics that are not those of the bins and distributions in `memory.npy`."""
    plan, memory, lattice = manifest["plan"], manifest["memory"], lattice_of(manifest)
    is_open = stored_day.open_rows(table)
    rows = stored_day.from_bytes(content, table.num_rows, memory)[is_open]
    opened, noise = table.filter(is_open), _published_law(plan).number_deviation / PARTS
    shape, place = read_shape(memory["shape"]), np.array(memory["bins"])
    weight = numbers_of(opened, "weight_noisy")
    is_whole = np.allclose(rows["bins"].sum(axis=1), weight, rtol=TOLERANCE, atol=TOLERANCE)
    if not (
        is_whole
        and is_same(memory["noise"], noise)
        and place.size == shape.edges.size == len(memory["shares"])
    ):
        yield f"the bins in {stored_day.FILE} are not those of the weights."
        return
    forecast = TiltFit(rows["alpha"], rows["covariance"]) if memory["releases"] else None
    moments, terms = parse_statistics(released.map_statistics(plan["statistics"]))
    known = FineBins(shape.edges), lattice, on_lattice(terms, lattice), bool(moments)
    named = manifest["grid"].get("columns", ("hexagon", "slot"))
    attributes = [np.array(opened[k].to_pylist()) for k in named if k in opened.column_names]
    groups = attribute_codes(attributes)
    pooled, statistics = (np.array(memory["shares"]), shape.place), ShapeStatistics(*known)
    made = estimate_cells(statistics, pooled, place, rows["bins"], noise, groups, forecast)
    for name, *ends in zip(
        statistics.columns, *(one.T for one in vars(made).values()), strict=True
    ):
        for end, numbers in zip(released.ENDS, ends[:3], strict=True):
            shown = numbers_of(opened, f"{name}{end}")
            if not np.allclose(shown, numbers, rtol=TOLERANCE, atol=TOLERANCE):
                yield f"{name}{end} is not that of {stored_day.FILE}."


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
    total = 0.0
    for stage in stages:
        loss = stage_losses(stage["noise"], stage["sensitivity"], stage["scale"], delta)
        total += loss["squared_mu" if delta else "epsilon"]
        expected = {"squared_mu": None} | loss
        yield from find_differences(stage, expected, f"stage {stage['stage'][:40]!r}", "its noise")
        if stage["sensitivity"] < PARTS:
            yield "a stage states a sensitivity below that of one unit."
    if len({stage["stage"] for stage in stages}) < len(stages):
        yield "a stage stands twice."
    if stages[-1]["scale"] != plan["scale"]:
        yield "the scale of the plan is not that of the published map."
    if delta and math.isfinite(total):
        total = square_epsilon(Fraction(total), delta)
    if total > round_up(Fraction(guarantee["epsilon_spent"])) * (1.0 + TOLERANCE):
        yield "the losses of the stages add up to more than guarantee/epsilon_spent."
    if guarantee["epsilon_requested"] != guarantee["epsilon_spent"]:
        yield "guarantee/epsilon_requested is not the loss of any unit, which is spent in full."


def _check_opening(numbers: dict[str, Floats], is_open: Bools, manifest: Json) -> Iterator[str]:
    """Yield if the threshold is not that of the noise, or an open cell is below it."""
    plan, law, statistics = (
        manifest["plan"], _published_law(manifest["plan"]), manifest["plan"]["statistics"],
    )  # fmt: skip
    if manifest["grid"]["in_use"] and not is_open.all():
        yield "a cell that was declared to be in use is closed."
    if (plan["false_openings"] is None) != (plan["open_from"] is None):
        yield "open_from and false_openings do not belong together."
    elif plan["open_from"] is not None:
        # Numbers with noise that a weight, or a number of units, is the sum of.
        terms = plan["bins"] if has_shapes(statistics) else 2 if MEAN in statistics else 1
        tail = min(plan["false_openings"] / manifest["grid"]["cells"], 0.5)
        expected = law.scale * law.total_quantile(terms, tail)
        # Noise is of whole parts.
        if not math.isclose(plan["open_from"] * PARTS, expected, rel_tol=1e-5, abs_tol=3.0):
            yield "open_from is not that of the noise and the number of cells."
        counted = numbers[USERS if statistics == [USERS] else "weight"]
        if (counted[is_open] < plan["open_from"] - TOLERANCE).any():
            yield "a cell is open below open_from."
