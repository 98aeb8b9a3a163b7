"""Recommendation of a grid: the finest with an error below half the baseline error.

Finest is the one of most cells, among those for the unit of privacy that was asked for: a weaker
promise is never slipped in, though a second sentence says what it would allow. A map of one cell
is no map, and is not proposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hexveil.model.public_metadata import Unit
    from hexveil.planning.feasibility.grid_assessment import GridAssessment

MIN_CELLS = 3
"""Cells of a map."""
WEAKER_UNITS: dict[Unit, tuple[Unit, ...]] = {
    "user": ("user-week", "user-day"),
    "user-week": ("user-day",),
    "user-day": (),
}
"""Units of privacy that promise less than each, the strongest first."""


def recommend(offers: Iterable[GridAssessment], unit: Unit) -> GridAssessment | None:
    """Return the offer of most cells that halves one constant's error; of equals, the better."""
    halved = [
        one for one in offers if one.privacy_unit == unit and one.halved and one.cells >= MIN_CELLS
    ]
    # As printed: the same cells by another name are not told apart by a last digit.
    return max(halved, key=lambda one: (one.cells, -_rounded(one)), default=None)


def _rounded(offer: GridAssessment) -> float:
    return float(f"{offer.predicted_error:.2g}")


def cheapest(offers: Iterable[GridAssessment], unit: Unit) -> GridAssessment | None:
    """Return the offer that would halve one constant's error at the least loss."""
    known = [
        one
        for one in offers
        if one.privacy_unit == unit and one.epsilon_halved is not None and one.cells >= MIN_CELLS
    ]
    return min(known, key=lambda one: (one.epsilon_halved or 0.0, -one.cells), default=None)


def recommendation_text(offers: tuple[GridAssessment, ...], unit: Unit, epsilon: float) -> str:
    """Return the recommendation in words, with the effect of a larger ε or a weaker unit."""
    chosen = recommend(offers, unit)
    if chosen is None:
        said = [_nothing(offers, unit, epsilon)]
    else:
        finer = cheapest([one for one in offers if one.cells > chosen.cells], unit)
        said = [f"proposed: {_told(chosen)}.", *([] if finer is None else [_would(finer)])]
    return " ".join([*said, *_weaker(offers, unit, chosen)])


def _told(offer: GridAssessment) -> str:
    return (
        f"{offer.grid}, unit {offer.privacy_unit}: {offer.cells:,} cells, error "
        f"{offer.predicted_error:.2g} against {offer.baseline_error:.2g} of one constant"
    )


def _would(offer: GridAssessment) -> str:
    return f"Finer, {offer.grid} ({offer.cells:,} cells) would do at epsilon {_loss(offer)}."


def _loss(offer: GridAssessment) -> str:
    return f"{offer.epsilon_halved:g}"


def _nothing(offers: tuple[GridAssessment, ...], unit: Unit, epsilon: float) -> str:
    """Return that no grid is proposed, and the grid and the loss that would do."""
    maps = [one for one in offers if one.privacy_unit == unit and one.cells >= MIN_CELLS]
    if not maps:
        return "no grid tried leaves a map of three cells."
    said = f"no grid tried says much at epsilon {epsilon:g}"
    would = cheapest(maps, unit)
    if would is None:
        return f"{said} (an error under half of one constant's), nor at ten times that."
    return f"{said}: {would.grid} ({would.cells:,} cells) would at epsilon {_loss(would)}."


def _weaker(
    offers: tuple[GridAssessment, ...], unit: Unit, chosen: GridAssessment | None
) -> list[str]:
    """Return the finest grid of weaker units, if it is finer."""
    cells = 0 if chosen is None else chosen.cells
    found = [one for weaker in WEAKER_UNITS[unit] if (one := recommend(offers, weaker)) is not None]
    best = max(found, key=lambda one: one.cells, default=None)
    if best is None or best.cells <= cells:
        return []
    return [f"With a weaker promise: {_told(best)}."]
