"""The promise of a release: one wording for every text that states it.

The promise is the definition of ε- or (ε, δ)-differential privacy for a privacy unit: it compares
the release with the one that would have been published from neighbouring data. It says nothing
about beliefs, on purpose. Where the values of several units are correlated, the odds on a fact
about one of them can change by far more than e^ε, because a statistic shows what units have in
common; tests/report/test_promise.py has an exact example.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

from hexveil.base.rational import decimal_text, round_up
from hexveil.report.templates import render_sentence

Protect = Literal["values", "presence"]
"""Privacy models."""

_TEMPLATE = "promise.txt"
PURE = Fraction(0)
"""δ of a pure promise."""
_THREE_UP = Context(prec=3, rounding=ROUND_CEILING)


def promise(
    unit: str | None = None,
    epsilon: Fraction | None = None,
    *,
    protect: Protect = "values",
    delta: Fraction = PURE,
) -> str:
    """Return the promise in one sentence.

    Parameters
    ----------
    unit : str, optional
        The privacy unit; without it, the sentence speaks of any.
    epsilon : Fraction, optional
        The largest loss of a unit; without it, the factor is the formula.
    protect : str
        The privacy model.
    delta : Fraction
        δ of an approximate promise; 0 for a pure one.

    Examples
    --------
    >>> print(promise("user-day", Fraction(1)))  # doctest: +NORMALIZE_WHITESPACE
    Compared with the release that would have been published had the values of one vehicle on one
    day been anything else, the probability of any outcome differs by a factor of at most 2.72.
    """
    # Without an epsilon the sentence states the formula, for pages that explain the promise.
    factor = "formula" if epsilon is None else _limit(probability_factor(epsilon))
    return render_sentence(
        _TEMPLATE,
        "promise",
        protect=protect,
        unit=unit,
        nothing_read=epsilon == 0,
        factor=render_sentence(_TEMPLATE, "factor", limit=factor),
        delta=decimal_text(delta) if delta else "",
    )


def delta_in_words(manifest: Mapping[str, Any]) -> str:
    """Return the meaning of a manifest's δ in plain words; the empty text of a pure promise."""
    stated = manifest["guarantee"].get("delta")
    if stated is None:
        return ""
    # Declared where presence is private, counted elsewhere.
    is_declared = "fleet" in manifest.get("plan", {})
    units = manifest["plan"]["fleet"]["units"] if is_declared else manifest["losses"]["units"]
    delta = Fraction(stated)
    revealed = decimal_text(Fraction(math.ceil(delta * units * 10**12), 10**12))
    return render_sentence(
        _TEMPLATE,
        "meaning_of_delta",
        delta=decimal_text(delta),
        units=units,
        revealed=revealed,
        declared=is_declared,
    )


def limits_of_promise() -> dict[str, str]:
    """Return the sentences on the limits of the protection.

    On `presence`; on counts, places and times, which have `exact_counts`; and on values that users
    have `in_common`, which a release shows.
    """
    names = {"presence": "presence", "exact_counts": "exact", "in_common": "in_common"}
    return {name: render_sentence(_TEMPLATE, macro) for name, macro in names.items()}


def guarantee_sentences(
    unit: str,
    spent: Fraction,
    *,
    dropped: str,
    protect: Protect,
    delta: Fraction = PURE,
    together: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the sentences of a manifest's guarantee, by their keys.

    Parameters
    ----------
    unit : str
        The privacy unit.
    spent : Fraction
        The largest loss of a unit.
    dropped : str
        Values that mean no reading.
    protect : str
    delta : Fraction
        0 of a pure promise.
    together : mapping, optional
        Of one of several value columns: all `columns`, and `epsilon_spent` over them.
    """
    is_private, several = protect == "presence", "several_ids_by_delta" if delta else "several_ids"
    texts = [render_sentence(_TEMPLATE, "declared_beforehand" if is_private else "usable_values")]
    # Under private presence a record without a usable value is as private as any other.
    if dropped != "none" and not is_private:
        texts.append(render_sentence(_TEMPLATE, "dropped_values", values=dropped))
    if unit != "user":
        texts.append(render_sentence(_TEMPLATE, "several_units", unit=unit))
    texts.append(render_sentence(_TEMPLATE, several))
    if together:
        total = Fraction(together["epsilon_spent"])
        column_facts = {
            "protect": protect,
            "columns": list(together["columns"]),
            "factor": factor_words(probability_factor(total)),
            "delta": decimal_text(delta) if delta else "",
        }
        texts.append(render_sentence(_TEMPLATE, "one_of_columns", **column_facts))
    neighbours = "private_neighbours" if is_private else "neighbours"
    limits = limits_of_promise()
    open_facts = render_sentence(_TEMPLATE, "declared")
    if not is_private:
        open_facts = f"{limits['presence']} {limits['exact_counts']}"
    return {
        "promise": promise(unit, spent, protect=protect, delta=delta),
        "neighbours": render_sentence(_TEMPLATE, neighbours, unit=unit),
        "assumptions": texts,
        "not_protected": f"{open_facts} {limits['in_common']}",
    }


def probability_factor(epsilon: Fraction) -> float:
    """Return e^ε rounded up; infinity where it is too large for a double."""
    if not epsilon:
        return 1.0  # nothing is read, so this is exact
    try:
        # exp is accurate to one unit in the last place: the next double is an upper bound.
        return math.nextafter(math.exp(round_up(epsilon)), math.inf)
    except OverflowError:
        return math.inf


def factor_words(factor: float | None) -> str:
    """Return the factor by which probabilities differ, rounded up to three digits.

    Examples
    --------
    >>> factor_words(2.7181), factor_words(20085.54)
    ('by a factor of at most 2.72', 'by a factor of at most 20,100')
    """
    return render_sentence(_TEMPLATE, "factor", limit=_limit(factor))


def _limit(factor: float | None) -> str:
    """Return a factor rounded up, as text; "none" where no double holds it."""
    if factor is None or not math.isfinite(factor):
        return "none"
    limit = Decimal(factor).normalize(_THREE_UP)
    # Nobody counts more zeros.
    return f"{limit:,f}" if factor < 1e15 else f"{limit:.2e}"
