"""Identity and bytes of plans of several value columns, for the ledger.

A request is the goal of each column, without its part of ε, which a prediction decided, and the ε
of all; or the goals of all columns with their targets. The ledger keeps the decisions of each
column's plan, and the part of ε that it was booked with.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import StorageError
from hexveil.base.rational import decimal_text
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.request import WithinErrors
from hexveil.planning.serialization.words import optional

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.planning.columns.column_plan import ColumnPlans, SingleColumnPlan

MAGIC = b"hexveil plan of value columns\n"
_SIZE_BYTES = 8


def columns_goal(plan: ColumnPlans, goals: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the goal of a plan as text by field: equal goals have equal text.

    Parameters
    ----------
    plan : ColumnPlans
    goals : mapping of str to mapping
        Goal of each column's plan.
    """
    # Without the part of ε: it is a number that a prediction found.
    goal_texts = {
        column: {name: text for name, text in goal.items() if name != "epsilon"}
        for column, goal in goals.items()
    }
    return {
        "epsilon": optional(decimal_text, plan.requested_epsilon) or "none",
        "weights": json.dumps({name: str(weight) for name, weight in sorted(plan.weights.items())}),
        "edition": "none" if plan.edition is None else json.dumps(plan.edition),
        # In whichever order columns are named, the request is the same.
        "columns": json.dumps(goal_texts, sort_keys=True),
    }


def pack_columns(plan: ColumnPlans, chunks: Mapping[str, bytes]) -> bytes:
    """Return the encoded plans of all columns as the bytes of one plan."""
    words = {
        "sizes": {column: len(chunk) for column, chunk in chunks.items()},
        "epsilons": {
            column: str(column_plan.requested_epsilon) for column, column_plan in plan.plans.items()
        },
    }
    header = json.dumps(words).encode()
    size = len(header).to_bytes(_SIZE_BYTES, "little")
    return MAGIC + size + header + b"".join(chunks.values())


def unpack_columns(encoded: bytes, plan: ColumnPlans) -> dict[str, tuple[bytes, SingleColumnPlan]]:
    """Return the encoded plan of each column, and a plan of the same goal and part of ε.

    Raises
    ------
    StorageError
        If the bytes are damaged, or of other columns.
    """
    try:
        words, start = _header(encoded)
        if set(words["sizes"]) != set(plan.plans):
            raise ValueError("of other columns")
        unpacked: dict[str, tuple[bytes, SingleColumnPlan]] = {}
        for column, size in words["sizes"].items():
            epsilon = Fraction(words["epsilons"][column])
            column_plan = _within_epsilon(plan.plans[column], epsilon)
            unpacked[column] = encoded[start : start + size], column_plan
            start += size
        unpacked = {column: unpacked[column] for column in plan.plans}
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise StorageError(
            "the plan that the ledger keeps for this request is damaged, or of another version of "
            "hexveil, so nothing was drawn; use that version, or restore the ledger from a copy."
        ) from None
    return unpacked


def _header(encoded: bytes) -> tuple[dict[str, Any], int]:
    start = len(MAGIC) + _SIZE_BYTES
    end = start + int.from_bytes(encoded[len(MAGIC) : start], "little")
    if not encoded.startswith(MAGIC):
        raise ValueError("of another format")
    words: dict[str, Any] = json.loads(encoded[start:end])
    return words, end


def _within_epsilon(plan: SingleColumnPlan, epsilon: Fraction) -> SingleColumnPlan:
    """Return a plan with another part of ε, into which booked decisions are decoded."""
    # Another processor may have divided ε otherwise.
    if isinstance(plan, DistributionPlan):
        return replace(plan, requested_epsilon=epsilon)
    if isinstance(plan.request.limit, WithinErrors):
        # Targets are a goal of the column itself: nothing was divided.
        return plan
    return replace(plan, request=replace(plan.request, epsilon=epsilon))
