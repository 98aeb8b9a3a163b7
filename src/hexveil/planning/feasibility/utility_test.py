"""Whether a plan's map would say more than one constant for all, judged from public facts.

What one constant misses depends on values, so it comes from a stated public prior: cells differ
from one constant by span / 20 on average unless the caller says otherwise. A cell says more than
the constant when its planning error is smaller than that. A grid is supported when the planning
errors are smaller on average; the floor says what no unclipped plan could beat. Judged is the mean,
or, where the mean is not published, the variance: one constant is then assumed to miss the same
share of what it can miss at most, U²/8 in place of U/2.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from hexveil.accounting.error_model import PRIOR_SHARE
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_fraction, to_positive_fraction
from hexveil.model.statistic_terms import Histogram, Quantile, Share, Term, term_of


@dataclass(frozen=True)
class StatisticError:
    """Predicted error of one statistic, by public priors, and that of one number for all cells.

    Attributes
    ----------
    statistic : str
        As it was asked for: "mean", "p85", "share<10".
    error, baseline_error : float
        On average over cells, in units of the statistic.
    """

    statistic: str
    error: float
    baseline_error: float

    @property
    def beats_constant(self) -> bool:
        """Whether the map is predicted to say more than one number for all cells."""
        return self.error < self.baseline_error

    @property
    def plural(self) -> str:
        """The statistic of many cells, in words."""
        match term_of(self.statistic):
            case Quantile(level):
                return "medians" if level == Fraction(1, 2) else f"{self.statistic} values"
            case Share():
                return f"shares ({self.statistic})"
            case Histogram():
                return "shares in bins of the histogram"
        usual = {"mean": "averages", "users": "numbers of units"}
        return usual.get(self.statistic, f"{self.statistic}s")

    def to_json(self) -> dict[str, str | float | bool]:
        """Return the same as JSON data."""
        return {
            "statistic": self.statistic,
            "expected_error": self.error,
            "baseline_error": self.baseline_error,
            "beats_constant": self.beats_constant,
        }


def refusal_of(errors: Iterable[StatisticError]) -> str | None:
    """Return the sentence that refuses a map with nothing to say; None for a useful one."""
    for one in errors:
        if not one.beats_constant:
            return (
                f"Grid too fine for this fleet: {one.plural} are expected to be off by "
                f"{one.error:.3g} on average, and one number for all cells by "
                f"{one.baseline_error:.3g}; ask for a coarser grid, or a larger epsilon."
            )
    return None


def shape_errors(
    terms: Sequence[Term], shares: float, levels: float, baseline: float, median_baseline: float
) -> tuple[StatisticError, ...]:
    """Return the predicted errors of quantiles, shares and histograms, each beside its baseline.

    A quantile of values near a normal law is off in proportion to a cumulative share, and so are
    cells: the error of both grows by one factor where the law is thin.

    Parameters
    ----------
    terms : sequence of Quantile, Share and Histogram
    shares, levels : float
        Predicted errors of shares of records, and of the cumulative share at a quantile.
    baseline : float
        What one share for all cells misses.
    median_baseline : float
        What one median for all cells misses, in value units.
    """
    errors = []
    for term in terms:
        if isinstance(term, Quantile):
            normal = NormalDist()
            thin = normal.pdf(0.0) / normal.pdf(normal.inv_cdf(float(term.level)))
            missed = thin * median_baseline
            errors.append(StatisticError(term.text, missed * levels / baseline, missed))
        else:
            errors.append(StatisticError(term.text, shares, baseline))
    return tuple(errors)


@dataclass(frozen=True)
class UtilityAssessment:
    """Utility of one grid, in value units.

    Attributes
    ----------
    cells, users : int
    floor : float
        Mean noise below which no unclipped plan can fall: span G / (ε L).
    mean_error : float
        The plan's average planning error.
    baseline_error : float
        What one constant for all cells misses on average, by the public prior.
    better : int
        Cells whose planning error is below `baseline_error`.
    """

    cells: int
    users: int
    floor: float
    mean_error: float
    baseline_error: float
    better: int

    @property
    def beats_constant(self) -> bool:
        """Whether the map says more than one constant on average."""
        return self.cells > 0 and self.mean_error < self.baseline_error


def default_baseline_error(lower: float, upper: float, baseline_error: Number | None) -> float:
    """Return the baseline error: as given, or a twentieth of the span.

    Raises
    ------
    InputError
        If it is not above 0, or above half the width of the bounds: their middle is a constant, and
        misses nothing by more.
    """
    if baseline_error is None:
        return (upper - lower) / PRIOR_SHARE
    error = to_positive_fraction(baseline_error, "baseline_error")
    maximum = (to_fraction(upper, "upper bound") - to_fraction(lower, "lower bound")) / 2
    if error > maximum:
        raise InputError(
            f"baseline_error must be at most {float(maximum):.12g}, half the width of the bounds, "
            f"got {baseline_error}: it is what one constant misses on average, and the middle of "
            "the bounds misses no more."
        )
    return float(error)


def small_map_factor(cells: int) -> float:
    """Return the baseline error on a map of so many cells, relative to a large map.

    The median of few cells is among them, or between two of them, so that it misses less. For
    normal cells it is within a hundredth of this. One cell counts as two, as if there were another.

    Examples
    --------
    >>> [round(small_map_factor(cells), 2) for cells in (1, 2, 3, 5, 20, 2000)]
    [0.71, 0.71, 0.71, 0.84, 0.96, 1.0]
    """
    # The median of 2k cells varies as that of 2k + 1, nearly.
    odd = max(cells, 2) // 2 * 2 + 1
    return math.sqrt(1.0 - 1.5 / odd)
