"""The guarantee and the losses of a release as its manifest states them, and their checks.

Facts that are stated twice have to agree: `epsilon_spent` is `losses.max`, rounded up; the factor
is e to that power; promise, neighbours, assumptions and limits are those of model, unit and loss.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hexveil.accounting.promise import of_amount
from hexveil.base.arrays import Floats
from hexveil.base.rational import decimal_text
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.component import PlanComponent
from hexveil.planning.plan import Plan
from hexveil.report.promise_wording import PURE, Protect, guarantee_sentences, probability_factor

Json = dict[str, Any]

PRESENCE: Protect = "presence"
TOLERANCE, CLOSE = 1e-9, 1e-7
"""Part by which rounding may set numbers apart; and sums of thousands of losses."""
WORDS = ("promise", "neighbours", "assumptions", "not_protected")
"""Sentences, which another version may have worded in another way."""
LEAST_DELTA = Fraction(1, 10**300)
"""Smallest δ whose ε can be computed."""


def promise_section(
    unit: str,
    requested: str,
    spent: str,
    *,
    dropped: str,
    protect: Protect,
    delta: Fraction = PURE,
    together: Mapping[str, Any] | None = None,
) -> Json:
    """Return the section of a manifest about the promise, in the words of its privacy model.

    Parameters
    ----------
    unit : str
        The privacy unit.
    requested, spent : str
        Decimal text of ε.
    dropped : str
        Values that mean no reading.
    protect : str
    delta : Fraction
        0 of a pure promise.
    together : mapping, optional
        Of one of several value columns: all `columns`, and `epsilon_spent` over them.
    """
    factor = probability_factor(Fraction(spent))
    words = guarantee_sentences(
        unit, Fraction(spent), dropped=dropped, protect=protect, delta=delta, together=together
    )
    return {
        "protect": protect,
        "privacy_unit": unit,
        "promise": words["promise"],
        "neighbours": words["neighbours"],
        "epsilon_requested": requested,
        "epsilon_spent": spent,
        "probability_factor": factor if math.isfinite(factor) else None,  # JSON has no infinity
        **({"delta": decimal_text(delta)} if delta else {}),
        "assumptions": words["assumptions"],
        "not_protected": words["not_protected"],
    }


def epsilon_text(epsilon: Fraction) -> str:
    """Return ε as decimal text of at most 12 places, rounded up."""
    # Up, because a stated loss must not be below the real one.
    return decimal_text(Fraction(math.ceil(epsilon * 10**12), 10**12))


def requested_text(requested: Fraction, spent: Fraction) -> str:
    """Return the requested ε as decimal text."""
    # What errors cost is a double, of which the exact text is a ratio that nobody reads.
    return epsilon_text(spent) if requested == spent else decimal_text(requested)


def loss_section(plan: PlanComponent | Plan) -> Json:
    """Return the section of a manifest about the losses of units."""
    losses = plan.user_losses
    return {
        "units": int(losses.size),
        "max": float(losses.max()),
        "p99": float(np.quantile(losses, 0.99)),
        "p90": float(np.quantile(losses, 0.9)),
        "median": float(np.median(losses)),
        "mean": float(losses.mean()),
        "at_zero": int((losses == 0).sum()),
        **square_section(plan.booked_losses, plan.delta),
    }


def square_section(booked: Floats, delta: Fraction) -> Json:
    """Return the losses as squares of μ, under a δ: those add up over cells and releases."""
    if not delta:
        return {}
    return {"squared_mu": {"max": float(booked.max()), "mean": float(booked.mean())}}


# ---- checks ----


def is_private(manifest: Mapping[str, Any]) -> bool:
    """Return whether presence is private in a release."""
    return bool(manifest["guarantee"]["protect"] == PRESENCE)


def delta_of(manifest: Json) -> Fraction:
    """Return the δ that a manifest states; 0 of a pure promise."""
    return Fraction(manifest["guarantee"].get("delta", 0))


def lattice_of(manifest: Json) -> ValueLattice:
    """Return bounds and quantum of a manifest."""
    bounds = manifest["bounds"]
    return ValueLattice.of((bounds["lower"], bounds["upper"]), bounds["quantum"])


def added_losses(manifest: Json) -> Json:
    """Return the figures of losses that add up over cells and releases: of ε, or squares of μ."""
    losses: Json = manifest["losses"]
    return losses["squared_mu"] if delta_of(manifest) else losses


def check_delta(manifest: Json, units: int) -> Iterator[str]:
    """Yield if δ is none that a release of so many units has."""
    delta = delta_of(manifest)
    if (delta and not LEAST_DELTA <= delta < 1) or delta * units >= 1:
        yield "guarantee/delta is not above 0 and below one over the number of units."


def check_losses(manifest: Json) -> Iterator[str]:
    """Yield contradictions of losses with each other, with ε as spent and requested, and δ."""
    guarantee, losses, delta = manifest["guarantee"], manifest["losses"], delta_of(manifest)
    spent = Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != epsilon_text(Fraction(losses["max"])):
        yield "epsilon_spent is not the largest loss, rounded up."
    if spent > Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11):
        yield "more was spent than asked for."
    order = [losses[key] for key in ("median", "p90", "p99", "max") if key in losses]
    if order != sorted(order) or losses["mean"] > losses["max"] * (1.0 + TOLERANCE):
        yield "the quantiles of the losses are not in order."
    if ("squared_mu" in losses) != bool(delta):
        yield "squares of mu are stated without a delta, or a delta without them."
    elif faults := [*check_delta(manifest, losses["units"])]:
        yield from faults
    elif delta:
        largest = of_amount(Fraction(losses["squared_mu"]["max"]), delta).epsilon
        if not math.isclose(float(largest), losses["max"], rel_tol=CLOSE):
            yield "the largest loss is not that of the largest square of mu at this delta."


def check_guarantee(manifest: Json, *, words: bool) -> Iterator[str]:
    """Yield if the factor, or with `words` a sentence, is not that of model, unit and loss."""
    stated = manifest["guarantee"]
    expected = promise_section(
        *(stated[key] for key in ("privacy_unit", "epsilon_requested", "epsilon_spent")),
        dropped=manifest["components"][0]["selection"].get("drop_values", "none"),
        protect=stated["protect"],
        delta=delta_of(manifest),
        together=manifest.get("columns_together"),
    )
    compared = {key: own for key, own in expected.items() if words or key not in WORDS}
    yield from find_differences(stated, compared, "guarantee", "this model and loss")


def find_differences(
    stated: Any,  # noqa: ANN401  JSON
    expected: Any,  # noqa: ANN401
    place: str,
    source: str,
    tolerance: float = TOLERANCE,
) -> Iterator[str]:
    """Yield the places where a statement is not the expected one; others are free.

    Parameters
    ----------
    stated, expected : JSON
    place : str
        Of the statement in the manifest.
    source : str
        What it follows from.
    tolerance : float
        Of numbers: their last digits differ between processors.
    """
    if isinstance(expected, dict):
        for key, own in expected.items():
            yield from find_differences(stated.get(key), own, f"{place}/{key}", source, tolerance)
    elif isinstance(expected, list) and isinstance(stated, list) and len(expected) == len(stated):
        for number, own in enumerate(expected):
            yield from find_differences(stated[number], own, f"{place}/{number}", source, tolerance)
    elif not is_same(stated, expected, tolerance):
        yield f"{place} is not that of {source}."


# ---- comparison of numbers ----


def is_same(stated: object, expected: object, tolerance: float = TOLERANCE) -> bool:
    """Return whether a statement is the one expected, numbers up to a tolerance."""
    if isinstance(stated, (int, float)) and isinstance(expected, float):
        return math.isclose(stated, expected, rel_tol=tolerance, abs_tol=tolerance)
    return stated == expected


def is_close(numbers: Floats, expected: Floats) -> bool:
    """Return whether numbers are those expected, up to rounding."""
    return bool(np.allclose(numbers, expected, rtol=TOLERANCE, atol=TOLERANCE))


def is_ascending(rows: Sequence[Floats], slack: float) -> bool:
    """Return whether no number is below the one of the row before, up to a slack."""
    return not any((above < below - slack).any() for below, above in itertools.pairwise(rows))


def is_interval(rows: Sequence[Floats], limits: Sequence[float], slack: float) -> bool:
    """Return whether low, middle and high are in order, and within limits."""
    ends = [np.full_like(rows[0], limit) for limit in limits]
    return is_ascending([ends[0], *rows, ends[1]], slack)
