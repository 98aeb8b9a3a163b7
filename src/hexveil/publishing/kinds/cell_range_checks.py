"""Checks of a release with a clipping range per cell: ranges against noise and losses.

Let a cell's number be the weighted average of user averages clipped to a range of width R, with
Laplace scale s. A unit of weight share p loses p R / s by it, and Σ p = 1. A cell that keeps the
range of the first look spends all of the cells' epsilon on that number, so that all units lose
R / s by it; one that was measured anew had spent the share f before, and all lose R / (s (1 - f)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.promise import PARTS, Pure
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED
from hexveil.mechanisms.looks.pooled_means import (
    BINS,
    all_edges,
    describe,
    inner_edges,
    usual_range,
)
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.stage_data import widened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats

    Json = Mapping[str, Any]

ROUNDED = 1.5
"""Quanta by which whole numbers may differ from what they were rounded from."""
STEP = "pooled_histogram"
"""Privacy step that releases with a range per cell have, and no others."""


@dataclass(frozen=True, eq=False)
class StatedCellRanges:
    """Clipping ranges of cells, as a manifest states them; value units.

    Attributes
    ----------
    lower, upper : ndarray of float, shape (n_cells,)
    moved : ndarray of bool, shape (n_cells,)
    """

    lower: Floats
    upper: Floats
    moved: NDArray[np.bool_]

    @classmethod
    def from_manifest(cls, manifest: Json) -> StatedCellRanges:
        """Return the ranges; KeyError if a cell has none."""
        ranges = [cell["noised"][0]["clipping_range"] for cell in manifest["cells"]]
        lower, upper = (np.array([one[end] for one in ranges], float) for end in ("lower", "upper"))
        return cls(lower, upper, np.array([one["moved"] for one in ranges], dtype=bool))


def check_ranges(manifest: Json, steps: Mapping[str, Json], tolerance: float) -> Iterator[str]:
    """Yield contradictions between private ranges, the histogram, the bounds and the steps."""
    if STEP in steps:
        yield from check_cell_ranges(manifest, steps, tolerance)
    elif "remembered" in steps.get("cells", {}):
        yield from check_remembered(manifest, steps["cells"], tolerance)
    elif "clipping_range" in steps:
        yield from check_histogram(manifest, steps["clipping_range"], steps["clipping_range"])


def check_remembered(manifest: Json, cells: Json, tolerance: float) -> Iterator[str]:
    """Yield contradictions of ranges that follow from earlier releases.

    That they do needs the folders of these (publishing/memory/).
    """
    yield from _check_within_bounds(StatedCellRanges.from_manifest(manifest), manifest, tolerance)
    stated = manifest["plan"]["request"].get("history", [])
    if len(stated) != cells["remembered"]:
        yield "the ranges of cells follow from another number of releases than the request names."
    # Estimates of the same day remember the same releases, if they could be computed.
    named = [entry["sha256"] for entry in manifest.get("memory", {}).get("releases", [])]
    if named and named != stated:
        yield "ranges and estimates do not rest on the same releases."


def _check_within_bounds(
    ranges: StatedCellRanges, manifest: Json, tolerance: float
) -> Iterator[str]:
    """Yield ranges that are empty, or outside the bounds."""
    bounds = [float(Fraction(manifest["bounds"][end])) for end in ("lower", "upper")]
    slack = tolerance * (abs(bounds[0]) + abs(bounds[1]))
    inside = (ranges.lower >= bounds[0] - slack) & (ranges.upper <= bounds[1] + slack)
    if not (inside & (ranges.upper > ranges.lower)).all():
        yield "a cell's clipping range is empty, or not within the bounds of the values."


def check_cell_ranges(manifest: Json, steps: Mapping[str, Json], tolerance: float) -> Iterator[str]:
    """Yield contradictions between the ranges of cells, the bounds and the privacy steps."""
    ranges = StatedCellRanges.from_manifest(manifest)
    yield from _check_within_bounds(ranges, manifest, tolerance)
    bounds = [float(Fraction(manifest["bounds"][end])) for end in ("lower", "upper")]
    slack = tolerance * (abs(bounds[0]) + abs(bounds[1]))
    look = steps["first_look"]
    kept = ~ranges.moved
    same = (np.abs(ranges.lower - look["lower"]) <= slack) & (
        np.abs(ranges.upper - look["upper"]) <= slack
    )
    if not same[kept].all():
        yield "a cell that keeps the range of the first look has another one."
    if int(ranges.moved.sum()) != steps["cells"].get("moved"):
        yield "the cells that were measured anew are not as many as the privacy steps say."
    yield from check_histogram(manifest, steps[STEP], look)


def check_histogram(manifest: Json, stated: Json, look: Json) -> Iterator[str]:
    """Yield contradictions of a histogram's votes with ranges that are stated to follow from them.

    Parameters
    ----------
    manifest : mapping
    stated : mapping
        The step with the votes.
    look : mapping
        The step with the range: the same for one range of the whole map.
    """
    lower, upper, quantum = (
        Fraction(manifest["bounds"][name]) for name in ("lower", "upper", "quantum")
    )
    steps, votes = int((upper - lower) / quantum), np.array(stated["votes"])
    fitting = [edges for bins in BINS if (edges := inner_edges(steps, bins)).size == votes.size - 1]
    if not fitting:
        yield "the pooled histogram has a number of bins that no release has."
        return
    # Of the noise only errors depend, which are not looked at here.
    noise = Pure(Fraction(stated["epsilon"])).noise(SUBSTITUTED)
    law = PooledLaw.of(
        all_edges(fitting[0], steps), votes * PARTS, noise, float(stated["total"] * PARTS)
    )
    first, last = (float((Fraction(look[end]) - lower) / quantum) for end in ("lower", "upper"))
    same = []
    if "centre" in stated:
        usual, found = usual_range(law, steps), describe(law, first, last, steps)
        unit = float(quantum)
        same = [
            abs((stated["centre"] - float(lower)) / unit - found.centre) <= ROUNDED,
            abs(stated["below"] / unit - max(found.below, 1.0)) <= ROUNDED,
            abs(stated["above"] / unit - max(found.above, 1.0)) <= ROUNDED,
        ]
    else:
        low, high = (law.quantile(float(Fraction(one))) for one in stated["quantiles"])
        ends = max(math.floor(low), 0), min(math.ceil(high), steps)
        usual = widened(ends, steps, Fraction(stated["widening"]))
    # Whole quanta are stated: ranges rounded outward, deviations up; a range may be a wider one.
    if not all([*same, first <= usual[0] + ROUNDED, last >= usual[1] - ROUNDED]):
        yield "the range or the spread of averages does not follow from the histogram."
