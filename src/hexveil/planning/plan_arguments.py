"""Options of `hexveil.plan`, each stated once: name, type, default and meaning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, items_of, to_fraction, to_positive_fraction
from hexveil.mechanisms import CellMechanism, OptimalClipping, ThresholdMechanism, parse
from hexveil.model.statistic_terms import Estimator, has_distribution, parse_statistics
from hexveil.planning.allocation import CellForecast
from hexveil.planning.presence.presence_request import FleetDeclaration
from hexveil.planning.request import (
    DELTA_WITHIN,
    PRESENCE,
    RANGES,
    SEVERAL,
    SHAPES,
    STAGED,
    STATISTICS,
    UNITS,
    UNITS_ALONE,
    VARIANCES,
    ClippingRangeMode,
    Method,
    Objective,
    Request,
    broken_rules,
    refuse,
    targets_of,
)
from hexveil.planning.request import statistics as moments_of

WORDS: dict[str, tuple[str, ...]] = {
    "estimator": get_args(Estimator),
    "method": get_args(Method),
    "objective": get_args(Objective),
    "clipping_range": get_args(ClippingRangeMode),
}
"""Options that take one of a few words."""
USERS = "users"


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanArguments:
    """Options of `hexveil.plan`, as a caller gives them.

    Attributes
    ----------
    epsilon : int, str, Decimal, Fraction or float
        Largest loss of any privacy unit, over all its cells. Either this or `target_error`.
    target_error : number, text like "10%", or mapping
        Planning errors to stay within at the least loss: in value units (squared ones for the
        variance), or a percentage of the span (of its square); a mapping of statistic to these; of
        several value columns any of these, or a mapping of column to any of these.
    bounds : pair of numbers, optional
        Default: those the records were read with.
    statistics : tuple of str, optional
        Some of "mean", "variance", "sd" (the root of the variance, at no further cost), "p50" (any
        quantile between 0 and 100), "share<10" (also "<=", ">" and ">=") and "histogram". Default
        the mean.
    weights : mapping, optional
        Of quantiles, shares and histograms beside means or variances: how much errors of "moments"
        (as a part of the span) and of the "distribution" (of shares of records) count in the split
        of ε between them; of several value columns, by their names, how much errors of each (as a
        part of its own span) count; under private presence also of "users" (as a part of the
        typical number of units in a cell), beside other statistics. Default 1 each.
    estimator : "auto", "ranks" or "bins", optional
        How a cell's distribution is measured: by the mean rank of its records among the quantiles
        and thresholds asked for, or by few bins. "auto" takes the smaller predicted error; the
        share beyond a single threshold alone then is the mean of an indicator.
    method : "joint", "per-cell", "equal-split" or "clip-user"
        A factor for each user and the noise of each cell, chosen together; every cell planned
        alone at one common loss, the largest whose exact loss is within `epsilon`, or `epsilon`
        divided by the most cells of a user; users suppressed by CLIP-USER.
    mechanism : mechanism, or its text like "Levy(gamma=0.2)"
        How one cell is planned, for "per-cell" and "equal-split"; default OptimalClipping(). With
        others than OptimalClipping and Baseline: the mean alone, within `epsilon`, in the bounds
        that the records were read with.
    objective : "max" or "mean"
        Whether the largest or the average planning error over cells is made small, or kept
        within the targets. Default: the average within `epsilon`, the largest with targets, so that
        every cell meets its own. With both statistics, errors are judged as shares of what a
        constant can miss.
    clipping_range : "auto", "per-cell", "bounds" or "private"
        "bounds" clips to the public bounds alone. "private" finds one interval for user means
        privately, from a small share of ε, projects user means to it, and weighs users so that the
        predicted error is small (docs/understand/clipping-range.md); within `epsilon`, by the joint
        method. "per-cell" gives each cell a range by a first noisy look at it, for means. "auto"
        is "private" from 25 users times ε on, "per-cell" for means of several cells from 25 for
        each on, and "bounds" below and above 1,000 for each; with targets, bounds of the caller's
        own or another method or objective it is "bounds".
    range_share : number, optional
        Part of ε that finds the interval; default from the number of users.
    edition : str, optional
        A name of your own. The same goal asked again gets the plan that was booked first; under
        another edition it is another request, which is planned anew and paid again.
    baseline_error : number or mapping of value column to number, optional
        What one constant for all cells is assumed to miss on average, in value units, at most half
        the span; default span / 20. It comes from outside the records, never from their values.
    advise : bool
        Warn when the grid is too fine, with an epsilon that is enough. `hv.capacity` finds grids
        that are not.
    fleet : int or FleetDeclaration, optional
        For private presence: the declared number of units, which no record decides; of several
        value columns perhaps a mapping with that of each.

    delta : int, str, Decimal, Fraction or float, optional
        Promises (ε, δ) with Gaussian noise, which is less where units are in many cells. Far below
        one over the number of units, such as "1e-6". Default a pure promise. Where occupancy is
        public it goes with means and variances, within epsilon or target_error; with quantiles,
        shares and histograms, alone or beside the mean; and with several value columns.
    history : CellForecast, optional
        Forecast of the cells by earlier releases (`hexveil publish` makes it of its archive). With
        clipping_range "auto" and the mean alone, or of private presence, ranges follow from it in
        place of a private search, at no cost; the request names the releases.
    """

    epsilon: Number | None = None
    target_error: object = None
    bounds: object = None
    statistics: Sequence[str] | str | None = None
    weights: Mapping[str, Number] | None = None
    estimator: Estimator | None = None
    method: Method = "joint"
    mechanism: ThresholdMechanism | CellMechanism | str | None = None
    objective: Objective | None = None
    clipping_range: ClippingRangeMode = "auto"
    range_share: Number | None = None
    edition: str | None = None
    baseline_error: Number | Mapping[str, Number] | None = None
    advise: bool = True
    fleet: FleetDeclaration | int | Mapping[str, FleetDeclaration | int] | None = None

    delta: Number | None = None
    history: CellForecast | None = None

    def __post_init__(self) -> None:
        """Keep statistics as a tuple: a container may be read once, or have no truth value."""
        if self.statistics is not None:
            object.__setattr__(self, "statistics", tuple(items_of(self.statistics)))

    @property
    def has_distribution(self) -> bool:
        """Whether there are quantiles, shares or histograms among the statistics."""
        return self.statistics is not None and has_distribution(self.statistics)

    @cached_property
    def single_mechanism(self) -> ThresholdMechanism | CellMechanism:
        """Mechanism of one cell."""
        made = parse(self.mechanism) if isinstance(self.mechanism, str) else self.mechanism
        made = OptimalClipping() if made is None else made
        if not isinstance(made, (ThresholdMechanism, CellMechanism)):
            raise InputError(
                f"mechanism must be a mechanism of one cell, such as Levy(gamma=0.2), got {made!r}."
            )
        return made

    @property
    def usual_objective(self) -> Objective:
        """The objective, or the usual one of the method."""
        # A target holds for every cell unless the caller says otherwise.
        is_average = self.method == "joint" and self.target_error is None
        return self.objective or ("mean" if is_average else "max")

    def terms(self, about: Collection[str] = ()) -> set[str]:
        """Return the request in the words of `hexveil.planning.request`.

        Parameters
        ----------
        about : collection of str
            What is known of the records: `PRESENCE` and `SEVERAL`.
        """
        default = {one.name: one.default for one in fields(self)}
        terms = {*about} | {
            name
            for name, value in vars(self).items()
            if name in default
            and value is not default[name]
            # Arrays have no single truth of equality: words alone are compared.
            and not (isinstance(value, str) and value == default[name])
        }
        if {"delta", "epsilon"} <= terms:
            terms.add(DELTA_WITHIN)
        names = items_of(self.statistics) if self.statistics is not None else ["mean"]
        is_private = PRESENCE in terms
        if self.has_distribution:
            terms.add(SHAPES)
        elif not is_private:
            noised = Request("joint", OptimalClipping(), moments_of(self.statistics)).noised
            terms |= {f'method="{self.method}"', f'objective="{self.usual_objective}"'}
            terms |= {VARIANCES} if "variance" in noised else set()
            if not isinstance(self.single_mechanism, ThresholdMechanism):
                terms.add(STAGED)
            terms.add(f'clipping_range="{self._possible_range(terms)}"')
        if is_private and USERS in names:
            terms.add(UNITS_ALONE if len(names) == 1 else UNITS)
        if SEVERAL in terms:
            joined = {SHAPES: "of", PRESENCE: "with"}
            terms |= {f"{SEVERAL} {joined[term]} {term}" for term in joined.keys() & terms}
        return terms

    def _possible_range(self, terms: Collection[str]) -> str:
        """Return the clipping range, of "auto" one that it may take."""
        if self.clipping_range != "auto":
            return self.clipping_range
        refused = {word for _, word in broken_rules({*terms, RANGES[0]})}
        # Records were read with other bounds than those of the caller.
        return "private" if RANGES[0] not in refused and self.bounds is None else "bounds"

    def check(self, about: Collection[str] = (), describe: Callable[[str], str] = str) -> None:
        """Refuse unknown words, bad numbers, and options that do not go together.

        Raises
        ------
        InputError
            Naming the option; `describe` adds where it was given.
        """
        for name, words in WORDS.items():
            word = getattr(self, name)
            if word is not None and word not in words:
                raise InputError(f"{name} must be one of {', '.join(words)}, got {word!r}.")
        is_named = isinstance(self.edition, str) and self.edition.strip()
        if self.edition is not None and not is_named:
            raise InputError(f"edition must be a name such as '2', got {self.edition!r}.")
        _positive(self.epsilon, "epsilon")
        if self.range_share is not None:
            _check_share(to_fraction(self.range_share, "range_share"))
        if self.has_distribution and PRESENCE not in about:
            parse_statistics(self.statistics or ())
        _check_positive(self.target_error, "target_error")
        _check_positive(self.baseline_error, "baseline_error")
        refuse(self.terms(about), describe)
        given = [name for name in ("epsilon", "target_error") if getattr(self, name) is not None]
        if len(given) == 2:
            raise InputError(
                "epsilon and target_error cannot be combined: the price determines the errors, or "
                "the errors the price; give exactly one of them."
            )
        if not given:
            raise InputError(
                f"{describe('epsilon')} is needed: the largest loss of any unit; or "
                f"{describe('target_error')}: the largest errors; give exactly one of them."
            )

    def request(self, span: NDArray[np.float64]) -> Request:
        """Return the checked request for means and variances.

        Parameters
        ----------
        span : ndarray of float, shape (n_cells,)
            Width of each cell's bounds.

        Raises
        ------
        InputError
            Naming the option that is wrong, or excludes another.
        """
        self.check()
        request = Request(
            method=self.method,
            mechanism=self.single_mechanism,
            statistics=moments_of(self.statistics),
            objective=self.usual_objective,
            epsilon=_positive(self.epsilon, "epsilon"),
            clipping_range=self.clipping_range,
            range_share=_positive(self.range_share, "range_share"),
            edition=self.edition,
            delta=to_delta(self.delta),
        )
        if self.target_error is not None:
            targets = targets_of(self.target_error, request.noised, float(span.max()))
            per_cell = {name: np.full(span.size, target) for name, target in targets.items()}
            request = replace(request, target=per_cell)
        within_bounds = 'clipping_range="bounds"' in self.terms()
        return replace(request, clipping_range="bounds") if within_bounds else request

    def of_column(self, column: str) -> PlanArguments:
        """Return the options of the one value column of a reading.

        Others in statements by value column are not read, so that one run file serves for all
        columns and for each alone.

        Raises
        ------
        InputError
            If the baseline error of the column is left out.
        """
        target, error = self.target_error, self.baseline_error
        if isinstance(target, Mapping) and column in target and self.is_by_column(()):
            target = target[column]
        if isinstance(error, Mapping):
            if column not in error:
                raise InputError(f"baseline_error leaves out the value column {column!r}; name it.")
            error = error[column]
        return replace(self, target_error=target, baseline_error=error)

    def is_by_column(self, columns: Collection[str]) -> bool:
        """Return whether the targets are by value column, and not by statistic or one for all."""
        if not isinstance(self.target_error, Mapping):
            return False
        describe = {*self.target_error}
        statistics = {*STATISTICS, *items_of(self.statistics or ())}
        # A column may have the name of a statistic: then it is the column that is meant.
        return not describe <= statistics or not describe.isdisjoint(columns)


def _check_share(share: Fraction) -> None:
    """Refuse a share of ε for the interval that leaves nothing for either side."""
    if not 0 < share < 1:
        raise InputError(
            f"range_share is the part of epsilon that finds the interval, between 0 and 1, got "
            f"{share}: at 0 there is no interval, at 1 nothing is left for the cells."
        )


def _positive(number: Number | None, name: str) -> Any:  # noqa: ANN401  a fraction or None
    return None if number is None else to_positive_fraction(number, name)


def _check_positive(stated: object, name: str) -> None:
    """Refuse an error that is no number above zero, of the map or by name."""
    if isinstance(stated, Mapping):
        for of, error in stated.items():
            option, _, rest = name.partition(" ")
            the = "the " if of in STATISTICS else ""
            _check_positive(error, f"{option} of {the}{of} {rest}".rstrip())
    elif stated is not None:
        text: Any = stated.strip().removesuffix("%") if isinstance(stated, str) else stated
        to_positive_fraction(text, name)


def kind_weights(
    weights: Mapping[str, Number] | None, kinds: tuple[str, ...]
) -> dict[str, Fraction]:
    """Return the weight of each kind of statistics, 1 by default; refuse others.

    Examples
    --------
    >>> weights = kind_weights({"distribution": 2}, ("moments", "distribution"))
    >>> {kind: str(weight) for kind, weight in weights.items()}
    {'moments': '1', 'distribution': '2'}
    """
    if weights is not None and (not isinstance(weights, Mapping) or set(weights) - set(kinds)):
        example = f'{{"{kinds[-2]}": 1, "{kinds[-1]}": 2}}'
        raise InputError(f"weights must be a mapping like {example}, got {weights!r}.")
    return {kind: to_positive_fraction((weights or {}).get(kind, 1), "weights") for kind in kinds}
