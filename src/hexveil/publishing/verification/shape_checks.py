"""Checks of a release of distributions with private presence: numbers against each other.

Recomputed from the manifest: the weight from which a cell is open, and the intervals of weights, by
the law of the sum of so many numbers of noise. Statistics of a cell are those of one distribution:
quantiles rise with their level, shares fall with their threshold, a histogram adds up to 1.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import Histogram, Quantile, Share, column_names, parse_statistics
from hexveil.publishing.presence.map_accuracy import stated_deviations
from hexveil.publishing.presence.presence_table import grade_columns
from hexveil.publishing.presence.shape_table import has_shapes, limits_of, map_statistics
from hexveil.publishing.verification.files.file_comparison import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats

    Json = dict[str, Any]


def unreadable_statistics(manifest: Json) -> str | None:
    """Return why the statistics that a stranger's manifest names are none; None if they are."""
    plan = manifest["plan"]
    statistics = plan["statistics"]
    is_counted = "users" in statistics and len(statistics) > 1
    if is_counted != ("cell_cap" in plan):
        return "plan/cell_cap does not belong to plan/statistics."
    if not has_shapes(statistics):
        return None
    if "bins" not in plan:
        return "plan/bins is missing."
    try:
        lattice = lattice_of(manifest)
        for term in parse_statistics(map_statistics(statistics))[1]:
            if isinstance(term, Share):
                term.edge(lattice)
    except InputError:
        return "plan/statistics names a statistic that no release has."
    return None


def shape_threshold(manifest: Json, law: NoiseLaw) -> float:
    """Return the noisy weight, in parts, from which a cell is open."""
    plan = manifest["plan"]
    tail = min(plan["false_openings"] / manifest["grid"]["cells"], 0.5)
    return float(np.ceil(law.scale * law.total_quantile(plan["bins"], tail)))


def shape_grades(
    numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> dict[str, list[str]]:
    """Return the columns of grades of cells, by the intervals of each statistic."""
    limits = limits_of(map_statistics(manifest["plan"]["statistics"]), lattice_of(manifest))
    return grade_columns(numbers, limits, stated_deviations(manifest["accuracy"]), is_open)


def check_shapes(
    numbers: dict[str, Floats], is_open: NDArray[np.bool_], manifest: Json
) -> Iterator[str]:
    """Yield statistics that are no intervals within their limits, or that do not agree."""
    statistics = map_statistics(manifest["plan"]["statistics"])
    lattice = lattice_of(manifest)
    for name, (least, largest) in limits_of(statistics, lattice).items():
        inner = [numbers[f"{name}{end}"][is_open] for end in ("_low", "", "_high")]
        slack = TOLERANCE * max(1.0, largest - least)
        ends = [np.full_like(inner[0], least), *inner, np.full_like(inner[0], largest)]
        if any((above < below - slack).any() for below, above in itertools.pairwise(ends)):
            yield f"{name}_low, {name} and {name}_high are no interval within its limits."
    terms = parse_statistics(statistics)[1]
    levels = [numbers[term.column][is_open] for term in terms if isinstance(term, Quantile)]
    if any((above < below - TOLERANCE).any() for below, above in itertools.pairwise(levels)):
        yield "a quantile is above one of a higher level."
    shares = sorted(
        (term.edge(lattice), term.column, term.is_above)
        for term in terms
        if isinstance(term, Share)
    )
    above = [
        numbers[column][is_open] if is_above else 1.0 - numbers[column][is_open]
        for _, column, is_above in shares
    ]
    if any((more < less - TOLERANCE).any() for more, less in itertools.pairwise(above)):
        yield "shares do not fall with their thresholds."
    for term in terms:
        if isinstance(term, Histogram):
            total = sum(numbers[name][is_open] for name in column_names(term))
            if not np.allclose(total, 1.0, atol=TOLERANCE):
                yield "the shares of a histogram do not add up to 1."


def lattice_of(manifest: Json) -> ValueLattice:
    """Return bounds and quantum of a manifest."""
    bounds = manifest["bounds"]
    lower, upper, quantum = (Fraction(bounds[name]) for name in ("lower", "upper", "quantum"))
    return ValueLattice.of((lower, upper), quantum)
