"""Checks of the stages in which mechanisms of one cell published every cell."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def check_cell_stages(
    manifest: Mapping[str, Any],
    step: Mapping[str, Any],
    tolerance: float,
    epsilon_tolerance: float,
) -> Iterator[str]:
    """Yield contradictions between the stages of cells, a manifest's step, and the loss spent."""
    spent, cells = manifest["losses"]["max"], manifest["cells"]
    losses = [float(Fraction(stage["epsilon"])) for stage in step["stages"]]
    names = {stage["stage"] for stage in step["stages"]}
    if len(names) < len(losses) or any(
        not 1 <= stage["cells"] <= len(cells) for stage in step["stages"]
    ):
        yield "a stage of cells occurs twice, or in a number of cells that there are not."
    slack = epsilon_tolerance * (1 + len(losses))
    # Stages may cost different units most: each costs at most the total, together no less.
    if max(losses, default=0.0) > spent + slack or sum(losses) < spent - slack:
        yield "the stages of cells do not fit the epsilon spent."
    if not all(_is_within_scale(cell, tolerance) for cell in cells):
        yield "a range that a cell's stages released is reversed, or has more noise than is stated."


def _is_within_scale(cell: Mapping[str, Any], tolerance: float) -> bool:
    """Return whether the noise fitted to a released range is at most the largest there can be."""
    (statistic,) = cell["noised"]
    found = statistic.get("released_range")
    if found is None:
        return True
    largest = statistic["scale"] * (1.0 + tolerance)
    return bool(found["lower"] <= found["upper"] and found["scale"] <= largest)
