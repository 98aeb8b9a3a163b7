"""Goal of a plan: the request in exact text, without any number found by a solver.

Solvers differ in late digits between processors and versions, requests must not. So a request is
its goal: the options given, the bounds and the occupancy. Two plans of one goal are one request.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hexveil.base.rational import Number, decimal_text, items_of, to_fraction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms import CellMechanism, ThresholdMechanism
    from hexveil.planning.plan import Plan
    from hexveil.planning.plan_data import MomentFigures


def goal(plan: Plan) -> dict[str, str]:
    """Return the goal of a plan as text by field: equal goals have equal text.

    The prior of a constant's error is left out: it judges a plan and decides nothing in it. Under
    private presence a request has declared facts alone (publishing/kinds/presence_manifest.py).
    """
    components: Mapping[str, Any] = plan.components
    goals = {column: component.goal() for column, component in components.items()}
    if plan.is_single:
        return next(iter(goals.values()))
    for column_goal in goals.values():
        # A column's part of ε is a number that a prediction found.
        column_goal.pop("epsilon", None)
    return {
        "epsilon": _exact(plan.requested_epsilon),
        "weights": weights_text(plan.weights),
        "edition": edition_text(plan.edition),
        # In whichever order columns are named, the request is the same.
        "columns": json.dumps(goals, sort_keys=True),
    }


def moment_goal(plan: MomentFigures) -> dict[str, str]:
    """Return the request of means and variances as text by field."""
    requested = plan.request
    plain = ("method", "objective", "clipping_range")
    numbers = ("split", "epsilon", "range_share")
    is_joint = requested.method == "joint"
    # Arrays by digest: a target per cell would make the text as long as the map.
    targets = {name: _digest(one) for name, one in (requested.target or {}).items()}
    return {
        "statistics": json.dumps(requested.statistics),
        # The joint plan ignores the mechanism: two spellings of one goal must not be paid twice.
        "mechanism": "joint" if is_joint else mechanism_text(requested.mechanism),
        **{name: getattr(requested, name) for name in plain},
        **{name: _exact(getattr(requested, name)) for name in numbers},
        **delta_text(requested.delta),
        **({"history": json.dumps(requested.history)} if requested.history else {}),
        "targets": json.dumps(targets),
        "edition": edition_text(requested.edition),
        "bounds": _digest(plan.lower, plan.upper),
        "occupancy": plan.occupancy.fingerprint,
    }


def mechanism_text(mechanism: ThresholdMechanism | CellMechanism) -> str:
    """Return a mechanism's name, with the fields of one that is a data class."""
    if not dataclasses.is_dataclass(mechanism) or not dataclasses.fields(mechanism):
        return mechanism.name
    spelled = _spelled(mechanism)
    # repr of a double is exact, and sorted keys do not depend on the order of fields.
    arguments = {f.name: repr(getattr(spelled, f.name)) for f in dataclasses.fields(spelled)}
    return f"{spelled.name} {json.dumps(arguments, sort_keys=True)}"


def _spelled(owner: Any) -> Any:  # noqa: ANN401  a mechanism or a prior
    """Return a mechanism, or a prior, with each argument in one of its spellings."""
    fields = (field for field in dataclasses.fields(owner) if field.init)
    return dataclasses.replace(
        owner, **{f.name: _argument(getattr(owner, f.name), f) for f in fields}
    )


def _argument(value: object, field: dataclasses.Field[Any]) -> object:
    """Return numbers as its default or type has them, lists as tuples."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_argument(item, field) for item in items_of(value))
    if dataclasses.is_dataclass(value):
        return _spelled(value)
    # An annotation is its text where a module asks for that.
    if field.type in ("Number", Number):
        number = to_fraction(cast("Number", value), field.name)
        return decimal_text(number) if isinstance(field.default, str) else float(number)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return float(cast("int", value)) if is_whole and "float" in str(field.type) else value


def delta_text(delta: Fraction) -> dict[str, str]:
    """Return the field of a δ."""
    # Pure requests have no such field: those of earlier versions stay what they were.
    return {"delta": decimal_text(delta)} if delta else {}


def weights_text(weights: Mapping[str, Fraction]) -> str:
    """Return weights in one order."""
    return json.dumps({name: str(weight) for name, weight in sorted(weights.items())})


def edition_text(edition: str | None) -> str:
    """Return an edition, which may be any text."""
    return "none" if edition is None else json.dumps(edition)


def _exact(number: Fraction | None) -> str:
    return "none" if number is None else decimal_text(number)


def _digest(*arrays: Floats) -> str:
    """Return the SHA-256 of arrays, each with its length."""
    digest = hashlib.sha256()
    for array in arrays:
        # With lengths, so that no two lists of arrays share their bytes.
        digest.update(f"<f8{array.shape};".encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
