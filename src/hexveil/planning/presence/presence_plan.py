"""Plan of a release with private presence: declared facts, a request, expected accuracy.

Public: the plan is made before a record is read, and is the same whatever the records are.

**One loss for a map and numbers of units** is divided by the predicted error of each part at the
whole ε and its weight: shares are those of the least weighted sum of errors
(accounting/promise.py). Errors are parts of what they are compared with: of averages and medians
the error of one constant for all cells, of numbers of units the typical number in a cell.
Predictions at the divided ε are not compared: they have floors of bias, where maps of the tuning
sets still gain by about the root of ε, so that half of ε would seem to cost a map nothing.

"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import Promise
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, items_of, to_positive_fraction
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.statistic_terms import on_lattice, parse_statistics
from hexveil.planning.component import PlanComponent
from hexveil.planning.feasibility.utility_test import StatisticError
from hexveil.planning.plan_arguments import PlanArguments, kind_weights
from hexveil.planning.presence.presence_prediction import (
    PresencePrediction,
    predict,
    predict_counts,
    predict_map,
)
from hexveil.planning.presence.presence_request import (
    ALONE,
    PURE,
    USERS,
    FleetDeclaration,
    PresenceRequest,
    PresenceStages,
)

KINDS = ("moments", "distribution", USERS)
"""Kinds of statistics that have a weight in the division of ε."""


@dataclass(frozen=True, eq=False)
class PresenceComponent(PlanComponent):
    """Map with private presence, numbers of units, or both, of one value column.

    Attributes
    ----------
    facts : DeclaredFacts
    request : PresenceRequest
    baseline_error : Number or None
        Declared error of one constant for all cells, in value units.
    edition : str or None
        The same request under another edition is drawn, and paid for, again.
    """

    facts: DeclaredFacts
    request: PresenceRequest
    baseline_error: Number | None = None
    edition: str | None = None
    kind: ClassVar[str] = "presence"
    smoothing_trouble: ClassVar[str] = (
        'estimates under private presence are ("raw",): leave them out.'
    )

    @property
    def summary(self) -> str:
        """The plan in a line."""
        return (
            f"{', '.join(self.statistics)}, epsilon={float(self.epsilon):g}, "
            f"n_cells={self.facts.grid.n_cells}, fleet={self.request.fleet.units:,}"
        )

    def stages(self) -> PresenceStages:
        """Return the stages of a release: the same whatever the records are."""
        return self.request.allocation()

    @property
    def promise(self) -> Promise:
        """The promise of the stages: its amount is booked for any unit."""
        return self.stages().promise

    @property
    def requested_epsilon(self) -> Fraction:
        """Loss of any unit."""
        return self.epsilon

    @property
    def epsilon(self) -> Fraction:
        """Loss of any unit, present or not; at `delta`, if that is above 0."""
        return self.request.epsilon

    @property
    def delta(self) -> Fraction:
        """δ of the promise, 0 of a pure one."""
        return self.request.delta

    @property
    def statistics(self) -> tuple[str, ...]:
        """Published statistics: averages, quantiles and shares with weights; numbers of units."""
        return self.request.names

    @cached_property
    def prediction(self) -> PresencePrediction:
        """Expected accuracy, on paper."""
        return predict(self.request, self.baseline_error)

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        return self.prediction.refusal

    @property
    def relative_error(self) -> float:
        """Sum of the predicted errors, each as a part of a typical value.

        Of averages and medians as a part of the span, of shares as they are, of numbers of units as
        a part of what a cell typically has.
        """
        of_map, counts = self.prediction.map, self.prediction.counts
        error = 0.0 if counts is None else counts.relative_error
        if of_map is not None:
            error = error + of_map.error / float(self.facts.lattice.span)
            error += of_map.share_error or 0.0
        return error

    @property
    def expected(self) -> tuple[float, float]:
        """Expected error of averages, medians or numbers of units, and that of one number."""
        of_map, counts = self.prediction.map, self.prediction.counts
        if of_map is not None:
            return of_map.error, of_map.baseline_error
        assert counts is not None  # noqa: S101  one of both is predicted
        return counts.count_error, counts.typical_count

    @property
    def statistic_errors(self) -> tuple[StatisticError, ...]:
        """Predicted error of each statistic, and that of one number for all cells."""
        of_map = self.prediction.map
        return () if of_map is None else of_map.statistic_errors

    def figures(self) -> dict[str, float]:
        """Return the numbers of the prediction by name."""
        return self.prediction.figures()

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data."""
        fleet = self.request.fleet
        return {
            "protect": "presence",
            "statistics": list(self.statistics),
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "privacy_unit": self.facts.privacy_unit,
            "cells": self.facts.grid.n_cells,
            "cells_tested": not self.facts.grid.is_in_use,
            "fleet": {
                "units": fleet.units,
                "records_per_unit": fleet.records_per_unit,
                "cells_per_unit": fleet.cells_per_unit,
            },
            "prediction": self.figures(),
            "statistic_errors": [error.to_json() for error in self.statistic_errors],
            "refusal": self.refusal,
        }

    def column_json(self) -> dict[str, Any]:
        """Return the figures of one value column among several."""
        return self.to_json()


def plan_presence(facts: DeclaredFacts, options: PlanArguments) -> PresenceComponent:
    """Return the plan of a release with private presence; see `hexveil.plan`.

    Raises
    ------
    InputError
        On an argument that is missing or has no meaning here.
    """
    fleet: Any = options.fleet
    baseline_error: Any = options.baseline_error
    declared = fleet if isinstance(fleet, FleetDeclaration) else FleetDeclaration(fleet)
    names = statistics_of(options.statistics)
    importance = kind_weights(options.weights, KINDS)
    if options.weights and not (USERS in names and len(names) > 1):
        raise InputError(
            'weights go with "users" beside other statistics under private presence: the others '
            "come from one map at one loss; leave weights out."
        )
    assert options.epsilon is not None  # noqa: S101  no targets go with it
    moments, terms = parse_statistics([name for name in names if name != USERS] or [MEAN])
    request = PresenceRequest(
        facts.grid,
        facts.lattice,
        declared,
        to_positive_fraction(options.epsilon, "epsilon"),
        to_delta(options.delta),
        on_lattice(terms, facts.lattice),
        facts.bins if terms else None,
        bool(moments),
    )
    history = options.history
    if history is not None and (history.shape is not None or request.share or not terms):
        request = replace(request, forecast=history)
    if names == (USERS,):
        request = replace(request, count_share=ALONE)
    elif USERS in names:
        request = divided(request, importance, baseline_error)
    return PresenceComponent(facts, request, baseline_error, options.edition)


def divided(
    request: PresenceRequest, weights: Mapping[str, Fraction], baseline_error: Number | None = None
) -> PresenceRequest:
    """Return a request for a map with numbers of units beside it, which share its loss.

    Parameters
    ----------
    request : PresenceRequest
        For the map.
    weights : mapping of str to Fraction
        Of each kind of statistics.
    baseline_error : number, optional
    """
    kinds = ["moments"] * request.has_mean + ["distribution"] * bool(request.terms)
    importance = [sum((weights[kind] for kind in kinds), PURE), weights[USERS]]
    whole = replace(request, count_share=ALONE)
    errors = [
        predict_map(request, baseline_error).relative_error,
        predict_counts(whole).relative_error,
    ]
    share = request.promise.divide(importance, errors)[1]
    return replace(request, count_share=share, weights=weights)


def statistics_of(statistics: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the requested statistics in one order; averages by default.

    Examples
    --------
    >>> statistics_of(None), statistics_of("users"), statistics_of(("users", "p85", "mean", "p50"))
    (('mean',), ('users',), ('mean', 'p50', 'p85', 'users'))
    """
    selection = MEAN if statistics is None else statistics
    names = tuple(items_of(selection))
    if {"variance", "sd"} & set(names) or names.count(USERS) > 1:
        raise InputError(
            'statistics under private presence are averages ("mean"), quantiles ("p85"), shares '
            '("share<10") and "histogram", each with the weight of the cell, and "users" (numbers '
            f"of units), each named once; got {', '.join(map(str, names))!r}."
        )
    counted = (USERS,) if USERS in names else ()
    others = [name for name in names if name != USERS]
    if not others and counted:
        return counted
    moments, terms = parse_statistics(others)
    return (*moments, *(term.text for term in terms), *counted)
