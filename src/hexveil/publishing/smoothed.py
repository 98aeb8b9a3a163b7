"""Smoothed estimates of a release: what its noisy numbers say once cells borrow from each other.

Post-processing of noisy numbers and public facts (smoothing/): it costs nothing, and the same
numbers always give the same estimates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil import smoothing
from hexveil.planning.part import WeighedPart
from hexveil.report.facts import RANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from hexveil.cells import CellTable
    from hexveil.facts import PublicFacts
    from hexveil.planning import Plan
    from hexveil.smoothing import Grouping, Smoothed

    Floats = NDArray[np.float64]


def smoothed(plan: Plan, facts: PublicFacts, noisy: Mapping[str, Floats]) -> dict[str, Smoothed]:
    """Return the smoothed estimates of each statistic that noise was added to.

    Raises
    ------
    InputError
        If there is one cell only.
    """
    groupings = groupings_of(facts.cells)
    return {name: _of(plan, name, numbers, groupings) for name, numbers in noisy.items()}


def groupings_of(cells: CellTable) -> tuple[Grouping, ...]:
    """Return which cells resemble each other: by place and time, or by labels."""
    if cells.hexagon is not None:
        return smoothing.of_hexagons(cells.hexagon, cells.slot)
    return smoothing.of_labels(cells.labels)


def statement(found: Mapping[str, Smoothed]) -> list[dict[str, Any]]:
    """Return what a manifest says of them: the model, and how much of the map is signal."""
    return [
        {
            "statistic": name,
            "model": one.text,
            "deviations": dict(one.deviations),
            "signal_share": one.signal_share,
            "distinguishable": one.distinguishable,
        }
        for name, one in found.items()
    ]


def _of(plan: Plan, name: str, noisy: Floats, groupings: tuple[Grouping, ...]) -> Smoothed:
    part = plan.parts[name]
    typical = part.unit * part.likely if isinstance(part, WeighedPart) else None
    mean = name == "mean"
    return smoothing.smooth(
        noisy,
        part.scale,
        groupings,
        worst_bias=part.bias,
        typical_bias=typical,
        lower=plan.lower if mean else 0.0,
        upper=plan.upper if mean else plan.span**2 * RANGE["variance"],
    )
