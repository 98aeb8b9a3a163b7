"""Recomputation of privacy losses from the scales, biases, bounds and counts of a folder.

Per cell a folder has the number of units n and of records N, the width U of the bounds and, of each
statistic, the Laplace scale b, the bias B and the threshold t. It has no row per unit, so nobody
can recompute what one unit loses. The following can be.

The sum of all units' losses
    Let a unit contribute k of its samples to a cell, and K = Σ k. By the mean it loses k U / (b N)
    (planning/plan.py), and B = U d / 2 with d = 1 - K / N (accounting/error_model.py). So all units
    lose (U - 2 B) / b by this cell: counts cancel. Under a private range of width w a unit of
    weight share s loses s w / b, and Σ s = 1: all lose w / b; by variances of radius r likewise
    r² / b; and each unit loses the epsilon of the range. So `losses.mean` times `losses.units` is
    known exactly, and a scale, a bias or a bound that was changed alone does not fit it.
    A variance without a private range moves by at most x (1 - x), x = k / N, or by 1/4 for x > 1/2,
    both at most x; and by at least x / 4 (1 - 1/N²), for N = 1 by nothing. Σ x = 1 - d follows
    from B = U² h (1 - h) / 2, h = min(d, 1/2), unless d >= 1/2, when it is in [0, 1/2]. The plan
    adds 2^-30 per unit and cell. By both statistics of a cell a unit loses no less than by either
    (accounting/privacy_loss.py) and no more than by both. So the sum is within two limits.
    With ranges of cells, see cell_range_checks.py. With two stages a unit is booked the largest
    loss of any strategy, so the sum is at least that of the strategy single_stage or
    cell_residuals; with user_residuals, at least the loss of the first steps.
The largest loss
    It is at least the average of those who lose anything; and since n units contribute the K
    samples of a cell, one contributes K / n or more: it is at least the loss of all by any one
    cell, divided by n. It is at most the sum over cells of the largest loss of one unit there: it
    contributes no more than t, nor than the N - n + 1 that others leave it, nor than K.
Facts stated twice
    `epsilon_spent` is `losses.max`, rounded up; the factor is e to that power; naive accounting
    charges no less; privacy steps add up to it; errors and bounds are those of bias and scale, and
    their largest and average those that the plan states.

Under a δ, squares of μ are recomputed in place of losses: square_checks.py.

With stages of its own in each cell a unit loses at most `cell_epsilon` by a cell, each stage costs
no more than the total, and all of them no less.

Not recomputed, because nothing in the folder shows it: quantiles of the losses but for their order,
the loss of a single unit, `l0_epsilon` but for its limits; with stages
of cells, what a stage costs a unit, since that follows from how samples are grouped and weighed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.mechanisms.clipped.clipped_variance import STEPS
from hexveil.mechanisms.released_ranges import FIRST_STAGE_SHARE
from hexveil.mechanisms.weighted.weighted_variance import SHOWN
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.verification import cell_range_checks as cell_ranges
from hexveil.publishing.verification.cell_stage_checks import check_cell_stages
from hexveil.report.promise import probability_factor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.accounting.noise_law import NoiseLaw

    Floats = NDArray[np.float64]
    Json = dict[str, Any]

TOLERANCE = 1e-9
FACTOR_FIELD = "probability_factor"
"""Field of the guarantee that holds e to the power of the epsilon spent."""
LATTICE_LOSS = 2.0**-30
"""Loss of each unit in each cell by a variance's lattice
(mechanisms/clipped/clipped_variance.py)."""
EPSILON_TOLERANCE = 1e-11
"""Largest error of a sum of a few epsilons rounded to twelve places."""


@dataclass(frozen=True)
class LossRange:
    """Limits of a loss, which are equal where it is known exactly."""

    low: float
    high: float

    def contains(self, number: float, slack: float) -> bool:
        """Return whether a number is in it, up to rounding."""
        return self.low - slack <= number <= self.high + slack

    def __str__(self) -> str:
        if math.isclose(self.low, self.high, rel_tol=TOLERANCE):
            return f"{self.high:.6g}"
        high = f" and at most {self.high:.6g}" if math.isfinite(self.high) else ""
        return f"at least {self.low:.6g}{high}"


@dataclass(frozen=True, eq=False)
class StatedStatistic:
    """A statistic of every cell, as the manifest states it.

    Attributes
    ----------
    name : "mean" or "variance"
    contribution_cap, scale, bias, bound95, start, step : ndarray of float, shape (n_cells,)
    """

    name: str
    contribution_cap: Floats
    scale: Floats
    bias: Floats
    bound95: Floats
    start: Floats
    step: Floats


@dataclass(frozen=True, eq=False)
class ReleaseStatements:
    """Statements of a manifest and its table from which losses are recomputed.

    Attributes
    ----------
    manifest : dict
    users, records, lower, upper : ndarray of float, shape (n_cells,)
    divisor : ndarray of float, shape (n_cells,), or None
        Samples by which sums are divided, where users are left out; else all records.
    statistics : dict of str to StatedStatistic
    """

    manifest: Json
    users: Floats
    records: Floats
    lower: Floats
    upper: Floats
    statistics: dict[str, StatedStatistic]
    divisor: Floats | None = None

    @classmethod
    def from_release(cls, manifest: Json, table: pa.Table) -> ReleaseStatements:
        """Return the statements of a release; ValueError if cells name different statistics."""
        cells = manifest["cells"]
        names = [entry["statistic"] for entry in cells[0]["noised"]]
        if any([entry["statistic"] for entry in cell["noised"]] != names for cell in cells):
            raise ValueError("cells of other statistics")

        def column(index: int, key: str) -> Floats:
            return np.array([cell["noised"][index][key] for cell in cells], dtype=np.float64)

        keys = ("contribution_cap", "scale", "bias", "bound95", "grid_start", "grid_step")
        users, records = (table[name].to_numpy().astype(float) for name in ("users", "records"))
        lower, upper = (
            np.array([cell[end] for cell in cells], float) for end in ("lower", "upper")
        )
        statistics = {
            n: StatedStatistic(n, *(column(index, key) for key in keys))
            for index, n in enumerate(names)
        }
        has_divisor = "divisor" in cells[0]["noised"][0] if names else False
        divisor = column(0, "divisor") if has_divisor else None
        return cls(manifest, users, records, lower, upper, statistics, divisor)

    @property
    def delta(self) -> Fraction:
        """δ of the promise; 0 of a pure one."""
        return Fraction(self.manifest["guarantee"].get("delta", 0))

    @property
    def law(self) -> NoiseLaw:
        """Law of the noise."""
        return GAUSSIAN if self.delta else LAPLACE

    @property
    def span(self) -> Floats:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    @property
    def steps(self) -> dict[str, Json]:
        """The privacy steps by name."""
        return {step["step"]: step for step in self.manifest["plan"]["privacy_steps"]}

    @property
    def radius(self) -> float:
        """Largest distance from the middle of a private range at which squares are not clipped."""
        return float(self.steps["clipping_range"]["radius"])

    @property
    def has_cell_stages(self) -> bool:
        """Whether each cell was published by a mechanism of one cell, in stages of its own."""
        return "cell_stages" in self.steps

    @property
    def has_no_range(self) -> bool:
        """Whether values were clipped to public bounds alone."""
        return not {"clipping_range", cell_ranges.STEP} & self.steps.keys()


@dataclass(frozen=True)
class RecomputedLosses:
    """Limits of the losses: of their sum over all units, and of the largest."""

    total: LossRange
    largest: LossRange


def recompute_losses(stated: ReleaseStatements) -> RecomputedLosses:
    """Return the limits of the losses by scales, biases, bounds and counts (module head)."""
    shared, cells = _cell_limits(stated)
    stated_losses = stated.manifest["losses"]
    units, low = stated_losses["units"], shared * stated_losses["units"] + float(cells[0].sum())
    high = shared * units + float(cells[1].sum())
    largest = shared + float((cells[0] / stated.users).max(initial=0.0))
    # Those who lose nothing do not lower the average of the others.
    average = low / max(units - stated_losses["at_zero"], 1)
    return RecomputedLosses(
        LossRange(low, high), LossRange(max(largest, average), shared + float(cells[2].sum()))
    )


CellLimits = tuple["Floats", "Floats", "Floats"]


def _cell_limits(stated: ReleaseStatements) -> tuple[float, CellLimits]:
    """Return the loss of every unit beside the cells, and three limits of each cell.

    These are the least and the largest loss of all units by it, and the largest loss of one.
    """
    if stated.has_cell_stages:
        return 0.0, _cell_stage_limits(stated)
    if stated.has_no_range:
        return 0.0, _combine_statistics(
            [unranged_limits(stated, statistic) for statistic in stated.statistics.values()]
        )
    steps = stated.steps
    shared = sum(
        float(Fraction(steps[k]["epsilon"]))
        for k in ("clipping_range", "residual_scale", *cell_ranges.SHARED_STEPS)
        if k in steps
    )
    rates = [_ranged_limits(stated, statistic) for statistic in stated.statistics.values()]
    low = np.sum([low for low, _ in rates], axis=0)
    high = np.sum([high for _, high in rates], axis=0)
    if "mean" not in stated.statistics:  # it was released all the same, and its scale is not stated
        high = np.full_like(low, np.inf)
    return shared, (low, high, high)


def _cell_stage_limits(stated: ReleaseStatements) -> CellLimits:
    """Return the three limits of each cell with stages of its own.

    Nobody loses more by a cell than its loss. How much less some lose depends on how their samples
    are grouped and weighed, which the folder does not show.
    """
    cell_loss = float(Fraction(stated.steps["cell_stages"]["cell_epsilon"]))
    single = np.full_like(stated.users, cell_loss)
    return np.zeros_like(single), single * stated.users, single


def _ranged_limits(stated: ReleaseStatements, statistic: StatedStatistic) -> tuple[Floats, Floats]:
    """Return limits of the loss of all units by each cell, under a private range."""
    steps = stated.steps
    if cell_ranges.STEP in steps:
        return (cell_ranges.cell_range_rates(stated.manifest, steps, statistic.scale),) * 2
    strategy = steps["residual_scale"]["strategy"] if "residual_scale" in steps else None
    width = steps["clipping_range"]["upper"] - steps["clipping_range"]["lower"]
    if statistic.name == "variance":
        width = stated.radius**2
    if strategy == "user_residuals":
        return np.zeros_like(statistic.scale), np.full_like(statistic.scale, np.inf)
    if strategy == "cell_residuals":
        width = 2.0 * steps["cells"]["half_width"] / float(1 - FIRST_STAGE_SHARE)
    rate = _share_of_noise(np.full_like(statistic.scale, width), statistic.scale)
    return rate, rate if strategy is None else np.full_like(rate, np.inf)


def unranged_limits(stated: ReleaseStatements, statistic: StatedStatistic) -> CellLimits:
    """Return the three limits of each cell by one statistic within public bounds."""
    # Scales of variances are in squared value units.
    noise = statistic.scale / stated.span ** (1 if statistic.name == "mean" else 2)
    has_noise = (statistic.scale > 0).astype(np.float64)
    records, bias = stated.records, statistic.bias
    largest_share = np.minimum(statistic.contribution_cap, records - stated.users + 1) / records
    if stated.divisor is not None:
        # Nothing is put at the middle: all of the weight is noised, whatever the bias is.
        records, bias = stated.divisor, np.zeros_like(bias)
        largest_share = np.minimum(statistic.contribution_cap, records) / records
    if statistic.name == "mean":
        share = 1.0 - 2.0 * bias / stated.span
        rate = _share_of_noise(share, noise)
        return rate, rate, _share_of_noise(np.minimum(largest_share, share), noise)
    smallest_share, share = _variance_share(bias / stated.span**2)
    smallest_loss = (1.0 - 1.0 / records**2) / 4.0
    lattice = has_noise * LATTICE_LOSS
    return (
        _share_of_noise(smallest_share * smallest_loss, noise),
        _share_of_noise(np.minimum(share, stated.users / 4.0), noise) + lattice * stated.users,
        _share_of_noise(np.minimum(np.minimum(largest_share, share), 0.25), noise) + lattice,
    )


def _variance_share(bias: Floats) -> tuple[Floats, Floats]:
    """Return limits of the contributed share of a cell, from the variance's bias."""
    share_removed = (1.0 - np.sqrt(np.maximum(1.0 - 8.0 * bias, 0.0))) / 2.0
    # Near 1/2 the bias is flat, so rounding changes the share by more than itself.
    open_ended = share_removed > 0.5 - 1e-6
    return np.where(open_ended, 0.0, 1.0 - share_removed - 1e-6), 1.0 - share_removed + 1e-6


def _combine_statistics(limits: list[CellLimits]) -> CellLimits:
    """Return the limits by several statistics: at least the larger, at most the sum."""
    low, high, single = (np.stack(column) for column in zip(*limits, strict=True))
    smallest = low.max(axis=0) if len(limits) > 1 else low[0]
    return smallest, high.sum(axis=0), single.sum(axis=0)


def _share_of_noise(share: Floats, noise: Floats) -> Floats:
    """Return a share over the noise; 0 where there is no noise, since no value is read."""
    return np.divide(share, noise, out=np.zeros_like(share), where=noise > 0)


# ---- contradictions ----


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
        float(_share_of_noise(stated.span ** powers[p.name], p.scale).sum())
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
    if cell_ranges.STEP in stated.steps:
        yield from cell_ranges.check_cell_ranges(stated.manifest, stated.steps, TOLERANCE)
    # With the strategy user_residuals two steps may cost different units most.
    adds_up = "user_clusters" in stated.steps or math.isclose(
        sum(epsilons), spent, abs_tol=EPSILON_TOLERANCE * 10
    )
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
