"""Identity and bytes of plans of distributions, for the ledger.

A request is its goal, in exact text without any number that a search found. The ledger keeps the
decisions of the plan first booked for it: shares of ε, prices, and the plans of its components
(`hexveil.planning.serialization.plan_codec`). A repeated request gets that plan again, whatever
another version or processor would plan.
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import StorageError
from hexveil.base.rational import decimal_text
from hexveil.planning.distribution.cell_prices import PricedCells
from hexveil.planning.distribution.distribution_components import (
    BinPlan,
    DistributionComponent,
    IndicatorPlan,
    RankPlan,
    score_metadata,
)
from hexveil.planning.moments.moment_options import MomentOptions
from hexveil.planning.moments.plan_moments import plan_moments
from hexveil.planning.serialization import plan_codec

if TYPE_CHECKING:
    from hexveil.planning.distribution.distribution_plan import DistributionPlan
    from hexveil.planning.plan import Plan

MAGIC = b"hexveil plan of distributions\n"
FORMAT = 1
_SIZE_BYTES = 8
_INDICATOR = "indicator"
# An earlier version scored pooled ranks, which its stored numbers are decoded with, under "ranks".
_RANKS = "ranks among the points asked for"
Words = dict[str, Any]


def distribution_goal(plan: DistributionPlan) -> dict[str, str]:
    """Return the goal of a plan as text by field: equal goals have equal text."""
    return {
        "statistics": json.dumps(plan.statistics),
        "epsilon": decimal_text(plan.requested_epsilon),
        "weights": json.dumps({name: str(w) for name, w in sorted(plan.weights.items())}),
        "estimator": plan.requested_estimator,
        **({"delta": decimal_text(plan.delta)} if plan.delta else {}),
        "edition": "none" if plan.edition is None else json.dumps(plan.edition),
        "bins": "none" if plan.facts.bins is None else plan.facts.bins.identity(),
        "occupancy": plan.occupancy.fingerprint,
    }


def encode_distribution(plan: DistributionPlan) -> bytes:
    """Return a plan's decisions as bytes."""
    moment, score = plan.moment_plan, plan.score_plan
    chunks = [
        b"" if plan_of_means is None else plan_codec.encode(plan_of_means)
        for plan_of_means in (moment, score)
    ]
    words = _component_words(plan.component) | {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "epsilons": [
            None if plan_of_means is None else str(plan_of_means.request.epsilon)
            for plan_of_means in (moment, score)
        ],
        "sizes": [len(chunk) for chunk in chunks],
    }
    header = json.dumps(words, sort_keys=True).encode()
    return MAGIC + len(header).to_bytes(_SIZE_BYTES, "little") + header + b"".join(chunks)


def version_of(encoded: bytes) -> str:
    """Return the version of hexveil that encoded a plan."""
    return str(_header(encoded)[0]["hexveil"])


def decode_distribution_plan(encoded: bytes, plan: DistributionPlan) -> DistributionPlan:
    """Return the plan of these bytes, for the goal and the records of another one.

    Raises
    ------
    StorageError
        If the bytes are damaged, or of another format.
    """
    try:
        words, end = _header(encoded)
        middle = end + words["sizes"][0]
        chunks = encoded[end:middle], encoded[middle : middle + words["sizes"][1]]
        moment = _moment_plan(chunks[0], words["epsilons"][0], plan)
        component = _component(words, chunks[1], plan)
    except (LookupError, TypeError, ValueError, OverflowError):
        raise _damaged() from None
    return replace(plan, moment_plan=moment, component=component)


def _header(encoded: bytes) -> tuple[Words, int]:
    """Return the words of an encoded plan, and where they end; StorageError if they are damaged."""
    try:
        start = len(MAGIC) + _SIZE_BYTES
        end = start + int.from_bytes(encoded[len(MAGIC) : start], "little")
        words: Words = json.loads(encoded[start:end])
        if not encoded.startswith(MAGIC) or words["format"] != FORMAT:
            raise ValueError("of another format")
    except (LookupError, TypeError, ValueError, OverflowError):
        raise _damaged() from None
    return words, end


def _damaged() -> StorageError:
    return StorageError(
        "the plan that the ledger keeps for this request is damaged, or of another version of "
        "hexveil, so nothing was drawn; use that version, or restore the ledger from a copy."
    )


def _component_words(component: DistributionComponent) -> Words:
    match component:
        case IndicatorPlan(share=share):
            return {"component": _INDICATOR, "share": share.text}
        case RankPlan(shape_epsilon=shape_epsilon):
            return {"component": _RANKS, "shape_epsilon": str(shape_epsilon)}
        case BinPlan(priced, shape_epsilon, bin_epsilon):
            return {
                "component": "bins",
                "shape_epsilon": str(shape_epsilon),
                "bin_epsilon": str(bin_epsilon),
                "prices": priced.prices.tolist(),
                "floor": priced.floor,
                "error": priced.error,
            }


def _moment_plan(chunk: bytes, epsilon: str | None, plan: DistributionPlan) -> Plan | None:
    if epsilon is None:
        return None
    model = plan.moment_plan
    # Another processor may have split ε elsewhere: planned at the booked part, then decided by it.
    if model is None or str(model.request.epsilon) != epsilon:
        options = MomentOptions(delta=plan.delta or None)
        model = plan_moments(
            plan.facts, epsilon=Fraction(epsilon), statistics=plan.moments, options=options
        )
    return plan_codec.decode(chunk, model)


def _component(words: Words, chunk: bytes, plan: DistributionPlan) -> DistributionComponent:
    if words["component"] == "bins":
        prices = np.array(words["prices"], dtype=np.int64)
        if prices.size != plan.occupancy.n_cells:
            raise ValueError("of other cells")
        priced = PricedCells(prices, int(words["floor"]), float(words["error"]))
        return BinPlan(priced, Fraction(words["shape_epsilon"]), Fraction(words["bin_epsilon"]))
    epsilon, model = words["epsilons"][1], plan.score_plan
    if model is None or str(model.request.epsilon) != epsilon:
        options = MomentOptions(delta=plan.delta or None)
        scores = score_metadata(plan.facts)
        model = plan_moments(scores, epsilon=Fraction(epsilon), options=options)
    booked = plan_codec.decode(chunk, model)
    if words["component"] == _RANKS:
        return RankPlan(booked, Fraction(words["shape_epsilon"]))
    if words["component"] != _INDICATOR:
        raise ValueError("of other scores")
    share = next(term for term in plan.terms if term.text == words["share"])
    return IndicatorPlan(booked, share)  # type: ignore[arg-type]  # the text is that of a share
