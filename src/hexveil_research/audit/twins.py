"""Broken twins: the same plan or choice with too little noise, as a slip would make it.

An audit that passes what is right means something only if it catches these. Two slips of a choice
have one law, since both halve its scale: score sensitivity halved (1 taken where a user in two
arrays of WRAPAROUND moves scores by 2, or one half where he moves them by 1), and the
"monotonic" reading of the vetted noisy max (scale 1/ε instead of 2/ε, ERRATA 12).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from hexveil.mechanisms.akmv import AKMVPlan
from hexveil.mechanisms.clipped_range import IntervalPlan
from hexveil.mechanisms.levy import LevyPlan
from hexveil.mechanisms.quantile_averaging import QuantilePlan
from hexveil.mechanisms.selection import MidpointChoice, RankChoice
from hexveil.mechanisms.single_cell_plan import LaplacePlan

if TYPE_CHECKING:
    from hexveil_research.audit.laws import Subject

Chosen = TypeVar("Chosen", RankChoice, MidpointChoice)


@dataclass(frozen=True)
class Twin:
    """What a slip multiplies the scales by; the claim stays.

    Attributes
    ----------
    name : str
    noise : Fraction
        Factor of the Laplace scale.
    choice : Fraction
        Factor of the scale of every private choice.
    """

    name: str
    noise: Fraction
    choice: Fraction


SCALES = Twin("scales x 0.7", Fraction(7, 10), Fraction(7, 10))
NOISE = Twin("noise alone x 0.7", Fraction(7, 10), Fraction(1))
SCORES = Twin("score sensitivity halved, or monotonic", Fraction(1), Fraction(1, 2))


def applicable(subject: Subject) -> tuple[Twin, ...]:
    """Return the twins that differ from the subject and from each other."""
    if isinstance(subject, (RankChoice, MidpointChoice)):
        return SCALES, SCORES
    if isinstance(subject, LaplacePlan):
        return (SCALES,)
    return SCALES, NOISE, SCORES


def broken(subject: Subject, twin: Twin) -> Subject:
    """Return the subject with its scales multiplied.

    Examples
    --------
    >>> from hexveil.mechanisms import Baseline
    >>> broken(Baseline().plan([3, 1], bounds=(0, 8), epsilon=2), SCALES).noise_scale
    2.1
    """
    if isinstance(subject, RankChoice):
        return _quieter(subject, twin)
    if isinstance(subject, MidpointChoice):
        return _quieter(subject, twin)
    if isinstance(subject, LaplacePlan):
        return replace(subject, epsilon=subject.epsilon / twin.noise)
    if isinstance(subject, (IntervalPlan, AKMVPlan)):
        return _broken_plan(subject, twin)
    raise TypeError(f"no broken twin of a {type(subject).__name__} is known.")


def _broken_plan(subject: IntervalPlan | AKMVPlan, twin: Twin) -> Subject:
    plan = replace(subject, mean_epsilon=subject.mean_epsilon / twin.noise)
    if isinstance(plan, QuantilePlan):
        return replace(plan, low=_quieter(plan.low, twin), high=_quieter(plan.high, twin))
    if isinstance(plan, AKMVPlan):
        return replace(plan, choice=_quieter(plan.choice, twin))
    if isinstance(plan, LevyPlan) and plan.choice is not None:
        return replace(plan, choice=_quieter(plan.choice, twin))
    return plan


def _quieter(choice: Chosen, twin: Twin) -> Chosen:
    return replace(choice, scale=choice.scale * float(twin.choice))
