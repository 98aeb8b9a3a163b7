"""The one search for the least privacy loss at which an error is small enough.

Losses are numbers of a few decimal figures, so that what is found is the same wherever it is looked
for, and can be named. Error falls as the loss grows. Where noise alone depends on the loss it is in
proportion to 1/ε: a straight line in 1/ε, on or above the least error, which it touches. Where it
crosses the wanted error is Newton's next step, and the error there is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from hexveil.base.errors import InputError
from hexveil.base.rational import items_of, to_positive_fraction
from hexveil.base.work_share import SEARCH, part_of_work
from hexveil.model.statistic_terms import MOMENTS, Quantile, term_of

if TYPE_CHECKING:
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.plan_arguments import PlanArguments

SMALLEST, LARGEST = 1e-6, 100.0
"""No loss beyond these is looked at, unless it is asked for."""
USUAL_LOOKS, MOST_LOOKS = 8, 200
USERS = "users"
PartT = TypeVar("PartT")


@dataclass(frozen=True)
class Trial:
    """Finding at a loss.

    Attributes
    ----------
    meets : bool
        Whether the error is small enough.
    crossing : float or None
        A loss that is enough, by scaling the noise that was found; infinite where none is, None
        where none is known.
    """

    meets: bool
    crossing: float | None = None


def least_epsilon(
    look: Callable[[Fraction], Trial],
    begin: float | Fraction,
    *,
    figures: int = 2,
    smallest: float = SMALLEST,
    largest: float = LARGEST,
) -> Fraction | None:
    """Return the least loss of a few figures at which the error is small enough; None without one.

    Parameters
    ----------
    look : callable
        What is found at a loss.
    begin : number
        The loss that is looked at first, rounded up.
    figures : int
        Decimal figures of losses.
    smallest, largest : float
        Losses that are looked at.

    Examples
    --------
    >>> str(least_epsilon(lambda epsilon: Trial(epsilon >= 0.314), 1))
    '8/25'
    """
    per_decade = 9 * 10 ** (figures - 1)
    low, high = place_of(smallest, figures) - 1, None
    final = place_of(largest, figures)
    place, stride = min(max(place_of(begin, figures), low + 1), final), per_decade // 2
    for number in range(MOST_LOOKS):
        with part_of_work(SEARCH, min(number, USUAL_LOOKS - 1), USUAL_LOOKS):
            result = look(loss_at(place, figures))
        low, high = (low, place) if result.meets else (place, high)
        if low >= final or (high is not None and high - low <= 1):
            break
        crossing = result.crossing
        nearest = None
        if crossing is not None and math.isfinite(crossing):
            nearest = place_of(max(crossing, smallest), figures)
            if result.meets and nearest >= place:
                break  # less noise than this is not enough, by the line
        if nearest is not None and low < nearest < (final + 1 if high is None else high):
            place = nearest
        elif high is None:
            place, stride = min(place + stride, final), 2 * stride
        else:
            # Where nothing failed yet, the lowest loss is far away.
            place = max((low + high) // 2, high - stride)
            stride *= 2
    return None if high is None else loss_at(high, figures)


def place_of(loss: float | Fraction, figures: int) -> int:
    """Return the place of the least loss of some figures that is not below a number."""
    item: int = 10 ** (figures - 1)
    exponent = math.floor(math.log10(loss)) - figures + 1
    scaled = float(loss) / 10.0**exponent
    # Rounding must not lift 2.3 to 2.4.
    return 9 * item * exponent + max(math.ceil(scaled - 1e-9 * scaled), item) - item


def loss_at(place: int, figures: int) -> Fraction:
    """Return the loss at a place.

    Examples
    --------
    >>> [float(loss_at(place_of(loss, 2), 2)) for loss in (2.31, 0.0041, 9.95, 100)]
    [2.4, 0.0041, 10.0, 100.0]
    """
    item: int = 10 ** (figures - 1)
    exponent, remainder = divmod(place, 9 * item)
    return Fraction(item + remainder) * Fraction(10 ** abs(exponent)) ** (1 if exponent > 0 else -1)


def two_figures_up(loss: float) -> float:
    """Return a loss rounded up to two figures."""
    return float(loss_at(place_of(loss, 2), 2)) if loss > 0 else 0.0


# ---- targets of predicted errors ----


def part_within_predictions(
    part_at: Callable[[PlanArguments], PartT], options: PlanArguments, lattice: ValueLattice
) -> tuple[PartT, dict[str, str]]:
    """Return the part at the least ε of two figures that predictions let meet targets, and these.

    Targets are exact text, by statistic: a request is identified by them, and not by what a search
    found.

    The errors of distributions, and under private presence, depend on the values and are predicted
    by stated priors: other than those of means and variances within the bounds, which hold for all
    values.

    Parameters
    ----------
    part_at : callable
        The part of options with an ε.
    options : PlanArguments
        With target errors.
    lattice : ValueLattice
        Bounds of the values.

    Raises
    ------
    InputError
        If a target names no statistic of the plan, or is out of reach.
    """
    within: list[PartT] = []
    targets: dict[str, float] = {}

    def look(epsilon: Fraction) -> Trial:
        built = part_at(replace(options, epsilon=epsilon, target_error=None))
        errors = predicted_errors(built)
        targets.update(targets_of(options.target_error, tuple(errors), float(lattice.span)))
        meets = all(errors[name] <= target for name, target in targets.items())
        within[:] = [built] if meets else within
        return Trial(meets)

    if least_epsilon(look, 1) is None:
        raise InputError(
            f"no epsilon up to {LARGEST:g} is predicted to meet target_error; ask for larger "
            "errors, or for larger cells."
        )
    return within[0], {name: repr(target) for name, target in sorted(targets.items())}


def predicted_errors(plan: Any) -> dict[str, float]:  # noqa: ANN401  as above
    """Return the predicted error of each statistic of a plan, on average over cells."""
    errors = {item.statistic: item.error for item in plan.statistic_errors}
    errors |= {name: error for name, error in getattr(plan, "expected_error", {}).items()
               if name != "share"}  # fmt: skip
    counts = getattr(getattr(plan, "prediction", None), "counts", None)
    return errors if counts is None else errors | {USERS: counts.count_error}


def targets_of(asked: object, names: tuple[str, ...], span: float) -> dict[str, float]:
    """Return the target of each statistic: one for a single statistic, or a mapping.

    A percentage is of the span (of its square for a variance), and of records for a share.

    Examples
    --------
    >>> targets_of({"p50": "5%", "share<10": "2%"}, ("p50", "share<10"), 60.0)
    {'p50': 3.0, 'share<10': 0.02}
    """
    stated = asked if isinstance(asked, Mapping) else dict.fromkeys(names[:1], asked)
    if set(stated) != set(names):
        raise InputError(
            f"target_error must name {' and '.join(names)}, got "
            f"{', '.join(map(str, stated)) if isinstance(asked, Mapping) else repr(asked)}."
        )
    return {name: _target(stated[name], name, span) for name in names}


def _target(asked: Any, name: str, span: float) -> float:  # noqa: ANN401  a number or text
    if len(items_of(asked)) > 1:
        raise InputError(f"target_error of {name} must be one number for all cells.")
    if not (isinstance(asked, str) and asked.strip().endswith("%")):
        return float(to_positive_fraction(asked, "target_error"))
    if name == USERS:
        raise InputError("target_error of users must be a number of units, not a percentage.")
    portion = float(to_positive_fraction(asked.strip().removesuffix("%"), "target_error")) / 100.0
    if name == "variance":
        return portion * span**2
    return portion * span if name in MOMENTS or isinstance(term_of(name), Quantile) else portion
