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

from hexveil.accounting.error_model import LN20, MAX_CONSTANT_ERROR
from hexveil.accounting.promise import PARTS, Pure
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED
from hexveil.mechanisms.looks import pooled_means
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.stage_data import widened
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    check_losses,
    epsilon_text,
    is_close,
    is_interval,
)
from hexveil.publishing.kinds.recomputed_losses import (
    HISTOGRAM,
    ReleaseStatements,
    recompute_losses,
    share_of_noise,
)

Json = dict[str, Any]

ROUNDED = 1.5
"""Quanta by which whole numbers may differ from what they were rounded from."""
EPSILON_TOLERANCE = 1e-11
"""Largest error of a sum of a few epsilons rounded to twelve places."""


def find_problems(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the impossible statements on losses and errors, a sentence each."""
    yield from check_losses(stated.manifest)
    yield from _check_cost(stated)
    yield from _check_sums(stated)
    yield from _check_steps(stated)
    yield from _check_ranges(stated)
    yield from _check_errors(stated)


def _check_cost(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions on who loses anything: cells with noise cost, and constants do not."""
    losses, ledger = stated.manifest["losses"], stated.manifest["ledger"]
    guarantee = stated.manifest["guarantee"]
    epsilon = stated.manifest["plan"]["request"]["epsilon"]
    # Of targets, what they cost.
    requested = Fraction(guarantee["epsilon_spent"] if epsilon is None else epsilon)
    if guarantee["epsilon_requested"] not in (decimal_text(requested), epsilon_text(requested)):
        yield "guarantee/epsilon_requested is not that of the request."
    naive = float(Fraction(guarantee["l0_epsilon"]))
    if naive < losses["max"] * (1.0 - TOLERANCE):
        yield "l0_epsilon is smaller than the loss spent, so it is no sum over cells."
    # A private choice alone reads values, too, and needs no Laplace noise.
    has_noise = stated.has_cell_stages or any(p.scale.any() for p in stated.statistics.values())
    if has_noise and (not losses["max"] or ledger is None):
        yield "a cell has noise, and the release says that it cost nothing."
    if not has_noise and (losses["max"] or ledger is not None):
        yield "no cell has noise, and the release says that it cost something."
    if losses["units"] < stated.users.max(initial=0) or losses["at_zero"] > losses["units"]:
        yield "losses are of fewer units than a cell has."
    if (losses["at_zero"] == losses["units"]) != (not losses["max"]):
        yield "either all units lose nothing, or one loses something."


def _check_sums(stated: ReleaseStatements) -> Iterator[str]:
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
    # An epsilon is rounded to twelve places, a square is not.
    room = 1e-15 if stated.delta else EPSILON_TOLERANCE
    costs = [stated.cost(step["step"]) for step in steps]
    if any(
        not math.isclose(step["share"] * spent, cost, rel_tol=TOLERANCE, abs_tol=room)
        for step, cost in zip(steps, costs, strict=True)
    ):
        yield "a privacy step's share is not its share of what was spent."
    if not math.isclose(sum(costs), spent, rel_tol=TOLERANCE, abs_tol=10 * room):
        yield "privacy steps do not add up to what was spent."
    stages = stated.steps.get("cell_stages", {"stages": []})["stages"]
    losses = [float(Fraction(stage["epsilon"])) for stage in stages]
    # Stages may cost different units most: each costs at most the total, together no less.
    slack = EPSILON_TOLERANCE * (1 + len(losses))
    if stages and not max(losses) - slack <= spent <= sum(losses) + slack:
        yield "the stages of cells do not fit the epsilon spent."
    if any(stage["cells"] > stated.users.size for stage in stages):
        yield "a stage of cells is that of more cells than there are."


def _check_errors(stated: ReleaseStatements) -> Iterator[str]:
    """Yield bounds, biases and 95% bounds within public bounds that no release states."""
    ends = float(stated.lattice.lower), float(stated.lattice.upper)
    if (stated.lower != ends[0]).any() or (stated.upper != ends[1]).any():
        yield "a cell's bounds are not those of the values."
    for name, statistic in stated.statistics.items() if stated.has_no_range else ():
        if stated.has_cell_stages:
            # Where nothing better is proven, the bias is the width of the bounds.
            largest, limit = stated.span, LN20
        else:
            unit = stated.span ** {"mean": 1, "variance": 2}[name]
            largest, limit = MAX_CONSTANT_ERROR[name] * unit, stated.law.limit95
            if ((statistic.scale > 0) & (statistic.contribution_cap < 1)).any():
                yield f"a cell keeps no record for its {name}, and has noise."
        if (statistic.bias > largest * (1.0 + TOLERANCE)).any():
            yield f"a bias of the {name} is larger than can be."
        expected = statistic.bias + statistic.scale * limit
        if stated.has_cell_stages:
            # Published numbers are projected to the bounds.
            expected = np.minimum(statistic.bound95, expected)
        if not is_close(statistic.bound95, expected):
            yield f"bound95 of the {name} is not that of its bias and scale."


# ---- ranges of cells, and the histogram that they follow from ----


def _check_ranges(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between private ranges, the histogram, the bounds and the steps."""
    steps, bounds = stated.steps, (float(stated.lattice.lower), float(stated.lattice.upper))
    slack = TOLERANCE * (abs(bounds[0]) + abs(bounds[1]))
    if HISTOGRAM in steps or stated.is_remembered:
        lower, upper, is_moved = stated.ranges
        if not is_interval((lower, upper), bounds, slack) or (upper <= lower).any():
            yield "a cell's clipping range is empty, or not within the bounds of the values."
    if HISTOGRAM in steps:
        look = steps["first_look"]
        distance = np.maximum(np.abs(lower - look["lower"]), np.abs(upper - look["upper"]))
        if not (distance[is_moved == 0] <= slack).all():
            yield "a cell that keeps the range of the first look has another one."
        if int(is_moved.sum()) != steps["cells"].get("moved"):
            yield "the cells that were measured anew are not as many as the privacy steps say."
        yield from _check_histogram(stated, steps[HISTOGRAM], look)
    elif stated.is_remembered:
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


def _check_histogram(stated: ReleaseStatements, histogram: Json, look: Json) -> Iterator[str]:
    """Yield if a range, or the spread of averages, does not follow from votes.

    `histogram` and `look` are steps: the same one where one range is that of the whole map.
    """
    lower, quantum, steps = stated.lattice.lower, stated.lattice.quantum, stated.lattice.span_quanta
    votes = np.array(histogram["votes"])
    possible = (pooled_means.inner_edges(steps, bins) for bins in pooled_means.BINS)
    edges = {inner.size: inner for inner in possible}
    if votes.size - 1 not in edges:
        yield "the pooled histogram has a number of bins that no release has."
        return
    # Of the noise only errors depend, which are not looked at here.
    noise = Pure(Fraction(histogram["epsilon"])).noise(SUBSTITUTED)
    total = float(histogram["total"] * PARTS)
    law = PooledLaw.of(
        pooled_means.all_edges(edges[votes.size - 1], steps), votes * PARTS, noise, total
    )
    first, last = (float((Fraction(look[end]) - lower) / quantum) for end in ("lower", "upper"))
    # Whole quanta are stated: ranges rounded outward, deviations up; a range may be a wider one.
    off: list[float] = []
    if "centre" in histogram:
        usual, unit = pooled_means.usual_range(law, steps), float(quantum)
        found = pooled_means.PooledChoice.of(law, first, last, steps)
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
