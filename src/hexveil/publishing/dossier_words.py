"""Single facts of a release in words, for its dossier."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.exact import decimal_text
from hexveil.publishing.prose import Table
from hexveil.report import cutting
from hexveil.report.facts import NOUNS, headed, squared, up_to_digits, with_unit
from hexveil.report.promise import factor_words, probability_factor
from hexveil.report.promise import promise as worded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.publishing.dossier_facts import Facts

PROTECTED = {
    "user": "one user, in all cells at once and for as long as publication goes on",
    "user-day": "one user on one local day, in all cells at once",
    "user-week": "one user in one local week, in all cells at once",
}
SPANS = {"user": (7, 30, 365), "user-day": (7, 30, 365), "user-week": (4, 13, 52)}
"""How many releases, days or weeks a unit's owner may be in, for the table of losses."""
INSIDER = "an undecided insider becomes sure"
"""Head of the column that `INSIDERS` explains."""
INSIDERS = (
    "The insider of the last column knows the values of all other units and holds two "
    "possibilities for the values of this one as equally likely. Somebody without that knowledge "
    "can learn more: what units have in common shows in the release."
)
COUNTED = {
    "user": "releases of this loss with the same user",
    "user-day": "days of the same user, each at this loss",
    "user-week": "weeks of the same user, each at this loss",
}


def repeated(facts: Facts) -> Table:
    """Return what one unit loses, and what its owner loses at most over several."""
    rows = [("this release, the most exposed unit", *_priced(facts.loss))]
    rows += [
        (f"{k} {COUNTED[facts.unit]}", *_priced(k * facts.loss))
        for k in SPANS[facts.unit]
        if facts.loss
    ]
    return Table(("what", "epsilon", "probabilities differ", INSIDER), (*rows,))


def _priced(loss: Fraction) -> tuple[str, str, str]:
    factor = probability_factor(loss)
    change = "not at all" if not loss else factor_words(factor)
    return decimal_text(loss), change, certainty(factor)


def certainty(factor: float) -> str:
    """Return how sure an insider can become who was undecided between two possibilities.

    This insider knows the values of all other units: then the odds of two possibilities for one
    unit's values change by the same factor as the probabilities of outcomes.

    Examples
    --------
    >>> certainty(1.0), certainty(2.718281828459046), certainty(1e9)
    ('at most 50 in 100', 'at most 73.2 in 100', 'as good as certain')
    """
    if factor >= 1000:
        return "as good as certain"
    share = Fraction(factor) / (1 + Fraction(factor))
    return f"at most {decimal_text(Fraction(math.ceil(share * 1000), 10))} in 100"


def promise(facts: Facts) -> str:
    """Return what is promised, and the loss that it is about."""
    return f"{worded(facts.unit, facts.loss)} This is epsilon {decimal_text(facts.loss)}."


def heading(facts: Facts) -> str:
    """Return what is published: "Average speed (km/h)"."""
    data = facts.said["dataset"]
    unit = f" ({data['value_unit']})" if data["value_unit"] else ""
    return f"{headed(facts.said['plan']['statistics'], data['value'] or 'value')}{unit}"


def cells(facts: Facts) -> str:
    """Return what the cells are, and how many there are."""
    grid, count = facts.said["grid"], len(facts.said["cells"])
    many = "1 cell" if count == 1 else f"{count} cells"
    if grid["kind"] == "labels":
        return f"{many}: combinations of {', '.join(grid['columns'])}"
    words = f"{many}: H3 hexagons of resolution {grid['resolution']}"
    if grid["timeslot"] is None:
        return words
    words += f" in slots of {grid['timeslot']} ({grid['timezone']})"
    same = ", the same hours of all days together"
    return words + (same if grid["slot"] == "pooled" else "")


def bounds(facts: Facts) -> str:
    """Return the bounds and the step of the values."""
    said = facts.said["bounds"]
    both = f"from {said['lower']} to {said['upper']}"
    return f"{_measured(both, facts)}, in steps of {said['quantum']}"


def largest_bias(facts: Facts) -> str:
    """Return the largest worst-case bias of a mean over the cells."""
    return _measured(up_to_digits(facts.largest_bias), facts)


def errors(facts: Facts) -> list[str]:
    """Return the planning errors, a sentence for each statistic that is noised."""
    plan = facts.said["plan"]
    names = [part["statistic"] for part in facts.said["cells"][0]["noised"]]
    mean, most = plan["mean_error"], plan["max_error"]
    if isinstance(mean, dict) and isinstance(most, dict):
        return [_error(name, mean[name], most[name], facts) for name in sorted(mean)]
    if isinstance(mean, dict) or isinstance(most, dict) or len(names) > 1:
        # The sum of errors in different units has none.
        whole = [max(one.values()) if isinstance(one, dict) else one for one in (mean, most)]
        return [
            (
                f"Planning errors of all statistics added up: {up_to_digits(whole[0])} on average "
                f"over cells, {up_to_digits(whole[1])} at most."
            )
        ]
    return [_error(names[0], mean, most, facts)]


def _error(name: str, mean: float, most: float, facts: Facts) -> str:
    unit = facts.said["dataset"]["value_unit"]
    unit = squared(unit) if name == "variance" else unit
    bias = "worst-case" if interval(facts) is None else "predicted"
    return (
        f"Planning error of the {NOUNS.get(name, name)} ({bias} bias and expected size of the "
        f"noise): {with_unit(up_to_digits(mean), unit)} on average over cells, "
        f"{with_unit(up_to_digits(most), unit)} at most."
    )


def interval(facts: Facts) -> Mapping[str, Any] | None:
    """Return what the manifest says of a private interval; None if there is none."""
    return cutting.step(facts.said["plan"]["private_steps"], "interval")


def steps(facts: Facts) -> list[str]:
    """Return each private step under an interval with what it found and its price."""
    return cutting.told(facts.said["plan"]["private_steps"], lambda number: _six(number, facts))


def cut(facts: Facts) -> str:
    """Return which averages of users the numbers are about, under a private interval."""
    return cutting.cut(facts.said["plan"]["private_steps"], lambda number: _six(number, facts))


def way(facts: Facts) -> str | None:
    """Return the way that a release with a private interval went; None if it has none."""
    return cutting.way(facts.said["plan"]["private_steps"])


def _six(number: float, facts: Facts) -> str:
    return _measured(f"{number:.6g}", facts)


def _measured(number: str, facts: Facts) -> str:
    return with_unit(number, facts.said["dataset"]["value_unit"])
