"""Checks of a folder's statements on losses and errors, each fact against the others.

Per cell a folder has the number of units n and of records N, the width U of the bounds and, of each
statistic, the scale b of the noise and the bias B. It has no row per unit, so nobody can recompute
what one unit loses. The following can be.

The sum of all units' losses
    Let a unit contribute k of its samples to a cell, and K = Σ k. By the mean its rate is k U /
    (b N) (planning/plan.py), and B = U d / 2 with d = 1 - K / N (accounting/error_model.py). So the
    rates of all units are (U - 2 B) / b in this cell: counts cancel. Under a private range of width
    w a unit of weight share s has the rate s w / b, and Σ s = 1: all have w / b; by variances of
    radius r likewise r² / b; and each unit loses the cost of the range.
    Under a pure promise rates are losses and add up. So `losses.mean` times `losses.units` is known
    exactly, and a scale, a bias or a bound that was changed alone does not fit it.
    A variance without a private range moves by at least x / 4 (1 - 1/N²), x = k / N, for N = 1 by
    nothing. Σ x = 1 - d follows from B = U² h (1 - h) / 2, h = min(d, 1/2), unless d >= 1/2, when
    it may be 0. By both statistics of a cell a unit loses no less than by either
    (accounting/privacy_loss.py). So the sum is at least that of these.
    With a range of width R for each cell, all units lose R / b by one that keeps the range of the
    first look: it spends all of the cells' epsilon on its number. One that was measured anew had
    spent the share f before, and all lose R / (b (1 - f)).
Under a δ
    squares of μ add up, over statistics as well: a unit costs the square of its rate
    (accounting/moves.py). With rates A together, squares add up to at least A² / n (all alike).
The largest loss
    It is at least the average of those who lose anything, and at least the loss of all by any one
    cell, divided by n.

With stages of its own in each cell a unit loses at most `cell_epsilon` by a cell, each stage costs
no more than the total, and all of them no less.

Not recomputed, because nothing in the folder shows it: quantiles of the losses but for their order,
the loss of a single unit, `l0_epsilon` but for its least; with stages of cells, what a stage costs
a unit, since that follows from how samples are grouped and weighed. Losses that are stated larger
than the noise costs are no fault where only their least is known. That ranges follow from earlier
releases needs the folders of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.noise_law import NoiseLaw, law_at
from hexveil.accounting.promise import PARTS, Pure
from hexveil.base.arrays import Floats
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED
from hexveil.mechanisms.looks import pooled_means
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.stage_data import widened
from hexveil.model.public_metadata import ValueLattice
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    added_losses,
    check_losses,
    delta_of,
    is_close,
    is_interval,
    lattice_of,
)
from hexveil.report.manifest_view import numbers_of

Json = dict[str, Any]

HISTOGRAM = "pooled_histogram"
"""Privacy step that releases with a range per cell have, and no others."""
WHOLE_MAP = (HISTOGRAM, "clipping_range", "within_spread")
"""Steps that look at the whole map, which every unit is charged."""
ROUNDED = 1.5
"""Quanta by which whole numbers may differ from what they were rounded from."""
EPSILON_TOLERANCE = 1e-11
"""Largest error of a sum of a few epsilons rounded to twelve places."""


@dataclass(frozen=True, eq=False)
class StatedStatistic:
    """A statistic of every cell, as the manifest states it; arrays of shape (n_cells,)."""

    name: str
    contribution_cap: Floats
    scale: Floats
    bias: Floats
    bound95: Floats
    grid_start: Floats
    grid_step: Floats


@dataclass(frozen=True, eq=False)
class ReleaseStatements:
    """Statements of a manifest and its table from which losses are recomputed.

    Attributes
    ----------
    manifest : dict
    users, records : ndarray of float, shape (n_cells,)
    statistics : dict of str to StatedStatistic
    steps : dict of str to dict
        The privacy steps by name.
    lattice : ValueLattice
        Bounds of the values, and their quantum.
    delta : Fraction
        0 of a pure promise.
    """

    manifest: Json
    users: Floats
    records: Floats
    statistics: dict[str, StatedStatistic]
    steps: dict[str, Json]
    lattice: ValueLattice
    delta: Fraction

    @classmethod
    def from_release(cls, manifest: Json, table: pa.Table) -> ReleaseStatements:
        """Return the statements of a release; ValueError if cells name different statistics."""
        statistics = {}
        for entries in zip(*(cell["noised"] for cell in manifest["cells"]), strict=True):
            name, keys = entries[0]["statistic"], [one.name for one in fields(StatedStatistic)[1:]]
            if any(one["statistic"] != name for one in entries):
                raise ValueError("cells of other statistics")
            columns = (np.array([one[key] for one in entries], dtype=np.float64) for key in keys)
            statistics[name] = StatedStatistic(name, *columns)
        return cls(
            manifest,
            numbers_of(table, "users"),
            numbers_of(table, "records"),
            statistics,
            {step["step"]: step for step in manifest["plan"]["privacy_steps"]},
            lattice_of(manifest),
            delta_of(manifest),
        )

    @property
    def law(self) -> NoiseLaw:
        """Law of the noise."""
        return law_at(self.delta)

    def cost(self, name: str) -> float:
        """Return the cost of a privacy step: ε, or its square of μ under a δ; 0 without it."""
        step = self.steps.get(name, {"epsilon": "0", "squared_mu": 0.0})
        if self.delta:
            return float(step.get("squared_mu", math.nan))
        return float(Fraction(step["epsilon"]))

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the values."""
        return float(self.lattice.lower), float(self.lattice.upper)

    @property
    def span(self) -> float:
        """Width of the bounds."""
        return float(self.lattice.span)

    @property
    def ranges(self) -> tuple[Floats, Floats, Floats]:
        """Ends of the clipping range of each cell, and whether it was measured anew."""
        ranges = [cell["noised"][0]["clipping_range"] for cell in self.manifest["cells"]]
        keys = ("lower", "upper", "moved")
        lower, upper, moved = (np.array([one[key] for one in ranges], float) for key in keys)
        return lower, upper, moved

    @property
    def has_cell_stages(self) -> bool:
        """Whether each cell was published by a mechanism of one cell, in stages of its own."""
        return "cell_stages" in self.steps

    @property
    def has_no_range(self) -> bool:
        """Whether values were clipped to public bounds alone, and noised once."""
        own_ranges = self.has_cell_ranges or self.has_cell_stages
        return "clipping_range" not in self.steps and not own_ranges

    @property
    def has_cell_ranges(self) -> bool:
        """Whether each cell has a range, by a look at all of them or by earlier releases."""
        return HISTOGRAM in self.steps or "remembered" in self.steps.get("cells", {})


def find_problems(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the impossible statements on losses and errors, a sentence each."""
    losses, guarantee = stated.manifest["losses"], stated.manifest["guarantee"]
    yield from check_losses(stated.manifest)
    if float(Fraction(guarantee["l0_epsilon"])) < losses["max"] * (1.0 - TOLERANCE):
        yield "l0_epsilon is smaller than the loss spent, so it is no sum over cells."
    if losses["units"] < stated.users.max(initial=0):
        yield "losses are of fewer units than a cell has."
    yield from _check_sums(stated)
    yield from _check_steps(stated)
    yield from _check_errors(stated)


# ---- losses ----


def _check_sums(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between the losses and the cells."""
    least, most, largest = recompute_losses(stated)
    added, units = added_losses(stated.manifest), stated.manifest["losses"]["units"]
    powers = {"mean": 1, "variance": 2}
    rates = (
        share_of_noise(stated.span ** powers[p.name], p.scale).sum()
        for p in stated.statistics.values()
    )
    # Where nearly all of a cell is clipped, its bias determines the remainder badly.
    # Rounding is relative to the rates, not to their difference, which can cancel.
    slack = TOLERANCE * (1.0 + least + float(sum(rates)))
    rounding = 1.0 - 1e-6 if stated.delta else 1.0
    if not least * rounding - slack <= added["mean"] * units <= most + slack:
        yield "all units together lose another sum by the scales, biases and bounds of the cells."
    if not largest * rounding - slack <= added["max"]:
        yield "the most exposed unit loses more by the scales, biases, bounds and counts of cells."


def recompute_losses(stated: ReleaseStatements) -> tuple[float, float, float]:
    """Return losses, or squares of μ, by the cells: their least and largest sum, and the least max.

    The sums are equal where it is known exactly (module head).
    """
    shared, power = sum(map(stated.cost, WHOLE_MAP)), stated.law.power
    losses, names = stated.manifest["losses"], stated.statistics.keys()
    if stated.has_cell_stages:
        # How much less than its loss by a cell some lose depends on how their samples are grouped
        # and weighed, which the folder does not show.
        least, is_exact = np.zeros_like(stated.users), False
    else:
        rates = (_least_rates(stated, statistic) for statistic in stated.statistics.values())
        by_statistic = np.stack([one**power / stated.users ** (power - 1) for one in rates])
        joined = np.max if stated.has_no_range and power == 1 else np.sum
        least = joined(by_statistic, axis=0)
        # Under a range the mean was released, too, and its scale is not always stated.
        is_exact = power == 1 and (
            "mean" in names if not stated.has_no_range else [*names] == ["mean"]
        )
    total = shared * losses["units"] + float(least.sum())
    by_one_cell = shared + float((least / stated.users).max(initial=0.0))
    # Those who lose nothing do not lower the average of the others.
    average = total / max(losses["units"] - losses["at_zero"], 1)
    return total, total if is_exact else math.inf, max(by_one_cell, average)


def _least_rates(stated: ReleaseStatements, statistic: StatedStatistic) -> Floats:
    """Return the least sum of rates over the units of each cell."""
    scale, is_variance = statistic.scale, statistic.name == "variance"
    if stated.has_cell_ranges:
        lower, upper, moved = stated.ranges
        look, cells = map(stated.cost, ("first_look", "cells"))
        remainder = (cells / (look + cells) if look else 1.0) ** (1.0 / stated.law.power)
        return share_of_noise((upper - lower) / np.where(moved, remainder, 1.0), scale)
    if not stated.has_no_range:
        step = stated.steps["clipping_range"]
        return share_of_noise(
            step["radius"] ** 2 if is_variance else step["upper"] - step["lower"], scale
        )
    if not is_variance:
        return share_of_noise(np.maximum(stated.span - 2.0 * statistic.bias, 0.0), scale)
    # Scales of variances are in squared value units.
    square = stated.span**2
    removed = (1.0 - np.sqrt(np.maximum(1.0 - 8.0 * statistic.bias / square, 0.0))) / 2.0
    # Near 1/2 the bias is flat, so rounding changes the share by more than itself.
    share = np.where(removed > 0.5 - 1e-6, 0.0, 1.0 - removed - 1e-6)
    return share_of_noise(share * (1.0 - 1.0 / stated.records**2) / 4.0 * square, scale)


def share_of_noise(share: Floats | float, noise: Floats) -> Floats:
    """Return a share over the noise; 0 where there is no noise, since no value is read."""
    return np.divide(share, noise, out=np.zeros_like(noise), where=noise > 0)


def _check_steps(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between the privacy steps and the loss."""
    spent, steps = added_losses(stated.manifest)["max"], stated.manifest["plan"]["privacy_steps"]
    if len(stated.steps) < len(steps):
        yield "a privacy step occurs twice."
        return
    # An epsilon is rounded to twelve places, a square is not.
    room = 1e-15 if stated.delta else EPSILON_TOLERANCE
    total = sum(map(stated.cost, stated.steps))
    if not math.isclose(total, spent, rel_tol=TOLERANCE, abs_tol=10 * room):
        yield "privacy steps do not add up to what was spent."
    if not stated.has_cell_stages:
        return
    step, n_cells = stated.steps["cell_stages"], stated.users.size
    losses = [float(Fraction(stage["epsilon"])) for stage in step["stages"]]
    # Stages may cost different units most: each costs at most the total, together no less.
    slack = EPSILON_TOLERANCE * (1 + len(losses))
    if not max(losses) - slack <= spent <= sum(losses) + slack:
        yield "the stages of cells do not fit the epsilon spent."
    if spent > n_cells * float(Fraction(step["cell_epsilon"])) + slack:
        yield "the most exposed unit loses more than by all cells."
    if any(stage["cells"] > n_cells for stage in step["stages"]):
        yield "a stage of cells is that of more cells than there are."


def _check_errors(stated: ReleaseStatements) -> Iterator[str]:
    """Yield bounds, ranges, and 95% bounds within public bounds that no release states."""
    ends = stated.bounds
    if any((cell["lower"], cell["upper"]) != ends for cell in stated.manifest["cells"]):
        yield "a cell's bounds are not those of the values."
    if stated.has_cell_ranges:
        lower, upper, _ = stated.ranges
        slack = TOLERANCE * (abs(ends[0]) + abs(ends[1]))
        if not is_interval((lower, upper), ends, slack) or (upper <= lower).any():
            yield "a cell's clipping range is empty, or not within the bounds of the values."
    yield from _check_histogram(stated)
    for name, statistic in stated.statistics.items() if stated.has_no_range else ():
        expected = statistic.bias + statistic.scale * stated.law.limit95
        if ((statistic.scale > 0) & (statistic.contribution_cap < 1)).any():
            yield f"a cell keeps no record for its {name}, and has noise."
        if not is_close(statistic.bound95, expected):
            yield f"bound95 of the {name} is not that of its bias and scale."


def _check_histogram(stated: ReleaseStatements) -> Iterator[str]:
    """Yield if a range, or the spread of averages, does not follow from the noisy histogram."""
    histogram = stated.steps.get(HISTOGRAM, stated.steps.get("clipping_range"))
    if histogram is None:
        return
    lattice, votes = stated.lattice, np.array(histogram["votes"])
    quantum, steps = float(lattice.quantum), lattice.span_quanta
    possible = (pooled_means.inner_edges(steps, bins) for bins in pooled_means.BINS)
    inner = {edges.size: edges for edges in possible}.get(votes.size - 1)
    if inner is None:
        yield "the pooled histogram has a number of bins that no release has."
        return
    # Of the noise only errors depend, which are not looked at here.
    noise, edges = Pure(Fraction(1)).noise(SUBSTITUTED), pooled_means.all_edges(inner, steps)
    law = PooledLaw.of(edges, votes * PARTS, noise, float(histogram["total"] * PARTS))
    look = stated.steps.get("first_look", histogram)
    first, last = ((look[end] - float(lattice.lower)) / quantum for end in ("lower", "upper"))
    # Whole quanta are stated: ranges rounded outward, deviations up; a range may be a wider one.
    if "centre" in histogram:
        usual = pooled_means.usual_range(law, steps)
        found = pooled_means.PooledChoice.of(law, first, last, steps)
        off = [
            (histogram["centre"] - float(lattice.lower)) / quantum - found.centre,
            histogram["below"] / quantum - found.below,
            histogram["above"] / quantum - found.above,
        ]
    else:
        low, high = (law.quantile(float(Fraction(one))) for one in histogram["quantiles"])
        ends = max(math.floor(low), 0), min(math.ceil(high), steps)
        usual, off = widened(ends, steps, Fraction(histogram["widening"])), []
    off += [max(first - usual[0], 0.0), max(usual[1] - last, 0.0)]
    if not all(abs(number) <= ROUNDED for number in off):
        yield "the range or the spread of averages does not follow from the histogram."
