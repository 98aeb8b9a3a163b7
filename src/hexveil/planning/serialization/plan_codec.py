"""Bytes of a plan of any kind that the ledger keeps beside the booking that pays for it.

The ledger keeps decisions alone: what the request and the records decide is given by a plan of the
same goal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from hexveil.planning.cell_mechanisms import OtherStagesError
from hexveil.planning.serialization import former_plans
from hexveil.planning.serialization.codec import (
    FORMAT,
    MAGIC,
    Codec,
    damaged,
    pack_bytes,
    unpack_bytes,
)
from hexveil.planning.serialization.plan_kinds import CODERS, AnyPlan, given_by

if TYPE_CHECKING:
    from hexveil.planning.serialization.codec import Arrays, Words

PlanT = TypeVar("PlanT", bound=AnyPlan)


def pack_decisions(plan: AnyPlan) -> tuple[Words, Arrays]:
    """Return the decisions of a plan as words and arrays, without the request and the records."""
    arrays: Arrays = {}
    return Codec(arrays, given_by(plan), CODERS).pack(plan), arrays


def encode(plan: AnyPlan) -> bytes:
    """Return a plan's decisions as bytes: equal decisions have equal bytes but for the version."""
    return pack_bytes(*pack_decisions(plan))


def made_by(encoded: bytes) -> str:
    """Return the version of hexveil that encoded a plan."""
    return former_plans.made_by(encoded)


def decode(encoded: bytes, like: PlanT) -> PlanT:
    """Return the encoded plan, for a plan of the same goal.

    Parameters
    ----------
    encoded : bytes
        As `encode` made them.
    like : Plan, DistributionPlan or ColumnPlans
        Of the same goal: its records, request and public facts are those of the encoded plan.

    Raises
    ------
    InputError
        If a later version of hexveil encoded it in a format unknown here.
    StorageError
        If it is damaged, or is not a plan of these counts.
    """
    header, arrays = unpack_bytes(encoded) if encoded.startswith(MAGIC) else ({}, {})
    try:
        if header.get("format") == FORMAT:
            words = header["plan"]
        else:
            words, arrays = former_plans.unpack_decisions(encoded, like)
        with np.errstate(all="ignore"):  # of damaged numbers
            return cast("PlanT", Codec(arrays, given_by(like), CODERS).unpack(type(like), words))
    except OtherStagesError:  # what differs here from the machine of the plan is no damage
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise damaged() from None
