"""Checks of a folder's statements on losses and errors, each fact against the others.

Losses have to lie within the limits that scales, biases, bounds and counts leave them
(recomputed_losses.py). Facts that are stated twice have to agree: `epsilon_spent` is `losses.max`,
rounded up; the factor is e to that power; naive accounting charges no less; privacy steps add up to
it; errors and bounds are those of bias and scale, and their largest and average those that the plan
states. Under a δ, squares of μ are recomputed in place of losses: square_checks.py.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.mechanisms.clipped.clipped_variance import STEPS
from hexveil.mechanisms.weighted.weighted_variance import SHOWN
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.verification import cell_range_checks as cell_ranges
from hexveil.publishing.verification.recomputed_losses import (
    TOLERANCE,
    recompute_losses,
    share_of_noise,
)
from hexveil.report.promise_wording import probability_factor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hexveil.base.arrays import Floats
    from hexveil.publishing.verification.release_statements import (
        ReleaseStatements,
        StatedStatistic,
    )

    Json = dict[str, Any]


FACTOR_FIELD = "probability_factor"
"""Field of the guarantee that holds e to the power of the epsilon spent."""
EPSILON_TOLERANCE = 1e-11
"""Largest error of a sum of a few epsilons rounded to twelve places."""


def find_problems(
    stated: ReleaseStatements,
    by_squares: Callable[[ReleaseStatements], Iterator[str]] | None = None,
) -> Iterator[str]:
    """Yield the impossible statements on losses and errors, a sentence each.

    Parameters
    ----------
    stated : ReleaseStatements
    by_squares : callable, optional
        Checks of losses and steps under a δ; without it a δ is a problem itself.
    """
    yield from _check_epsilon(stated)
    yield from _check_order(stated)
    if stated.delta:
        unknown = ("the release has a delta, which releases of its kind have not.",)
        yield from unknown if by_squares is None else by_squares(stated)
    else:
        yield from _check_losses(stated)
        yield from _check_steps(stated)
    yield from _check_bounds(stated)
    yield from _check_errors(stated)


def _check_epsilon(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions on the epsilon spent: cells with noise cost, and constants do not."""
    guarantee, largest = stated.manifest["guarantee"], stated.manifest["losses"]["max"]
    spent, has_noise = (
        Fraction(guarantee["epsilon_spent"]),
        any(p.scale.any() for p in stated.statistics.values()),
    )
    if guarantee["epsilon_spent"] != epsilon_text(Fraction(largest)):
        yield "epsilon_spent is not the largest loss, rounded up."
    factor = probability_factor(Fraction(largest))
    if guarantee[FACTOR_FIELD] is None or not math.isfinite(factor):
        is_wrong = math.isfinite(factor) or guarantee[FACTOR_FIELD] is not None
    else:
        is_wrong = not math.isclose(guarantee[FACTOR_FIELD], factor, rel_tol=TOLERANCE)
    if is_wrong:
        yield f"guarantee/{FACTOR_FIELD} is not e to the power of epsilon_spent."
    if float(spent) > float(Fraction(guarantee["epsilon_requested"])) + EPSILON_TOLERANCE:
        yield "more was spent than asked for."
    if float(Fraction(guarantee["l0_epsilon"])) < largest * (1.0 - TOLERANCE):
        yield "l0_epsilon is smaller than the loss spent, so it is no sum over cells."
    # A private choice alone reads values, too, and needs no Laplace noise.
    has_noise = has_noise or stated.has_cell_stages
    if has_noise and (not largest or stated.manifest["ledger"] is None):
        yield "a cell has noise, and the release says that it cost nothing."
    if not has_noise and (largest or stated.manifest["ledger"] is not None):
        yield "no cell has noise, and the release says that it cost something."


def _check_order(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions among the losses."""
    stated_losses = stated.manifest["losses"]
    order = [stated_losses[key] for key in ("median", "p90", "p99", "max")]
    if order != sorted(order) or stated_losses["mean"] > stated_losses["max"] * (1.0 + TOLERANCE):
        yield "the quantiles of the losses are not in order."
    if (
        stated_losses["units"] < stated.users.max(initial=0)
        or stated_losses["at_zero"] > stated_losses["units"]
    ):
        yield "losses are of fewer units than a cell has."
    if (stated_losses["at_zero"] == stated_losses["units"]) != (not stated_losses["max"]):
        yield "either all units lose nothing, or one loses something."
    if ("squared_mu" in stated_losses) != bool(stated.delta):
        yield "squares of mu are stated without a delta, or a delta without them."


def _check_losses(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between the losses and the cells."""
    stated_losses, recomputed = stated.manifest["losses"], recompute_losses(stated)
    # Where nearly all of a cell is clipped, its bias determines the remainder badly.
    # Rounding is relative to the rates, not to their difference, which can cancel.
    slack = TOLERANCE * (1.0 + recomputed.total.low + _sum_of_rates(stated))
    if not recomputed.total.contains(stated_losses["mean"] * stated_losses["units"], slack):
        yield (
            f"all units together lose {recomputed.total} by the scales, biases and bounds of the "
            f"cells, and {stated_losses['mean'] * stated_losses['units']:.6g} by the losses stated."
        )
    if not recomputed.largest.contains(stated_losses["max"], slack):
        yield (
            f"the most exposed unit loses {recomputed.largest} by the scales, biases, bounds and "
            f"counts of the cells, and {stated_losses['max']:.6g} as stated."
        )


def _sum_of_rates(stated: ReleaseStatements) -> float:
    """Return the sum of all rates, to which rounding is relative."""
    powers = {"mean": 1, "variance": 2}
    return sum(
        float(share_of_noise(stated.span ** powers[p.name], p.scale).sum())
        for p in stated.statistics.values()
    )


def _check_steps(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between the privacy steps and the epsilon spent."""
    spent, steps = stated.manifest["losses"]["max"], stated.manifest["plan"]["privacy_steps"]
    if bool(steps) != bool(spent):
        yield "privacy steps are named where nothing was spent, or none where something was."
        return
    epsilons = [float(Fraction(step["epsilon"])) for step in steps]
    if len({step["step"] for step in steps}) < len(steps) or (
        steps and not {"cells", "cell_stages"} & set(stated.steps)
    ):
        yield "a privacy step occurs twice, or that of the cells is missing."
        return
    if any(
        not math.isclose(
            step["share"] * spent, epsilon, rel_tol=TOLERANCE, abs_tol=EPSILON_TOLERANCE
        )
        for step, epsilon in zip(steps, epsilons, strict=True)
    ):
        yield "a privacy step's share is not its share of the epsilon spent."
    if stated.has_cell_stages:
        yield from check_cell_stages(
            stated.manifest, stated.steps["cell_stages"], TOLERANCE, EPSILON_TOLERANCE
        )
    yield from cell_ranges.check_ranges(stated.manifest, stated.steps, TOLERANCE)
    adds_up = math.isclose(sum(epsilons), spent, abs_tol=EPSILON_TOLERANCE * 10)
    if not adds_up or max(epsilons, default=0.0) > spent + EPSILON_TOLERANCE:
        yield "privacy steps do not add up to the epsilon spent."


def _check_bounds(stated: ReleaseStatements) -> Iterator[str]:
    """Yield bounds, counts and grids of cells that no release has."""
    bounds = stated.manifest["bounds"]
    low, high = (float(Fraction(bounds[end])) for end in ("lower", "upper"))
    # Doubles suffice here: the comparisons have a tolerance.
    quantum = float(Fraction(bounds["quantum"]))
    if not (0 < quantum <= high - low) or (stated.lower < low).any() or (stated.upper > high).any():
        yield "a cell's bounds are not within those of the values."
    elif not stated.has_no_range and not (
        _is_close(stated.lower, low) and _is_close(stated.upper, high)
    ):
        yield "a cell has bounds of its own, which no release under a private range has."
    elif not all(_is_whole((end - low) / quantum) for end in (stated.lower, stated.upper)):
        yield "a cell's bounds are no whole numbers of quanta from those of the values."
    if not (stated.span > 0).all() or not (stated.users >= 1).all():
        yield "a cell has no users, or bounds without a width."
    if not (stated.users <= stated.records).all():
        yield "a cell has more users than records."
    for statistic in stated.statistics.values():
        if not _is_release_grid(statistic, stated, quantum):
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
    divisor = stated.records if stated.divisor is None else stated.divisor
    step = np.where(has_noise, quantum / (2.0 * divisor), 0.0)
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
    # Samples that are left out may lie at the other bound, and not at the middle.
    far = 1.0 if stated.divisor is None else 2.0
    worst = {"mean": far * stated.span / 2.0, "variance": far * stated.span**2 / 8.0}
    for statistic in stated.statistics.values() if stated.has_no_range else ():
        has_noise = statistic.scale > 0
        if (statistic.bias > worst[statistic.name] * (1.0 + TOLERANCE)).any():
            yield f"a bias of the {statistic.name} is larger than a constant can miss."
        if not _is_close(statistic.bound95, statistic.bias + statistic.scale * stated.law.limit95):
            quantile = "1.96" if stated.delta else "ln 20"
            yield f"bound95 of the {statistic.name} is not its bias and {quantile} of its scale."
        if (has_noise & (statistic.contribution_cap < 1)).any():
            yield f"a cell keeps no record for its {statistic.name}, and has noise."


def _is_whole(numbers: Floats) -> bool:
    return bool((np.abs(numbers - np.round(numbers)) <= 1e-6 * (1.0 + np.abs(numbers))).all())


def _is_close(numbers: Floats, expected: Floats | float) -> bool:
    return bool(np.allclose(numbers, expected, rtol=TOLERANCE, atol=1e-300))


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
