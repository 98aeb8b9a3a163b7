"""Hierarchical shrinkage of a map of noisy numbers: each cell borrows from those it resembles.

Model: number = T + bias + Laplace noise of known scale; T = mu + group effects (one variance per
grouping) + own deviation, of a variance in inverse proportion to the cell's users. Deviations and
independent effects are Student t with four degrees, so that a cell or group that differs hugely
from all others keeps its number; effects that are smooth along an axis or over edges are normal.
Variances come from the numbers (`fit`), intervals from each cell's posterior (`posterior`). Numbers
do not tell bias from signal: estimates are fitted as if there were none, and intervals are then
made wider for it (`bias`).
Post-processing: a function of what is public already, without randomness; it costs no privacy.
The intervals are the model's: their coverage holds on average over cells of maps like the model,
not for every dataset and not for each cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.errors import InputError
from hexveil.smoothing.apart import half_apart
from hexveil.smoothing.effects import Design
from hexveil.smoothing.fit import fit
from hexveil.smoothing.posterior import quantiles
from hexveil.smoothing.structure import kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from hexveil.smoothing.bias import Cut
    from hexveil.smoothing.fit import Fit
    from hexveil.smoothing.structure import Grouping

    Floats = NDArray[np.float64]

TYPICAL = 1.0 / 3.0
"""A bias's usual size as a part of its worst case, where nothing better is given."""
ROOM = 2.4
"""Standard deviations of the bias that intervals have room for: a prior says it, so not 1.96."""
OWN = "own"
"""The name of the deviation that a cell shares with no other."""


@dataclass(frozen=True)
class Smoothed:
    """A smoothed map, and how much of it is signal.

    Attributes
    ----------
    estimate : ndarray of float, shape (n_cells,)
        Posterior medians, within the bounds.
    low, high : ndarray of float, shape (n_cells,)
        Ends of the model-based 95% intervals, within the bounds.
    signal_share : float
        Part of the variance of the noisy numbers that is the cells' own variation, 0 to 1.
    distinguishable : int
        Cells whose interval excludes the mean of all estimates.
    half_apart : float or None
        By what ε has to be multiplied, by prediction, for half of the cells to be distinguishable
        (`apart`); None where no factor that one could name would do.
    deviations : mapping of str to float
        Fitted standard deviations: "own" and one per grouping used, in value units.
    text : str
        The model, for people.
    """

    estimate: Floats
    low: Floats
    high: Floats
    signal_share: float
    distinguishable: int
    half_apart: float | None
    deviations: Mapping[str, float]
    text: str


def smooth(  # noqa: PLR0913  a public door, most of it by keyword
    noisy: ArrayLike,
    scale: ArrayLike,
    groupings: Iterable[Grouping] = (),
    *,
    crowd: ArrayLike = 1.0,
    worst_bias: ArrayLike = 0.0,
    typical_bias: ArrayLike | None = None,
    cut: Cut | None = None,
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
) -> Smoothed:
    """Return a map's numbers drawn towards what similar cells say, as far as noise is large.

    Parameters
    ----------
    noisy : array_like of float, shape (n_cells,)
        Released numbers, before clamping, in value units.
    scale : array_like of float, shape (n_cells,) or scalar
        Of their Laplace noise. 0: a constant, which says nothing; its cell is told by others.
    groupings : iterable of Grouping
        Which cells resemble each other; those that say nothing are left out.
    crowd : array_like of float
        Users of each cell, those of few records counting less: the variance of own deviations is
        in inverse proportion, since a cell of few users is more unlike others.
    worst_bias : array_like of float
        Largest bias in size, in value units.
    typical_bias : array_like of float, optional
        Standard deviation of the bias; `TYPICAL` of the worst where not given. Intervals are made
        wider by it; estimates leave it alone.
    cut : Cut, optional
        The interval that users' averages were projected to.
    lower, upper : array_like of float
        Within which the true numbers are known to be.

    Raises
    ------
    InputError
        If there are fewer than two cells, or arguments do not fit together.

    Examples
    --------
    >>> done = smooth([10.0, 30.0, 20.0, 24.0, 16.0], 100.0)
    >>> float(np.ptp(done.estimate)) < 1.0
    True
    """
    given = worst_bias, lower, upper
    y, b, worst, low, high = _checked(noisy, scale, *given)
    t = TYPICAL * worst if typical_bias is None else _filled("typical_bias", typical_bias, y.size)
    if np.any((t < 0) | ~np.isfinite(t)):
        raise InputError("typical_bias must be finite and not negative in every cell.")
    wide = _wide(_filled("crowd", crowd, y.size))
    chosen = kept(list(groupings))
    if any(grouping.label.size != y.size for grouping in chosen):
        raise InputError(f"every grouping must label the map's {y.size} cells.")
    if np.count_nonzero(b) < 2:
        return _alone(y, b, t, low, high)
    design = Design(chosen, y.size)
    centre, unit = _measure(y[b > 0], b[b > 0])
    z = np.where(b > 0, (y - centre) / unit, 0.0)
    fitted = fit(design, z, b / unit, wide)
    points = _widened(centre + unit * quantiles(fitted, z, b / unit, wide), t, cut)
    points = np.clip(points, low[:, None], high[:, None])
    used = [chosen[k].name for k in design.fits]
    left = [grouping.name for k, grouping in enumerate(chosen) if k not in design.fits]
    deviations = _deviations(design, fitted, used, unit)
    return Smoothed(
        estimate=points[:, 1],
        low=points[:, 0],
        high=points[:, 2],
        signal_share=_share(deviations, b),
        distinguishable=_apart(points),
        half_apart=half_apart(_signal(deviations, wide), b, t),
        deviations=deviations,
        text=_text(used, left, biased=bool(t.any()) or cut is not None),
    )


def _wide(crowd: Floats) -> Floats:
    """Return the variance of each cell's own deviation, the middle cell's being one."""
    if np.any((crowd <= 0) | np.isinf(crowd)):
        raise InputError("crowd must be finite and above zero in every cell.")
    return np.asarray(np.median(crowd) / crowd)


def _widened(points: Floats, typical: Floats, cut: Cut | None) -> Floats:
    """Return low, middle and high of each cell, with room for a bias of the typical size."""
    low, middle, high = points.T
    if cut is not None:
        low = np.minimum(cut.before(low), middle)
        high = np.maximum(cut.before(high), middle)
    more = ROOM * typical
    ends = middle - np.hypot(middle - low, more), middle + np.hypot(high - middle, more)
    return np.stack((ends[0], middle, ends[1]), axis=1)


def _filled(name: str, value: ArrayLike, n: int) -> Floats:
    """Return one finite or infinite number per cell."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in {(), (n,)}:
        raise InputError(f"{name} must be one number or one per cell ({n}), got {array.shape}.")
    if np.isnan(array).any():
        raise InputError(f"{name} must be a number in every cell.")
    return np.broadcast_to(array, (n,)).astype(np.float64)


def _checked(
    noisy: ArrayLike, scale: ArrayLike, worst: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return the arguments as arrays of one length; raise InputError where they do not fit."""
    y = np.atleast_1d(np.asarray(noisy, dtype=np.float64))
    if y.ndim != 1 or y.size < 2:
        raise InputError(
            f"smoothed needs more than one cell to borrow from, and the map has {y.size}; "
            "ask for raw alone, or for a finer grid."
        )
    b, bias = _filled("scale", scale, y.size), _filled("worst_bias", worst, y.size)
    low, high = _filled("lower", lower, y.size), _filled("upper", upper, y.size)
    for name, array in (("scale", b), ("worst_bias", bias)):
        if np.any((array < 0) | np.isinf(array)):
            raise InputError(f"{name} must be finite and not negative in every cell.")
    if not np.isfinite(y).all():
        raise InputError("noisy must be finite in every cell.")
    if np.any(low > high):
        raise InputError("lower must not exceed upper in any cell.")
    return y, b, bias, low, high


def _measure(y: Floats, b: Floats) -> tuple[float, float]:
    """Return where the map is and how wide: its median, and its usual deviation or noise."""
    centre = float(np.median(y))
    usual = 1.5 * float(np.median(np.abs(y - centre))) or float(np.std(y))
    return centre, max(usual, float(np.median(b)) / 10.0)


def _alone(y: Floats, b: Floats, t: Floats, low: Floats, high: Floats) -> Smoothed:
    """Return a map without two cells that say anything: nothing is borrowed."""
    half = np.where(b > 0, b * np.log(20.0) + 2.0 * t, np.inf)
    return Smoothed(
        estimate=np.clip(y, low, high),
        low=np.clip(y - half, low, high),
        high=np.clip(y + half, low, high),
        signal_share=0.0,
        distinguishable=0,
        half_apart=None,
        deviations={},
        text="Fewer than two cells carry information, so nothing was smoothed.",
    )


def _deviations(design: Design, fitted: Fit, used: list[str], unit: float) -> dict[str, float]:
    """Return the standard deviations by name, in value units: fitted, or of the told effects."""
    found = {OWN: float(unit * np.sqrt(2.0 * fitted.own))}
    sizes = [np.sqrt(fitted.effects.squares[k].mean()) for k in design.fits]
    return found | {name: float(unit * s) for name, s in zip(used, sizes, strict=True)}


def _share(deviations: Mapping[str, float], b: Floats) -> float:
    """Return the signal's part of the variance of the numbers; the rest is noise."""
    signal = sum(s**2 for s in deviations.values())
    return float(signal / (signal + np.mean(2.0 * b[b > 0] ** 2)))


def _signal(deviations: Mapping[str, float], wide: Floats) -> Floats:
    """Return the fitted variance of each cell's true average around the map's centre."""
    shared = sum(s**2 for name, s in deviations.items() if name != OWN)
    return np.asarray(shared + deviations[OWN] ** 2 * wide)


def _apart(points: Floats) -> int:
    """Return how many intervals exclude the mean of all estimates."""
    overall = points[:, 1].mean()
    return int(np.count_nonzero((points[:, 0] > overall) | (points[:, 2] < overall)))


def _text(used: list[str], left: list[str], *, biased: bool) -> str:
    """Return the model in a few sentences."""
    effects = f", plus one effect for each of: {', '.join(used)}" if used else ""
    out = f" Left out, as too large: {', '.join(left)}." if left else ""
    allowed = (
        "Intervals are made wider by what clipping and weights are likely to hide, by a prior; "
        "estimates are not moved for it. "
        if biased
        else ""
    )
    return (
        f"A cell's true average is taken as the map's centre{effects}, plus its own deviation, the "
        "larger the fewer users it has (heavy-tailed laws: Student t with four degrees of freedom, "
        "normal for effects named near or neighbouring); the noise is Laplace of the stated scale, "
        f"and all widths are estimated from the noisy numbers. {allowed}The 95% intervals, "
        "made a little wider for what is estimated, hold on average over the cells of maps like "
        "this model; they guarantee nothing for a single cell, and speak of the average of these "
        f"records, not of traffic.{out}"
    )
