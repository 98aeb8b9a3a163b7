"""Plan of a release with private presence: declared facts, a request, expected accuracy.

Public: the plan is made before a record is read, and is the same whatever the records are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms.presence.presence_design import (
    NO_CAP,
    DeclaredCap,
    PrivateCap,
    UserCap,
)
from hexveil.planning.presence.presence_prediction import (
    PresencePrediction,
    UnitCountPrediction,
    predict_counts,
    predict_map,
)
from hexveil.planning.presence.presence_request import (
    FleetDeclaration,
    PresenceRequest,
    UnitCountRequest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from hexveil.base.rational import Number
    from hexveil.model.declared_facts import DeclaredFacts

STATISTICS = (("mean",), ("users",))
"""Sets of statistics that can be requested: averages with weights, or numbers of units alone."""


@dataclass(frozen=True, eq=False)
class PresencePlan:
    """Plan of a release with private presence.

    Attributes
    ----------
    facts : DeclaredFacts
    request : PresenceRequest or UnitCountRequest
    baseline_error : Number or None
        Declared error of one constant for all cells, in value units.
    edition : str or None
        The same request under another edition is drawn, and paid for, again.
    """

    facts: DeclaredFacts
    request: PresenceRequest | UnitCountRequest
    baseline_error: Number | None = None
    edition: str | None = None

    @property
    def epsilon(self) -> Fraction:
        """Loss of any unit, present or not."""
        return self.request.epsilon

    @property
    def statistics(self) -> tuple[str, ...]:
        """Published statistics: ("mean",) with weights, or ("users",)."""
        return ("mean",) if isinstance(self.request, PresenceRequest) else ("users",)

    @cached_property
    def prediction(self) -> PresencePrediction | UnitCountPrediction:
        """Expected accuracy, on paper."""
        if isinstance(self.request, PresenceRequest):
            return predict_map(self.request, self.baseline_error)
        return predict_counts(self.request)

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        return self.prediction.refusal

    def figures(self) -> dict[str, float]:
        """Return the numbers of the prediction by name."""
        return {
            name: float(number)
            for name, number in sorted(vars(self.prediction).items())
            if isinstance(number, (int, float)) and math.isfinite(number)
        }

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data."""
        fleet = self.request.fleet
        return {
            "protect": "presence",
            "statistics": list(self.statistics),
            "epsilon": float(self.epsilon),
            "privacy_unit": self.facts.privacy_unit,
            "cells": self.facts.grid.n_cells,
            "cells_tested": not self.facts.grid.is_in_use,
            "fleet": {
                "units": fleet.units,
                "records_per_unit": fleet.records_per_unit,
                "cells_per_unit": fleet.cells_per_unit,
            },
            "prediction": self.figures(),
            "refusal": self.refusal,
        }

    def __repr__(self) -> str:
        return (
            f"PresencePlan({', '.join(self.statistics)}, epsilon={float(self.epsilon):g}, "
            f"n_cells={self.facts.grid.n_cells}, fleet={self.request.fleet.units:,})"
        )


def plan_presence(
    facts: DeclaredFacts,
    *,
    epsilon: Number | None,
    fleet: FleetDeclaration | int | None,
    statistics: Sequence[str] | str | None = None,
    user_cap: int | str | None = None,
    baseline_error: Number | None = None,
    edition: str | None = None,
) -> PresencePlan:
    """Return the plan of a release with private presence; see `hexveil.plan`.

    Raises
    ------
    InputError
        On an argument that is missing or has no meaning here.
    """
    if baseline_error is not None and statistics in ("users", ("users",), ["users"]):
        raise InputError("baseline_error goes with averages, not with numbers of units alone.")
    if epsilon is None:
        raise InputError("epsilon is needed: the loss of any unit, present or not.")
    if fleet is None:
        raise InputError(
            "fleet (in [privacy], or --fleet) is needed: the number of units that may be in the "
            "records, as you would state it in public; a wrong one costs accuracy, not privacy."
        )
    declared = fleet if isinstance(fleet, FleetDeclaration) else FleetDeclaration(fleet)
    names = statistics_of(statistics)
    loss = to_positive_fraction(epsilon, "epsilon")
    request: PresenceRequest | UnitCountRequest
    if names == ("users",):
        if user_cap is not None:
            raise InputError("user_cap goes with averages, not with numbers of units alone.")
        request = UnitCountRequest(facts.grid, declared, loss)
    else:
        # Without a cap of the caller's own the request decides.
        caps = {} if user_cap is None else {"cap": cap_of(user_cap)}
        request = PresenceRequest.of(facts.grid, facts.lattice, declared, loss, **caps)
    return PresencePlan(facts, request, baseline_error, edition)


def statistics_of(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the requested statistics; averages by default.

    Examples
    --------
    >>> statistics_of(None), statistics_of("users")
    (('mean',), ('users',))
    """
    names = ("mean",) if given is None else (given,) if isinstance(given, str) else tuple(given)
    if names not in STATISTICS:
        raise InputError(
            'statistics under private presence are "mean" (averages, with the weight of each '
            f'cell) or "users" (numbers of units alone), got {", ".join(map(str, names))!r}.'
        )
    return names


def cap_of(given: int | str) -> UserCap:
    """Return the cap on users: none, a private one, or a declared number of records.

    Examples
    --------
    >>> cap_of("200"), cap_of("none")
    (DeclaredCap(records=200), NoCap())
    """
    if given == "none":
        return NO_CAP
    if given == "private":
        return PrivateCap()
    try:
        records = int(given)
    except (TypeError, ValueError):
        records = 0
    if isinstance(given, bool) or records < 1:
        raise InputError(
            'user_cap must be "none", "private", or the records from which on a unit weighs '
            f"fully, got {given!r}."
        )
    return DeclaredCap(records)
