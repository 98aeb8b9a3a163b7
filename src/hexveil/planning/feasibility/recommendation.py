"""Recommendation of a grid: the finest with an error below half the baseline error.

Finest is the one of most cells, among those for the privacy unit that was asked for: a weaker
promise is never slipped in, though a second sentence says what it would allow. A map of one cell
is no map, and is not proposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hexveil.model.public_metadata import Unit
    from hexveil.planning.feasibility.grid_assessment import GridAssessment

WEAKER_UNITS: dict[Unit, tuple[Unit, ...]] = {
    "user": ("user-week", "user-day"),
    "user-week": ("user-day",),
    "user-day": (),
}
"""Privacy units that promise less than each, the strongest first."""


def recommend(offers: Iterable[GridAssessment], unit: Unit) -> GridAssessment | None:
    """Return the offer of most cells that halves one constant's error; of equals, the better."""
    halved = (one for one in offers if one.privacy_unit == unit and one.halved and one.is_map)
    return max(halved, key=_by_cells, default=None)


def _by_cells(offer: GridAssessment) -> tuple[float, float, tuple[float, ...]]:
    """Return the order of offers; errors as printed: a last digit decides nothing."""
    return offer.cells, -offer.printed_error, offer.fineness


def cheapest(offers: Iterable[GridAssessment], unit: Unit) -> GridAssessment | None:
    """Return the offer that would halve one constant's error at the least loss."""
    with_epsilon = (
        one
        for one in offers
        if one.privacy_unit == unit and one.epsilon_halved is not None and one.is_map
    )
    return min(
        with_epsilon,
        # At equal loss the finer grid says more.
        key=lambda one: (one.epsilon_halved or 0.0, -one.cells, *(-f for f in one.fineness)),
        default=None,
    )


def recommendation_text(offers: tuple[GridAssessment, ...], unit: Unit, epsilon: float) -> str:
    """Return the recommendation in words, with the effect of a larger ε or a weaker unit."""
    recommended = recommend(offers, unit)
    if recommended is None:
        sentences = [_nothing(offers, unit, epsilon)]
    else:
        finer = cheapest(
            [assessment for assessment in offers if assessment.cells > recommended.cells], unit
        )
        sentences = [
            f"proposed: {_describe(recommended)}.",
            *([] if finer is None else [_describe_finer(finer)]),
        ]
    return " ".join([*sentences, *_weaker(offers, unit, recommended)])


def _describe(offer: GridAssessment) -> str:
    return (
        f"{offer.description}, unit {offer.privacy_unit}: {offer.cells:,} cells, error "
        f"{offer.predicted_error:.2g}, baseline error {offer.baseline_error:.2g}"
    )


def _figures(offer: GridAssessment) -> str:
    return (
        f"{offer.description} ({offer.cells:,} cells, error {offer.predicted_error:.2g}, "
        f"baseline error {offer.baseline_error:.2g})"
    )


def _describe_finer(offer: GridAssessment) -> str:
    return f"The finer {offer.description} ({offer.cells:,} cells) needs epsilon {_loss(offer)}."


def _loss(offer: GridAssessment) -> str:
    return f"{offer.epsilon_halved:g}"


def _nothing(offers: tuple[GridAssessment, ...], unit: Unit, epsilon: float) -> str:
    """Return that no grid is proposed, and the grid and the loss that would do."""
    maps = [
        assessment for assessment in offers if assessment.privacy_unit == unit and assessment.is_map
    ]
    if not maps:
        return "no grid tried leaves a map of three cells, or of three hexagons."
    sentence = f"no grid has an error below half the baseline at epsilon {epsilon:g}"
    would = cheapest(maps, unit)
    if would is None:
        sentence += ", nor at ten times that."
    else:
        sentence += f"; {would.description} ({would.cells:,} cells) needs epsilon {_loss(would)}."
    usable = max((one for one in maps if one.beats_constant), key=_by_cells, default=None)
    return (
        sentence if usable is None else f"{sentence} The finest usable grid is {_figures(usable)}."
    )


def _weaker(
    offers: tuple[GridAssessment, ...], unit: Unit, chosen: GridAssessment | None
) -> list[str]:
    """Return the finest grid of weaker units, if it is finer."""
    cells = 0 if chosen is None else chosen.cells
    finest_weaker = [
        assessment
        for weaker in WEAKER_UNITS[unit]
        if (assessment := recommend(offers, weaker)) is not None
    ]
    # A weaker promise is named only if it buys a finer map.
    best = max(finest_weaker, key=lambda assessment: assessment.cells, default=None)
    if best is None or best.cells <= cells:
        return []
    return [f"With a weaker promise: {_describe(best)}."]
