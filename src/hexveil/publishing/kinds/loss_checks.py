"""Checks of a folder's statements on losses and errors, each fact against the others.

Losses, or squares of μ under a δ, have to lie within the limits that scales, biases, bounds and
counts leave them (recomputed_losses.py); privacy steps add up to them; naive accounting charges no
less; biases and bounds are those that a release states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.promise import PARTS, Pure
from hexveil.base.arrays import Floats
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED
from hexveil.mechanisms.looks.clipped_variance import STEPS
from hexveil.mechanisms.looks.pooled_means import (
    BINS,
    PooledChoice,
    all_edges,
    inner_edges,
    usual_range,
)
from hexveil.mechanisms.looks.weighted_variance import SHOWN
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.stage_data import widened
from hexveil.publishing.kinds.guarantee import check_delta, check_spent
from hexveil.publishing.kinds.recomputed_losses import (
    CHOICES,
    HISTOGRAM,
    TOLERANCE,
    ReleaseStatements,
    StatedStatistic,
    choices_cost,
    recompute_losses,
    share_of_noise,
)

Json = dict[str, Any]


ROUNDED = 1.5
"""Quanta by which whole numbers may differ from what they were rounded from."""
EPSILON_TOLERANCE = 1e-11
"""Largest error of a sum of a few epsilons rounded to twelve places."""
DELTA_STEPS = {*CHOICES, HISTOGRAM, "first_look", "cells"}
"""Steps of releases that may have a delta."""


def find_problems(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the impossible statements on losses and errors, a sentence each."""
    yield from _check_bounds(stated)
    yield from check_spent(stated.manifest)
    yield from _check_cost(stated)
    yield from _check_units(stated)
    faults = [*_check_squares(stated)]
    yield from faults
    if not faults:
        yield from _check_losses(stated)
        yield from _check_steps(stated)
    yield from _check_errors(stated)


def _check_cost(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions on the cost: cells with noise cost, and constants do not."""
    largest, ledger = stated.manifest["losses"]["max"], stated.manifest["ledger"]
    naive = float(Fraction(stated.manifest["guarantee"]["l0_epsilon"]))
    if naive < largest * (1.0 - TOLERANCE):
        yield "l0_epsilon is smaller than the loss spent, so it is no sum over cells."
    # A private choice alone reads values, too, and needs no Laplace noise.
    has_noise = stated.has_cell_stages or any(p.scale.any() for p in stated.statistics.values())
    if has_noise and (not largest or ledger is None):
        yield "a cell has noise, and the release says that it cost nothing."
    if not has_noise and (largest or ledger is not None):
        yield "no cell has noise, and the release says that it cost something."


def _check_units(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between losses and numbers of units."""
    losses = stated.manifest["losses"]
    if losses["units"] < stated.users.max(initial=0) or losses["at_zero"] > losses["units"]:
        yield "losses are of fewer units than a cell has."
    if (losses["at_zero"] == losses["units"]) != (not losses["max"]):
        yield "either all units lose nothing, or one loses something."


def _check_squares(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions of a δ, or of a pure promise, with squares of μ and steps."""
    losses, delta = stated.manifest["losses"], stated.delta
    if ("squared_mu" in losses) != bool(delta):
        yield "squares of mu are stated without a delta, or a delta without them."
        return
    faults = [*check_delta(stated.manifest, losses["units"])]
    yield from faults
    if faults or not delta:
        return
    if stated.steps.keys() - DELTA_STEPS:
        yield "the release has a delta, and steps that none has."
        return
    square = Fraction(losses["squared_mu"]["max"])
    if not math.isclose(square_epsilon(square, delta), losses["max"], rel_tol=TOLERANCE):
        yield "the largest loss is not that of the largest square of mu at this delta."


def _check_losses(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between the losses and the cells."""
    total, largest = recompute_losses(stated)
    added, units = stated.added, stated.manifest["losses"]["units"]
    powers = {"mean": 1, "variance": 2}
    rates = (
        share_of_noise(stated.span ** powers[p.name], p.scale).sum()
        for p in stated.statistics.values()
    )
    # Where nearly all of a cell is clipped, its bias determines the remainder badly.
    # Rounding is relative to the rates, not to their difference, which can cancel.
    slack = TOLERANCE * (1.0 + total[0] + float(sum(rates)))
    rounding = 1e-6 if stated.delta else 0.0
    for subject, limits, number in (
        ("all units together lose", total, added["mean"] * units),
        ("the most exposed unit loses", largest, added["max"]),
    ):
        low, high = limits[0] * (1.0 - rounding) - slack, limits[1] * (1.0 + rounding) + slack
        if not low <= number <= high:
            yield f"{subject} another sum by the scales, biases, bounds and counts of the cells."


def _check_steps(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between the privacy steps and the loss."""
    spent, steps = stated.added["max"], stated.manifest["plan"]["privacy_steps"]
    if bool(steps) != bool(spent):
        yield "privacy steps are named where nothing was spent, or none where something was."
        return
    if len(stated.steps) < len(steps) or (
        steps and not {"cells", "cell_stages"} & stated.steps.keys()
    ):
        yield "a privacy step occurs twice, or that of the cells is missing."
        return
    costs = [stated.cost(step) for step in steps]
    # An epsilon is rounded to twelve places, a square is not.
    room = 1e-15 if stated.delta else EPSILON_TOLERANCE
    if any(
        not math.isclose(step["share"] * spent, cost, rel_tol=TOLERANCE, abs_tol=room)
        for step, cost in zip(steps, costs, strict=True)
    ):
        yield "a privacy step's share is not its share of what was spent."
    cost_of_choices = sum(
        stated.cost(stated.steps[name]) for name in CHOICES if name in stated.steps
    )
    if not math.isclose(cost_of_choices, choices_cost(stated), rel_tol=1e-6):
        yield "the cost of a range's choices is not that of their epsilon."
    if stated.has_cell_stages:
        yield from _check_cell_stages(stated.manifest, stated.steps["cell_stages"])
    yield from _check_ranges(stated)
    if not math.isclose(sum(costs), spent, rel_tol=TOLERANCE, abs_tol=10 * room):
        yield "privacy steps do not add up to what was spent."


def _check_bounds(stated: ReleaseStatements) -> Iterator[str]:
    """Yield bounds of cells, ends of a range and grids of numbers that no release has."""
    lower, upper, quantum = stated.bounds
    if not lower < upper or quantum <= 0:
        yield "bounds are no range, or have no quantum."
        return
    if (stated.lower != float(lower)).any() or (stated.upper != float(upper)).any():
        yield "a cell's bounds are not those of the values."
    range_step = stated.steps.get("clipping_range", {})
    ends = [
        Fraction(range_step[end]).limit_denominator(10**12)
        for end in ("lower", "upper")
        if range_step
    ]
    for number in (upper, *ends):
        steps = (number - lower) / quantum
        if abs(steps - round(steps)) > TOLERANCE * (1 + abs(steps)):
            yield "a bound or an end of a private range is no multiple of the quantum."
            break
    for statistic in stated.statistics.values():
        if not _is_release_grid(statistic, stated, float(quantum)):
            yield (
                f"the grid of the {statistic.name} is not that of bounds, quantum, records and "
                "scale."
            )


def _is_release_grid(statistic: StatedStatistic, stated: ReleaseStatements, quantum: float) -> bool:
    """Return whether a grid is the one that a release of these bounds and counts has."""
    has_noise = statistic.scale > 0
    if stated.has_cell_stages:
        # Steps are parts of a quantum that weights of samples decide; a curve has no grid.
        on_grid = ~np.isnan(statistic.step)
        middle = stated.lower + stated.span / 2.0
        start = np.where(statistic.step == 0, middle, stated.lower)
        return _is_close(statistic.start[on_grid], start[on_grid]) and bool(
            (statistic.step[on_grid] <= quantum).all()
        )
    if not stated.has_no_range:
        # Steps of a mean are a quantum over the sum of weights, which the folder does not state.
        if statistic.name == "variance":
            return _is_close(statistic.step, np.full_like(statistic.step, stated.radius**2 / SHOWN))
        return _is_close(statistic.start, stated.lower) and bool((statistic.step <= quantum).all())
    if statistic.name == "variance":
        # The lattice of a variance is a fixed fraction of its noise scale.
        return _is_close(statistic.step, statistic.scale / STEPS)
    # Half quanta, because the middle of the bounds may lie between two of them.
    step = np.where(has_noise, quantum / (2.0 * stated.records), 0.0)
    start = np.where(has_noise, stated.lower, stated.lower + stated.span / 2.0)
    return _is_close(statistic.step, step) and _is_close(statistic.start, start)


def _check_errors(stated: ReleaseStatements) -> Iterator[str]:
    """Yield biases and 95% bounds within public bounds that no release states."""
    if stated.has_cell_stages:
        (statistic,) = stated.statistics.values()
        # Where nothing better is proven, the bias is the width of the bounds.
        if (statistic.bias > stated.span * (1.0 + TOLERANCE)).any():
            yield "a bias of the mean is larger than the bounds are wide."
        largest = statistic.bias + statistic.scale * LN20
        if (statistic.bound95 > largest * (1.0 + TOLERANCE)).any():
            yield "bound95 of the mean is above its bias and ln 20 of its scale."
        return
    worst = {"mean": stated.span / 2.0, "variance": stated.span**2 / 8.0}
    for statistic in stated.statistics.values() if stated.has_no_range else ():
        has_noise = statistic.scale > 0
        if (statistic.bias > worst[statistic.name] * (1.0 + TOLERANCE)).any():
            yield f"a bias of the {statistic.name} is larger than a constant can miss."
        if not _is_close(statistic.bound95, statistic.bias + statistic.scale * stated.law.limit95):
            quantile = "1.96" if stated.delta else "ln 20"
            yield f"bound95 of the {statistic.name} is not its bias and {quantile} of its scale."
        if (has_noise & (statistic.contribution_cap < 1)).any():
            yield f"a cell keeps no record for its {statistic.name}, and has noise."


def _is_close(numbers: Floats, expected: Floats | float) -> bool:
    return bool(np.allclose(numbers, expected, rtol=TOLERANCE, atol=1e-300))


def _check_cell_stages(manifest: Json, step: Json) -> Iterator[str]:
    """Yield contradictions between the stages of cells, a manifest's step, and the loss spent."""
    spent, cells = manifest["losses"]["max"], manifest["cells"]
    losses = [float(Fraction(stage["epsilon"])) for stage in step["stages"]]
    names = {stage["stage"] for stage in step["stages"]}
    if len(names) < len(losses) or any(
        not 1 <= stage["cells"] <= len(cells) for stage in step["stages"]
    ):
        yield "a stage of cells occurs twice, or in a number of cells that there are not."
    slack = EPSILON_TOLERANCE * (1 + len(losses))
    # Stages may cost different units most: each costs at most the total, together no less.
    if max(losses, default=0.0) > spent + slack or sum(losses) < spent - slack:
        yield "the stages of cells do not fit the epsilon spent."


# ---- ranges of cells, and the histogram that they follow from ----


def _check_ranges(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between private ranges, the histogram, the bounds and the steps."""
    steps = stated.steps
    if HISTOGRAM in steps:
        look, (lower, upper, is_moved) = steps["first_look"], stated.ranges
        yield from _check_within_bounds(stated)
        slack = TOLERANCE * float(sum(map(abs, stated.bounds[:2])))
        distance = np.maximum(np.abs(lower - look["lower"]), np.abs(upper - look["upper"]))
        if not (distance[is_moved == 0] <= slack).all():
            yield "a cell that keeps the range of the first look has another one."
        if int(is_moved.sum()) != steps["cells"].get("moved"):
            yield "the cells that were measured anew are not as many as the privacy steps say."
        yield from _check_histogram(stated, steps[HISTOGRAM], look)
    elif stated.is_remembered:
        yield from _check_within_bounds(stated)
        yield from _check_remembered(stated.manifest, steps["cells"])
    elif "clipping_range" in steps:
        yield from _check_histogram(stated, steps["clipping_range"], steps["clipping_range"])


def _check_remembered(manifest: Json, cells: Json) -> Iterator[str]:
    """Yield contradictions of ranges that follow from earlier releases.

    That they do needs the folders of these (publishing/memory/).
    """
    requested = manifest["plan"]["request"].get("history", [])
    if len(requested) != cells["remembered"]:
        yield "the ranges of cells follow from another number of releases than the request names."
    # Estimates of the same day remember the same releases, if they could be computed.
    others = [entry["sha256"] for entry in manifest.get("memory", {}).get("releases", [])]
    if others and others != requested:
        yield "ranges and estimates do not rest on the same releases."


def _check_within_bounds(stated: ReleaseStatements) -> Iterator[str]:
    """Yield ranges that are empty, or outside the bounds."""
    (lower, upper, _), bounds = stated.ranges, [float(end) for end in stated.bounds[:2]]
    slack = TOLERANCE * (abs(bounds[0]) + abs(bounds[1]))
    if not ((lower >= bounds[0] - slack) & (upper <= bounds[1] + slack) & (upper > lower)).all():
        yield "a cell's clipping range is empty, or not within the bounds of the values."


def _check_histogram(stated: ReleaseStatements, histogram: Json, look: Json) -> Iterator[str]:
    """Yield if a range, or the spread of averages, does not follow from votes.

    `histogram` and `look` are steps: the same one where one range is that of the whole map.
    """
    lower, upper, quantum = stated.bounds
    steps, votes = int((upper - lower) / quantum), np.array(histogram["votes"])
    fitting = [edges for bins in BINS if (edges := inner_edges(steps, bins)).size == votes.size - 1]
    if not fitting:
        yield "the pooled histogram has a number of bins that no release has."
        return
    # Of the noise only errors depend, which are not looked at here.
    noise = Pure(Fraction(histogram["epsilon"])).noise(SUBSTITUTED)
    total = float(histogram["total"] * PARTS)
    law = PooledLaw.of(all_edges(fitting[0], steps), votes * PARTS, noise, total)
    first, last = (float((Fraction(look[end]) - lower) / quantum) for end in ("lower", "upper"))
    # Whole quanta are stated: ranges rounded outward, deviations up; a range may be a wider one.
    off: list[float] = []
    if "centre" in histogram:
        usual, found = usual_range(law, steps), PooledChoice.of(law, first, last, steps)
        unit = float(quantum)
        off = [
            (histogram["centre"] - float(lower)) / unit - found.centre,
            histogram["below"] / unit - found.below,
            histogram["above"] / unit - found.above,
        ]
    else:
        low, high = (law.quantile(float(Fraction(one))) for one in histogram["quantiles"])
        ends = max(math.floor(low), 0), min(math.ceil(high), steps)
        usual = widened(ends, steps, Fraction(histogram["widening"]))
    off += [max(first - usual[0], 0.0), max(usual[1] - last, 0.0)]
    if not all(abs(number) <= ROUNDED for number in off):
        yield "the range or the spread of averages does not follow from the histogram."
