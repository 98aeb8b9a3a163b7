"""What the scales, biases, bounds and counts of a folder say about losses: recomputed, compared.

Per cell a folder has the number of units n and of records N, the width U of the bounds and, of each
statistic, the Laplace scale b, the bias B and the threshold t. It has no row per unit, so nobody
can recompute what one unit loses. The following can be.

The sum of all units' losses
    Let a unit keep k of its samples in a cell, and K = Σ k. By the mean it loses k U / (b N)
    (planning/plan.py), and B = U d / 2 with d = 1 - K / N (accounting/error_model.py). So all units
    lose (U - 2 B) / b by this cell: counts cancel. Under a private interval of width w a unit of
    weight share s loses s w / b, and Σ s = 1: all lose w / b; by variances of radius r likewise r²
    / b; and each unit loses the interval's price. So `losses.mean` times `losses.users` is known
    exactly, and a scale, a bias or a bound that was changed alone does not fit it. A variance
    without an interval moves by at most x (1 - x), x = k / N, or by 1/4 for x > 1/2, both at most
    x; and by at least x / 4 (1 - 1/N²), for N = 1 by nothing. Σ x = 1 - d follows from B = U² h (1
    - h) / 2, h = min(d, 1/2), unless d >= 1/2, when it is in [0, 1/2]. The plan adds 2^-30 per unit
    and cell. By both statistics of a cell a unit loses no less than by either
    (accounting/privacy_loss.py) and no more than by both. So the sum is within two limits. In
    several steps a unit is booked the most that any way costs it, so the sum is at least what the
    way `direct` or `cells` costs; by the way `users`, at least the price of the first steps.
The largest loss
    It is at least the average of those who lose anything; and since the K samples of a cell are
    kept of n units, one keeps K / n or more: it is at least what all lose by any one cell, divided
    by n. It is at most the sum over cells of what one unit can lose there: it keeps no more than t,
    nor than the N - n + 1 that others leave it, nor than K.
What is stated twice
    `epsilon_spent` is `losses.max`, rounded up; the factor is e to that power; composition charges
    no less; private steps add up to it; errors and bounds are those of bias and scale, and their
    largest and average those that the plan states.

Not recomputed, because nothing in the folder shows it: quantiles of the losses but for their order,
what a single unit loses, `l0_epsilon` but for its limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.mechanisms.clipped_variance import STEPS
from hexveil.mechanisms.weighted_variance import SHOWN
from hexveil.planning.clipping_range.strategies import COARSE
from hexveil.publishing.manifest import epsilon_text
from hexveil.report.promise import probability_factor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Said = dict[str, Any]

CLOSE = 1e-9
FACTOR = "probability_factor"
"""Field of the guarantee that holds e to the power of what is spent."""
LATTICE = 2.0**-30
"""What a variance's lattice costs each unit in each cell (mechanisms/clipped_variance.py)."""
SPENT = 1e-11
"""What rounding to twelve places adds to a sum of a few prices."""


@dataclass(frozen=True)
class Range:
    """A number that is known to lie between two others, or exactly."""

    low: float
    high: float

    def has(self, number: float, slack: float) -> bool:
        """Return whether a number is in it, up to rounding."""
        return self.low - slack <= number <= self.high + slack

    def __str__(self) -> str:
        if math.isclose(self.low, self.high, rel_tol=CLOSE):
            return f"{self.high:.6g}"
        high = f" and at most {self.high:.6g}" if math.isfinite(self.high) else ""
        return f"at least {self.low:.6g}{high}"


@dataclass(frozen=True, eq=False)
class Part:
    """A statistic of every cell, as the manifest states it.

    Attributes
    ----------
    name : "mean" or "variance"
    kept, scale, bias, bound95, start, step : ndarray of float, shape (n_cells,)
    """

    name: str
    kept: Floats
    scale: Floats
    bias: Floats
    bound95: Floats
    start: Floats
    step: Floats


@dataclass(frozen=True, eq=False)
class Stated:
    """What of a manifest and its table losses are recomputed from.

    Attributes
    ----------
    manifest : dict
    users, records, lower, upper : ndarray of float, shape (n_cells,)
    parts : dict of str to Part
    """

    manifest: Said
    users: Floats
    records: Floats
    lower: Floats
    upper: Floats
    parts: dict[str, Part]

    @classmethod
    def of(cls, manifest: Said, table: pa.Table) -> Stated:
        """Return what manifest and table state; ValueError if cells name other statistics."""
        cells = manifest["cells"]
        names = [part["statistic"] for part in cells[0]["noised"]]
        if any([part["statistic"] for part in cell["noised"]] != names for cell in cells):
            raise ValueError("cells of other statistics")

        def column(at: int, key: str) -> Floats:
            return np.array([cell["noised"][at][key] for cell in cells], dtype=np.float64)

        keys = ("kept", "scale", "bias", "bound95", "grid_start", "grid_step")
        users, records = (table[name].to_numpy().astype(float) for name in ("users", "records"))
        lower, upper = (
            np.array([cell[end] for cell in cells], float) for end in ("lower", "upper")
        )
        parts = {n: Part(n, *(column(at, key) for key in keys)) for at, n in enumerate(names)}
        return cls(manifest, users, records, lower, upper, parts)

    @property
    def span(self) -> Floats:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    @property
    def steps(self) -> dict[str, Said]:
        """The private steps by their names."""
        return {one["step"]: one for one in self.manifest["plan"]["private_steps"]}

    @property
    def radius(self) -> float:
        """How far from a private interval's middle squares are kept."""
        return float(self.steps["interval"]["radius"])

    @property
    def plain(self) -> bool:
        """Whether values were cut to public bounds alone."""
        return "interval" not in self.steps


@dataclass(frozen=True)
class Losses:
    """What is known of the losses: their sum over all units, and the largest."""

    total: Range
    largest: Range


def losses(stated: Stated) -> Losses:
    """Return what scales, biases, bounds and counts say of the losses (module head)."""
    shared, cells = _of_cells(stated)
    said = stated.manifest["losses"]
    units, low = said["users"], shared * said["users"] + float(cells[0].sum())
    high = shared * units + float(cells[1].sum())
    one = shared + float((cells[0] / stated.users).max(initial=0.0))
    among = low / max(units - said["at_zero"], 1)
    return Losses(Range(low, high), Range(max(one, among), shared + float(cells[2].sum())))


Three = tuple["Floats", "Floats", "Floats"]


def _of_cells(stated: Stated) -> tuple[float, Three]:
    """Return what every unit loses beside the cells, and three limits of each cell.

    What all units together lose by it, at least and at most, and what one may lose.
    """
    if stated.plain:
        return 0.0, _sum([_plain(stated, part) for part in stated.parts.values()])
    steps = stated.steps
    shared = sum(float(_exact(steps[k]["epsilon"])) for k in ("interval", "inside") if k in steps)
    rates = [_weighted(stated, part) for part in stated.parts.values()]
    low = np.sum([low for low, _ in rates], axis=0)
    high = np.sum([high for _, high in rates], axis=0)
    if "mean" not in stated.parts:  # it was made all the same, and its scale is not said
        high = np.full_like(low, np.inf)
    return shared, (low, high, high)


def _weighted(stated: Stated, part: Part) -> tuple[Floats, Floats]:
    """Return what all units together lose by each cell under a private interval."""
    steps = stated.steps
    way = steps["inside"]["way"] if "inside" in steps else None
    width = steps["interval"]["upper"] - steps["interval"]["lower"]
    if part.name == "variance":
        width = stated.radius**2
    if way == "users":
        return np.zeros_like(part.scale), np.full_like(part.scale, np.inf)
    if way == "cells":
        width = 2.0 * steps["cells"]["half_width"] / float(1 - COARSE)
    rate = _over(np.full_like(part.scale, width), part.scale)
    return rate, rate if way is None else np.full_like(rate, np.inf)


def _plain(stated: Stated, part: Part) -> Three:
    """Return the three limits of each cell by one statistic within public bounds."""
    noise = part.scale / stated.span ** (1 if part.name == "mean" else 2)
    live = (part.scale > 0).astype(np.float64)
    most = np.minimum(part.kept, stated.records - stated.users + 1) / stated.records
    if part.name == "mean":
        share = 1.0 - 2.0 * part.bias / stated.span
        rate = _over(share, noise)
        return rate, rate, _over(np.minimum(most, share), noise)
    least, share = _share_of_variance(part.bias / stated.span**2)
    own = (1.0 - 1.0 / stated.records**2) / 4.0
    lattice = live * LATTICE
    return (
        _over(least * own, noise),
        _over(np.minimum(share, stated.users / 4.0), noise) + lattice * stated.users,
        _over(np.minimum(np.minimum(most, share), 0.25), noise) + lattice,
    )


def _share_of_variance(bias: Floats) -> tuple[Floats, Floats]:
    """Return limits of what is kept of a cell, as a share, from the variance's bias."""
    away = (1.0 - np.sqrt(np.maximum(1.0 - 8.0 * bias, 0.0))) / 2.0
    # Near 1/2 the bias is flat, so that rounding makes more of it than that.
    open_ended = away > 0.5 - 1e-6
    return np.where(open_ended, 0.0, 1.0 - away - 1e-6), 1.0 - away + 1e-6


def _sum(limits: list[Three]) -> Three:
    """Return the limits by several statistics: at least the larger, at most the sum."""
    low, high, one = (np.stack(column) for column in zip(*limits, strict=True))
    least = low.max(axis=0) if len(limits) > 1 else low[0]
    return least, high.sum(axis=0), one.sum(axis=0)


def _over(share: Floats, noise: Floats) -> Floats:
    """Return a share of the noise's reach; 0 where there is no noise, and no value is read."""
    return np.divide(share, noise, out=np.zeros_like(share), where=noise > 0)


def _exact(text: str) -> Fraction:
    return Fraction(text)


# ---- what does not fit ----


def problems(stated: Stated) -> Iterator[str]:
    """Yield what the manifest says of losses and errors that cannot be so, a sentence each."""
    yield from _spent(stated)
    yield from _spread(stated)
    yield from _stepwise(stated)
    yield from _bounds(stated)
    yield from _figures(stated)


def _spent(stated: Stated) -> Iterator[str]:
    """Yield where what is spent is said in two ways, and live cells are free or constants cost."""
    said, largest = stated.manifest["guarantee"], stated.manifest["losses"]["max"]
    spent, live = _exact(said["epsilon_spent"]), any(p.scale.any() for p in stated.parts.values())
    if said["epsilon_spent"] != epsilon_text(Fraction(largest)):
        yield "epsilon_spent is not the largest loss, rounded up."
    factor = probability_factor(Fraction(largest))
    if said[FACTOR] is None or not math.isfinite(factor):
        wrong = math.isfinite(factor) or said[FACTOR] is not None
    else:
        wrong = not math.isclose(said[FACTOR], factor, rel_tol=CLOSE)
    if wrong:
        yield f"guarantee/{FACTOR} is not e to the power of epsilon_spent."
    if float(spent) > float(_exact(said["epsilon_asked"])) + SPENT:
        yield "more was spent than asked for."
    if float(_exact(said["l0_epsilon"])) < largest * (1.0 - CLOSE):
        yield "l0_epsilon is smaller than what was spent, so it counts no composition."
    if live and (not largest or stated.manifest["ledger"] is None):
        yield "a cell has noise, and the release says that it cost nothing."
    if not live and (largest or stated.manifest["ledger"] is not None):
        yield "no cell has noise, and the release says that it cost something."


def _spread(stated: Stated) -> Iterator[str]:
    """Yield where the spread of losses does not fit the cells, or itself."""
    said, known = stated.manifest["losses"], losses(stated)
    order = [said[key] for key in ("median", "p90", "p99", "max")]
    if order != sorted(order) or said["mean"] > said["max"] * (1.0 + CLOSE):
        yield "the quantiles of the losses are not in order."
    if said["users"] < stated.users.max(initial=0) or said["at_zero"] > said["users"]:
        yield "losses are of fewer units than a cell has."
    if (said["at_zero"] == said["users"]) != (not said["max"]):
        yield "either all units lose nothing, or one loses something."
    # Where nearly all of a cell is cut away its bias says little of what is left.
    slack = CLOSE * (1.0 + known.total.low + _reach(stated))
    if not known.total.has(said["mean"] * said["users"], slack):
        yield (
            f"all units together lose {known.total} by the scales, biases and bounds of the cells, "
            f"and {said['mean'] * said['users']:.6g} by the losses stated."
        )
    if not known.largest.has(said["max"], slack):
        yield (
            f"the most exposed unit loses {known.largest} by the scales, biases, bounds and counts "
            f"of the cells, and {said['max']:.6g} as stated."
        )


def _reach(stated: Stated) -> float:
    """Return the sum of all rates, of which rounding takes a part."""
    powers = {"mean": 1, "variance": 2}
    return sum(
        float(_over(stated.span ** powers[p.name], p.scale).sum()) for p in stated.parts.values()
    )


def _stepwise(stated: Stated) -> Iterator[str]:
    """Yield where private steps do not add up to what is spent."""
    spent, steps = stated.manifest["losses"]["max"], stated.manifest["plan"]["private_steps"]
    if bool(steps) != bool(spent):
        yield "private steps are named where nothing was spent, or none where something was."
        return
    prices = [float(_exact(one["epsilon"])) for one in steps]
    if len({one["step"] for one in steps}) < len(steps) or (steps and "cells" not in stated.steps):
        yield "a private step stands twice, or that of the cells is missing."
        return
    if any(
        not math.isclose(one["share"] * spent, price, rel_tol=CLOSE, abs_tol=SPENT)
        for one, price in zip(steps, prices, strict=True)
    ):
        yield "a private step's share is not its part of what was spent."
    # In the way `users` the units that two steps cost most may be two.
    added = "classes" in stated.steps or math.isclose(sum(prices), spent, abs_tol=SPENT * 10)
    if not added or max(prices, default=0.0) > spent + SPENT:
        yield "private steps do not add up to what was spent."


def _bounds(stated: Stated) -> Iterator[str]:
    """Yield where a cell's bounds, counts or grid are none that a release has."""
    said = stated.manifest["bounds"]
    low, high = (float(_exact(said[end])) for end in ("lower", "upper"))
    quantum = float(_exact(said["quantum"]))
    if not (0 < quantum <= high - low) or (stated.lower < low).any() or (stated.upper > high).any():
        yield "a cell's bounds are not within those of the values."
    elif not stated.plain and not (_close(stated.lower, low) and _close(stated.upper, high)):
        yield "a cell has bounds of its own, which it has not under a private interval."
    elif not all(_whole((end - low) / quantum) for end in (stated.lower, stated.upper)):
        yield "a cell's bounds are no whole numbers of quanta from those of the values."
    if not (stated.span > 0).all() or not (stated.users >= 1).all():
        yield "a cell has no users, or bounds without a width."
    if not (stated.users <= stated.records).all():
        yield "a cell has more users than records."
    for part in stated.parts.values():
        if not _fits(part, stated, quantum):
            yield f"the grid of the {part.name} is not that of bounds, quantum, records and scale."


def _fits(part: Part, stated: Stated, quantum: float) -> bool:
    """Return whether a grid is the one that a release of these bounds and counts has."""
    live = part.scale > 0
    if not stated.plain:
        # Steps of a mean are a quantum over the sum of weights, which the folder does not say.
        if part.name == "variance":
            return _close(part.step, np.full_like(part.step, stated.radius**2 / SHOWN))
        return _close(part.start, stated.lower) and bool((part.step <= quantum).all())
    if part.name == "variance":
        return _close(part.step, part.scale / STEPS)
    step = np.where(live, quantum / (2.0 * stated.records), 0.0)
    start = np.where(live, stated.lower, stated.lower + stated.span / 2.0)
    return _close(part.step, step) and _close(part.start, start)


def _figures(stated: Stated) -> Iterator[str]:
    """Yield where biases and bounds within public bounds are none that a release states."""
    worst = {"mean": stated.span / 2.0, "variance": stated.span**2 / 8.0}
    for part in stated.parts.values() if stated.plain else ():
        live = part.scale > 0
        if (part.bias > worst[part.name] * (1.0 + CLOSE)).any():
            yield f"a bias of the {part.name} is larger than a constant can miss."
        if not _close(part.bound95, part.bias + part.scale * LN20):
            yield f"bound95 of the {part.name} is not its bias and ln 20 of its scale."
        if (live & (part.kept < 1)).any():
            yield f"a cell keeps no record for its {part.name}, and has noise."


def _whole(numbers: Floats) -> bool:
    return bool((np.abs(numbers - np.round(numbers)) <= 1e-6 * (1.0 + np.abs(numbers))).all())


def _close(one: Floats, other: Floats | float) -> bool:
    return bool(np.allclose(one, other, rtol=CLOSE, atol=1e-300))
