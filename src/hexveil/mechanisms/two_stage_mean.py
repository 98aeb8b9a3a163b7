"""A release in private steps: the interval, h, first averages, and what narrower ranges say.

Strategies: planning/clipping_range/two_stage.py. All numbers are in quanta above the lower bound
of the records. Let [a, b] be the interval of first steps, h the half width of the second, W whole
weights.

users
    Here [a, b] is made narrower around its middle, since users' own means differ less. A user with
    N records of sum S over all its cells has the mean u = floor(clip(S, a N, b N) / N) and gives
    its class V u, V its weight there. A pair with m records of sum s gives its cell
    floor(W clip(s - m u, -h m, h m) / m): what u was rounded by is in that.
cells
    A pair gives its cell's first average floor(W clip(s, a m, b m) / m). The centre c of a cell is
    a whole number, made from the noisy first averages by a stated model (smoothing/declipping.py).
    Then a pair gives floor(W clip(s - m c, -h' m, h' m) / m).
direct
    As in mechanisms/weighted_mean.py.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts stay. Only this user's contributions change, since u is its own and c is made of noisy
numbers. Sensitivity: contributions lie between V a and V b, and between -W h and W h, all of them
whole: V (b - a) in the class, and 2 W h in each cell; each is reached, if not all at once.
Loss: discrete Laplace of scale R at integer distance d costs at most d / R (noise.py). R is
the plan's noise for a width of 1 times ΣV (b - a) or 2 h ΣW, rounded up; so a step costs a user
what the plan says, whatever was found before. With interval and h (mechanisms/range_quantiles.py,
deviations.py) the losses add up whatever earlier outputs chose (ledger/odometer.py), and the plan
books the most that any way costs.
Source: DESIGN's linear release of clipped user means; ERRATA 3 for the accounting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import TwoStageErrorModel
from hexveil.base.errors import InputError
from hexveil.mechanisms import range_quantiles, residual_radius
from hexveil.mechanisms.clipped_mean import ROOM
from hexveil.mechanisms.noise import TAIL
from hexveil.mechanisms.weighted_mean import contributions, losses, scales_of, statistic
from hexveil.planning.clipping_range.private_range import widened
from hexveil.planning.clipping_range.strategies import (
    FIRST_STAGE_SHARE,
    predict_cell_residual_error,
    released_widths,
    second_stage_half_width,
    select_strategy,
    user_mean_range,
    within_cell_sd,
)
from hexveil.planning.clipping_range.two_stage import RESIDUAL_QUANTILE
from hexveil.planning.clipping_range.two_stage_plan import STRATEGIES, StageOutputs
from hexveil.publishing.stages import CELLS, Stage, noised
from hexveil.smoothing.declipping import DeclippedEstimate, NoisyObservation, estimate_declipped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.public_metadata import PublicMetadata, ValueLattice
    from hexveil.planning import Plan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.clipping_range.two_stage_plan import TwoStagePlan
    from hexveil.publishing.stages import Draw, Stages
    from hexveil.records import Dataset

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Whole = dict[str, Ints]

RANGES, COARSE_SUMS, CENTRES, CLASSES = "interval", "coarse", "centre", "classes"
"""Names of what steps found, beside "mean"."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What a plan in steps has for certain."""

    interval: PrivateClippingRange
    steps: TwoStagePlan
    noise: Floats


def parts_of(plan: Plan) -> Parts:
    """Return interval, steps, and the noise of the way `direct`, of a plan that has them."""
    interval, steps = plan.allocation.clipping_range, plan.allocation.two_stage
    assert interval is not None  # noqa: S101  only such plans come here
    assert steps is not None  # noqa: S101
    return Parts(interval, steps, plan.mean_noise)


def empty(plan: Plan) -> Whole:
    """Return the numbers that a release in steps stores, all zero."""
    cells = plan.occupancy.n_cells
    sizes = {
        RANGES: 4,
        COARSE_SUMS: cells,
        CENTRES: cells,
        CLASSES: parts_of(plan).steps.cluster_noise.size,
        "mean": cells,
    }
    return {name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()}


def stages(dataset: Dataset, plan: Plan) -> Stages:
    """Yield the private stages, and return all that they found, by name."""
    numbers, facts, made = empty(plan), dataset.public, parts_of(plan)
    steps, interval = facts.lattice.span_quanta, made.interval
    asked = range_quantiles.ballot(facts, interval.quantiles, interval.epsilon)
    base = range_quantiles.interval((yield range_stage(dataset, asked)), asked, steps)
    first = widened(base, steps, made.steps.widening)
    about = residual_radius.measure(
        plan.occupancy, first[1] - first[0], RESIDUAL_QUANTILE, made.steps.epsilon
    )
    inside, way = map(int, (yield _inside_stage(dataset, plan, base, about)))
    numbers[RANGES] = np.array([*base, inside, way], dtype=np.int64)
    found = ranges(plan, numbers, steps)
    yield from _STAGES[STRATEGIES[way]](dataset, plan, found, numbers)
    return numbers


def range_stage(dataset: Dataset, asked: range_quantiles.Ballot) -> Stage:
    """Return the stage that chooses the ends of the interval."""
    return Stage(
        RANGES,
        2,
        lambda: range_quantiles.losses(dataset.occupancy, asked),
        lambda: range_quantiles.prepare(dataset, asked),
    )


def _inside_stage(
    dataset: Dataset, plan: Plan, base: tuple[int, int], asked: residual_radius.Measure
) -> Stage:
    """Return the stage that chooses h; the way that follows from it is stored with it.

    A comparison of predicted errors could come out otherwise on another processor.
    """

    def measure() -> Draw:
        draw = residual_radius.prepare(dataset, asked)

        def drawn() -> Ints:
            inside = draw()
            way = _way(plan, base, inside, dataset.public.lattice.span_quanta)
            return np.array([inside, STRATEGIES.index(way)], dtype=np.int64)

        return drawn

    return Stage("deviation", 2, lambda: residual_radius.losses(plan.occupancy, asked), measure)


def _way(plan: Plan, base: tuple[int, int], inside: int, steps: int) -> str:
    """Return the way of least predicted error for what was found."""
    made = parts_of(plan)
    direct = made.interval.with_ends(widened(base, steps, made.interval.widening), steps)
    first = widened(base, steps, made.steps.widening)
    found = StageOutputs("direct", first, 1, inside, steps)
    return select_strategy(
        plan.occupancy, direct, made.noise, made.steps, released_widths(direct, found)
    )


def ranges(plan: Plan, numbers: Whole, steps: int) -> StageOutputs:
    """Return what was found before the cells' own numbers, from what the ledger stores."""
    made = parts_of(plan)
    low, high, inside, way = map(int, numbers[RANGES])
    first, name = widened((low, high), steps, made.steps.widening), STRATEGIES[way]
    if name == "direct":
        direct = widened((low, high), steps, made.interval.widening)
        return StageOutputs(name, direct, 1, inside, steps)
    own = user_mean_range(first, inside) if name == "users" else None
    return StageOutputs(
        name, first, second_stage_half_width(name, first, inside), inside, steps, own
    )


def _direct(dataset: Dataset, plan: Plan, found: StageOutputs, numbers: Whole) -> Stages:
    """Yield the stage of weighted averages of user means in the interval."""
    made = parts_of(plan)
    weight, width = made.interval.weight, _width(found)
    scales = scales_of(made.noise, made.interval.totals(plan.occupancy), width)
    numbers["mean"] = yield Stage(
        CELLS,
        scales.size,
        lambda: losses(plan.occupancy, weight, width, scales),
        lambda: noised(statistic(dataset, weight, found.ends), scales),
    )
    return numbers


def _users(dataset: Dataset, plan: Plan, found: StageOutputs, numbers: Whole) -> Stages:
    """Yield the stage of class means, and of weighted averages of distances from users' means."""
    occupancy, steps = plan.occupancy, parts_of(plan).steps
    assert found.user_mean_range is not None  # noqa: S101  see ranges
    low, high = found.user_mean_range
    in_classes = scales_of(steps.cluster_noise, steps.cluster_totals(), high - low)
    in_cells = scales_of(steps.noise, steps.totals(occupancy), 2 * found.half_width)

    def lost() -> Floats:
        by_class = steps.cluster_weight * float(high - low) / in_classes[steps.labels]
        return by_class + losses(occupancy, steps.weight, 2 * found.half_width, in_cells)

    def measure() -> Draw:
        total, n = residual_radius.own_means(dataset)
        centre = np.clip(total, low * n, high * n) // n
        classed = np.zeros(steps.cluster_noise.size, dtype=np.int64)
        np.add.at(classed, steps.labels, steps.cluster_weight * centre)
        each = _around(dataset, plan, centre[occupancy.user], steps.weight, found.half_width)
        values = np.concatenate((classed, _by_cell(plan, each)))
        return noised(values, np.concatenate((in_classes, in_cells)))

    drawn = yield Stage(CELLS, in_classes.size + in_cells.size, lost, measure)
    numbers[CLASSES], numbers["mean"] = np.split(drawn, [in_classes.size])
    return numbers


def _cells(dataset: Dataset, plan: Plan, found: StageOutputs, numbers: Whole) -> Stages:
    """Yield the stage of first averages, then that of weighted averages of distances from them."""
    occupancy, made = plan.occupancy, parts_of(plan)
    weight, total = made.interval.weight, made.interval.totals(occupancy)
    coarse = scales_of(made.noise, total, _width(found), FIRST_STAGE_SHARE)
    numbers[COARSE_SUMS] = yield Stage(
        COARSE_SUMS,
        coarse.size,
        lambda: losses(occupancy, weight, _width(found), coarse),
        lambda: noised(statistic(dataset, weight, found.ends), coarse),
    )
    seen = undone(plan, replace(found, first_stage_means=numbers[COARSE_SUMS] / total), None)
    centre = np.clip(np.rint(seen.estimate), 0, found.span_quanta).astype(np.int64)
    fine = scales_of(made.noise, total, 2 * found.half_width, 1 - FIRST_STAGE_SHARE)

    def measure() -> Draw:
        each = _around(dataset, plan, centre[occupancy.cell], weight, found.half_width)
        draw = noised(_by_cell(plan, each), fine)
        # A centre could be another on another processor, and the result is around this one.
        return lambda: np.concatenate((centre, draw()))

    lost = partial(losses, occupancy, weight, 2 * found.half_width, fine)
    drawn = yield Stage(CELLS, 2 * fine.size, lost, measure)
    numbers[CENTRES], numbers["mean"] = np.split(drawn, 2)
    return numbers


_STAGES = {"direct": _direct, "users": _users, "cells": _cells}


def _around(dataset: Dataset, plan: Plan, centre: Ints, weight: Ints, half: int) -> Ints:
    """Return what each pair gives to the average of distances from a centre. PRIVATE."""
    n = plan.occupancy.n
    return contributions(dataset.sums.total - n * centre, n, weight, (-half, half))


def _by_cell(plan: Plan, each: Ints) -> Ints:
    return np.asarray(np.add.reduceat(each, plan.occupancy.start[:-1]), dtype=np.int64)


def _width(found: StageOutputs) -> int:
    return found.ends[1] - found.ends[0]


def found_by(plan: Plan, numbers: Whole, facts: PublicMetadata) -> Plan:
    """Return the plan with what a release found: widths, the way, first averages."""
    made, steps = parts_of(plan), facts.lattice.span_quanta
    found = ranges(plan, numbers, steps)
    if found.strategy == "cells":
        coarse = numbers[COARSE_SUMS] / made.interval.totals(plan.occupancy)
        found = replace(found, first_stage_means=coarse, centre=numbers[CENTRES])
    if found.strategy == "users":
        found = replace(found, cluster_means=numbers[CLASSES] / made.steps.cluster_totals())
    low, high = map(int, numbers[RANGES][:2])
    direct = widened((low, high), steps, made.interval.widening)
    rows = replace(
        plan.allocation,
        clipping_range=made.interval.with_ends(direct, steps),
        two_stage=replace(made.steps, outputs=found),
    )
    return replace(plan, allocation=rows)


def means(numbers: Whole, plan: Plan, scale: ValueLattice) -> Floats:
    """Return the published mean of each cell, in value units, on its grid."""
    made, found = parts_of(plan), _found(plan)
    total = _totals(plan)
    own = numbers["mean"] / total
    if found.strategy == "cells":
        own = own + numbers[CENTRES]
    if found.strategy == "users":
        assert found.cluster_means is not None  # noqa: S101  see found_by
        share = made.steps.clusters(plan.occupancy).share
        own = np.rint((own + _mixed(share, found.cluster_means)) * total) / total
    return np.asarray(plan.lower + float(scale.quantum) * own, dtype=np.float64)


def _mixed(share: Floats, classes: Floats) -> Floats:
    """Return Σ share x class of each cell, added in order: the same double on every processor."""
    return np.asarray(np.add.accumulate(share * classes, axis=1)[:, -1])


def grid(plan: Plan, scale: ValueLattice) -> tuple[Floats, Floats]:
    """Return where each cell's published means can lie: a start, and a step."""
    return plan.lower.copy(), float(scale.quantum) / _totals(plan)


def undone(plan: Plan, found: StageOutputs, second: Floats | None) -> DeclippedEstimate:
    """Return the cells' means with the clipping undone, in quanta; for the way `cells`.

    Parameters
    ----------
    plan : Plan
    found : StageOutputs
        With the first averages.
    second : ndarray of float, shape (n_cells,), or None
        What the second step published, in quanta; None before it.
    """
    noise = parts_of(plan).noise
    assert found.first_stage_means is not None  # noqa: S101
    flat = np.ones(noise.size)
    low, high = found.ends
    first = NoisyObservation(
        found.first_stage_means,
        flat * (low + high) / 2.0,
        noise / float(FIRST_STAGE_SHARE) * (high - low),
        (high - low) / 2.0,
    )
    spread = within_cell_sd(high - low, found.residual_radius)
    if second is None:
        return estimate_declipped([first], spread)
    assert found.centre is not None  # noqa: S101
    scale = noise / float(1 - FIRST_STAGE_SHARE) * 2.0 * found.half_width
    own = NoisyObservation(second, found.centre.astype(np.float64), scale, float(found.half_width))
    return estimate_declipped([first, own], spread, fit_sd=True)


@dataclass(frozen=True, eq=False)
class Start:
    """What smoothing begins with, in value units.

    Attributes
    ----------
    number, scale : ndarray of float, shape (n_cells,)
        Each cell's number, and the Laplace scale of as much noise as cells do not share.
    off : ndarray of float, shape (n_cells,)
        What else each number is likely off by, on average: weights and clipping.
    shared : float
        Standard deviation of the noise that all cells share.
    """

    number: Floats
    scale: Floats
    off: Floats
    shared: float


def narrowed(plan: Plan) -> bool:
    """Return whether a release found narrower ranges to be better than the interval alone."""
    return way(plan) not in ("", "direct")


def way(plan: Plan) -> str:
    """Return the way that a release went; nothing where it has no steps, or is not made yet."""
    steps = plan.allocation.two_stage
    return "" if steps is None or steps.outputs is None else steps.outputs.strategy


def start(plan: Plan, noisy: Floats) -> Start:
    """Return what smoothing begins with: classes clamped to their interval, clipping undone.

    Parameters
    ----------
    plan : Plan
        After a release that found narrower ranges to be better.
    noisy : ndarray of float, shape (n_cells,)
        The published means, in value units.
    """
    found, part = _found(plan), plan.error_models["mean"]
    assert isinstance(part, TwoStageErrorModel)  # noqa: S101  so are all of plans in steps
    quantum = plan.span / found.span_quanta
    if found.strategy == "cells":
        seen = undone(plan, found, (noisy - plan.lower) / quantum)
        own = quantum * seen.sd / math.sqrt(2.0)
        made = parts_of(plan)
        _, width, half = released_widths(made.interval, found)
        _, off = predict_cell_residual_error(plan.occupancy, made.interval, made.noise, width, half)
        return Start(plan.lower + quantum * seen.estimate, own, plan.span * off, 0.0)
    assert found.user_mean_range is not None  # noqa: S101  see ranges
    assert found.cluster_means is not None  # noqa: S101  see found_by
    steps = parts_of(plan).steps
    share = steps.clusters(plan.occupancy).share
    moved = _mixed(
        share, np.clip(found.cluster_means, *found.user_mean_range) - found.cluster_means
    )
    common = share.mean(axis=0)
    noise = quantum[0] * (found.user_mean_range[1] - found.user_mean_range[0]) * steps.cluster_noise
    apart = (share - common) ** 2 @ noise**2
    own = np.sqrt(apart + (2.0 * quantum * found.half_width * steps.noise) ** 2)
    return Start(
        noisy + quantum * moved,
        own,
        part.unit * part.expected_bias,
        math.sqrt(2.0 * float(common**2 @ noise**2)),
    )


def check(plan: Plan, scale: ValueLattice) -> None:
    """Refuse, from public facts, what would not have the stated loss, or numbers too large.

    Raises
    ------
    InputError
        If a weight is below zero, a cell or class has none or no noise, or statistic and noise
        could leave 64 bits.
    """
    if plan.allocation.two_stage is None:
        return
    steps = plan.allocation.two_stage
    made = parts_of(plan)
    pairs = (
        (
            made.interval.weight,
            made.interval.totals(plan.occupancy),
            made.noise / float(FIRST_STAGE_SHARE),
        ),
        (steps.cluster_weight, steps.cluster_totals(), steps.cluster_noise),
        (steps.weight, steps.totals(plan.occupancy), steps.noise),
    )
    for weight, total, noise in pairs:
        if (weight < 0).any() or (total <= 0).any() or not (noise > 0).all():
            raise InputError("the plan has a class or cell without weights or noise; plan again.")
        widest = 2 * scale.span_quanta
        if not (2.0 * widest * total + TAIL * scales_of(noise, total, widest) < ROOM).all():
            raise InputError(
                f"noise for epsilon {float(plan.requested_epsilon):.3g} does not fit whole numbers "
                "of 64 bits; ask for a larger epsilon or use a coarser quantum."
            )


def _found(plan: Plan) -> StageOutputs:
    found = parts_of(plan).steps.outputs
    assert found is not None  # noqa: S101  after a release
    return found


def _totals(plan: Plan) -> Ints:
    """Return the sum of weights of each cell in the way that was taken."""
    made = parts_of(plan)
    if _found(plan).strategy == "users":
        return made.steps.totals(plan.occupancy)
    return made.interval.totals(plan.occupancy)
