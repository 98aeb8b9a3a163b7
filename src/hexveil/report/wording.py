"""The sentences of the page: what it shows, what is promised, and the mathematics behind it.

The privacy statement is written for a reader who knows no Greek; every number in it comes from the
manifest or from the released table.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.errors import InputError
from hexveil.exact import exact
from hexveil.report import cutting
from hexveil.report.facts import NOUNS, Facts, up_to_digits, with_unit
from hexveil.report.promise import EXACT, IN_COMMON, PRESENCE

if TYPE_CHECKING:
    import pyarrow as pa

_SIX_DOWN = Context(prec=6, rounding=ROUND_FLOOR)
_HIDDEN = {
    "user": "all that one user reported",
    "user-day": "what one user reported on one day; each further day counts anew",
    "user-week": "what one user reported in one week; each further week counts anew",
}


def title(facts: Facts) -> str:
    """Return the page's title: value, unit and data set."""
    unit = f" in {facts.unit_text}" if facts.unit_text else ""
    return f"{facts.heading}{unit}" + (f" \u00b7 {facts.name}" if facts.name else "")


def summary(table: pa.Table, facts: Facts) -> str:
    """Return one line: how many cells, and how far off to expect them."""
    cells = table.num_rows
    kinds = [_many(cells, "cell")]
    if "hexagon" in table.column_names:
        places = len(set(table["hexagon"].to_pylist()))
        kinds = [_many(places, "hexagon")]
        if "slot" in table.column_names:
            slots = len(set(table["slot"].to_pylist()))
            kinds += [f"in {_many(slots, 'timeslot')}", f"({_many(cells, 'cell')})"]
    if facts.constant:
        return f"{' '.join(kinds)}, each with a constant: no value was read."
    error = facts.planned_error
    off = "" if error is None else f", {_expected(facts)} {facts.amount_up(error)} on average"
    cut = table[f"{facts.statistic}_quality"].to_pylist().count(cutting.CUT_OFF)
    beyond = f"; {_many(cut, 'cell')} cut off at an end of the range" if cut else ""
    return f"{' '.join(kinds)} with random noise added{off}{beyond}."


def promise(table: pa.Table, facts: Facts) -> list[tuple[str, str]]:
    """Return the sentences of the privacy statement, each with a word that names it."""
    if facts.unit not in _HIDDEN:
        raise InputError(
            f"the manifest's unit of privacy must be one of {', '.join(_HIDDEN)}, got "
            f"{facts.unit!r}."
        )
    bound = np.asarray(table[f"{facts.statistic}_bound95"].to_numpy(), dtype=np.float64)
    between = f"{facts.lower:g} to {with_unit(f'{facts.upper:g}', facts.value_unit)}"
    hidden = (
        "none of them was read" if facts.constant else f"random noise hides {_HIDDEN[facts.unit]}"
    )
    protected = f"The {facts.value} values are protected: {hidden}."
    assumed = (
        "The promise assumes that whether a record carries a usable value (present, finite, a "
        "number) is as public as its user, place and time."
    )
    found = facts.private_interval
    true = f"true one (of values cut to {between})" if found is None else _cut(facts)
    off = (
        f"With a chance of at least 95 in 100, a published {facts.noun} is no further than its "
        f"bound from the {true}; that bound is at most "
        f"{facts.amount_up(float(np.median(bound)))} for half of the cells and at most "
        f"{facts.amount_up(float(bound.max()))} for all; bounds and intervals speak of the "
        f"{facts.noun} of these records, not of traffic."
    )
    return [
        ("Protected", protected),
        ("How much", facts.promise),
        ("Not protected", PRESENCE),
        ("Exact", EXACT),
        ("In common", IN_COMMON),
        ("Assumption", assumed),
        ("How far off", off),
    ]


def _cut(facts: Facts) -> str:
    """Return which number a bound under a private interval is about."""
    squares = facts.statistic != "mean"
    return f"true one of {cutting.cut(facts.steps, partial(_in_values, facts), squares=squares)}"


def _in_values(facts: Facts, number: float) -> str:
    """Return a number in units of the values, whichever statistic is shown."""
    if facts.statistic == "mean":
        return facts.amount(number)
    return with_unit(f"{number:.6g}", facts.value_unit)


def _expected(facts: Facts) -> str:
    """Return whether the error is one that clipping and noise allow, or one that a prior says."""
    if facts.private_interval is None:
        return "expected to be off by at most"
    if cutting.way(facts.steps) == "cells":
        return "off, once smoothed estimates have undone what was cut, by a stated prior, by about"
    return "off, by a stated prior, by about"


def qualities(table: pa.Table, facts: Facts) -> list[tuple[str, str, int]]:
    """Return each quality with what it means and how many cells have it."""
    flags = table[f"{facts.statistic}_quality"].to_pylist()
    tenth, quarter = (with_unit(f"{facts.range / n:g}", facts.unit_text) for n in (10, 4))
    means = {
        "good": f"bound at most \u00b1{tenth}",
        "caution": f"bound at most \u00b1{quarter}: read with care",
        cutting.CUT_OFF: "at an end of a range found privately: the true number may lie far beyond",
        "noise": f"bound above \u00b1{quarter} or no data used: says next to nothing",
    }
    if facts.private_interval is None:
        del means[cutting.CUT_OFF]
    return [(name, text, flags.count(name)) for name, text in means.items()]


def mathematics(table: pa.Table, facts: Facts) -> list[tuple[str, str]]:
    """Return the folded-away facts as pairs of term and text."""
    manifest = facts.manifest
    guarantee, plan = manifest["guarantee"], manifest["plan"]
    rows = [
        (
            "Kind of privacy",
            "Pure \u03b5-differential privacy; the factor is e to the power \u03b5.",
        ),
        ("Unit of privacy", facts.unit),
        ("Several ids", "A person behind several ids loses up to the sum of what each loses."),
        ("Neighbouring data", guarantee.get("neighbours")),
        ("\u03b5 asked", guarantee.get("epsilon_asked")),
        ("\u03b5 spent", _epsilon(guarantee.get("epsilon_spent"))),
        ("\u03b5 by counting cells", _epsilon(guarantee.get("composed_epsilon"))),
        ("Assumptions", " ".join(guarantee.get("assumptions") or ())),
        ("Not protected", guarantee.get("not_protected")),
        ("Planning method", plan.get("method")),
        ("Mechanism", plan.get("mechanism")),
        ("Private interval" if len(facts.steps) < 3 else "Private steps", _interval(facts)),
        ("Published", ", ".join(NOUNS[name] for name in facts.statistics)),
        ("Noise scale (Laplace b)", _spread(table, "scale", facts)),
        ("Worst-case bias", _spread(table, "bias", facts)),
        ("95% bound", _bound(facts)),
        ("Planning error", _planning(facts)),
        ("Certificate", _certificate(facts)),
        ("Smoothed estimates", _smoothed(facts)),
        ("Cells that say more than one constant", _better(table, facts)),
        ("Loss per unit of privacy", _losses(manifest.get("losses"))),
        ("Bounds and quantum", _bounds(manifest["bounds"], facts)),
        ("Cells", _grid(manifest["grid"])),
        ("Data set version", manifest["dataset"].get("version")),
        ("Sources", ", ".join(map(str, manifest["dataset"].get("sources") or ()))),
        ("Software", _software(manifest.get("software"))),
    ]
    return [(term, str(text)) for term, text in rows if text]


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _epsilon(text: object) -> str | None:
    """Return a loss rounded up to six digits; long decimals and ratios help no reader."""
    if text is None:
        return None
    number = float(exact(str(text), "epsilon"))
    return str(text) if len(str(text)) <= 12 else f"at most {up_to_digits(number, 6)}"


def _spread(table: pa.Table, key: str, facts: Facts) -> str | None:
    """Say a column of the statistic shown; a root has no noise of its own."""
    if facts.statistic == "sd":
        return None
    numbers = np.asarray(table[f"{facts.statistic}_{key}"].to_numpy(), dtype=np.float64)
    low, middle, high = (facts.amount_up(float(np.quantile(numbers, q))) for q in (0, 0.5, 1))
    said = low if low == high else f"from {low} to {high}, median {middle}"
    if key == "scale" and cutting.way(facts.steps) == "users":
        said += ", as one noise of as large a variance as all that a cell has"
    return said


def _planning(facts: Facts) -> str | None:
    """Say the planning error: worst-case bias plus the expected size of the noise."""
    error, worst = facts.planned_error, facts.planned("max_error")
    if error is None:
        return None
    most = "" if worst is None else f", {facts.amount_up(worst)} at most"
    bias = "worst-case" if facts.private_interval is None else "predicted"
    about = ", of smoothed estimates" if cutting.way(facts.steps) == "cells" else ""
    return f"{facts.amount_up(error)} on average{most} ({bias} bias + expected noise{about})"


def _smoothed(facts: Facts) -> str | None:
    """Say what smoothing found, where the tables have it; the page shows raw numbers."""
    told = facts.manifest.get("smoothing") or ()
    name = "variance" if facts.statistic == "sd" else facts.statistic
    found = next((one for one in told if one["statistic"] == name), None)
    if found is None:
        return None
    epsilon = found.get("epsilon_half_distinguishable")
    half = (
        "" if epsilon is None else f" (half of them at about \u03b5 {epsilon:.2g}, by prediction)"
    )
    return (
        f"in the tables, beside the raw ones of this page. {found['signal_share']:.0%} of the "
        f"map's variation is signal; {_many(found['distinguishable'], 'cell')} can be told from "
        f"the overall average{half}. {found['model']}"
    )


def _interval(facts: Facts) -> str | None:
    """Say between which ends user means were projected, and what finding them cost."""
    found = facts.private_interval
    if found is None:
        return None
    if cutting.step(facts.steps, "inside") is not None:
        said = " ".join(cutting.told(facts.steps, partial(_in_values, facts)))
        return f"{said} Bias and bound are about the {facts.noun} of what was cut."
    low, high = (_in_values(facts, found[end]) for end in ("lower", "upper"))
    return (
        f"user means projected to {low} to {high}, found at \u03b5 {found['epsilon']}; bias and "
        f"bound are about the {facts.noun} of what was projected"
    )


def _bound(facts: Facts) -> str:
    if facts.statistic == "sd":
        return "larger distance to the roots of the variance's interval"
    if cutting.way(facts.steps) == "users":
        return "bias + what the noise of classes and cell together exceeds 5 times in 100 at most"
    if facts.statistic == "variance" and facts.private_interval is not None:
        return "bias + b \u00b7 ln 40 + what the average's noise can add, in squared value units"
    return f"bias + b \u00b7 ln 20, in {'squared ' * (facts.statistic == 'variance')}value units"


def _certificate(facts: Facts) -> str | None:
    """Say how near the plan is to the best of its class; the bound is rounded down."""
    plan = facts.manifest["plan"]
    bound, gap = plan.get("lower_bound"), plan.get("gap")
    if bound is None or gap is None:
        return None
    least = f"{Decimal(bound).normalize(_SIX_DOWN):f}"
    both = "mean" in facts.statistics and len(facts.statistics) > 1
    shares = both and plan["certifies"] != "loss" and plan["request"]["error"] != "sum"
    return (
        f"no plan of its class has a {plan['certifies']} below {least}"
        f"{' of what a constant can miss' * shares}, which is "
        f"{up_to_digits(100 * gap, 2) if gap > 0 else 0}% less than this plan\u2019s"
    )


def _better(table: pa.Table, facts: Facts) -> str | None:
    plan = facts.manifest["plan"]
    better, prior = plan.get("cells_better_than_constant"), plan.get("prior_miss")
    if better is None:
        return None
    if prior is None or facts.statistic == "sd":
        return f"{better:,} of {table.num_rows:,}"
    return (
        f"{better:,} of {table.num_rows:,}, if cells differ from one constant by "
        f"{facts.amount(float(exact(prior, 'prior')))} on average"
    )


def _losses(losses: dict[str, Any] | None) -> str | None:
    if not losses:
        return None
    names = {
        "max": "largest",
        "p99": "99% lose at most",
        "p90": "90% lose at most",
        "median": "half lose at most",
        "mean": "average",
    }
    parts = [
        f"{names[key]} {up_to_digits(float(exact(losses[key], key)), 4)}"
        for key in names
        if losses.get(key) is not None
    ]
    users, spared = losses.get("users"), losses.get("at_zero")
    many = f"; {users:,} units" if users is not None else ""
    return "\u03b5: " + ", ".join(parts) + many + (f", {spared:,} lose nothing" if spared else "")


def _bounds(bounds: dict[str, Any], facts: Facts) -> str:
    text = f"values are cut to {bounds['lower']} to {bounds['upper']}"
    quantum = bounds.get("quantum")
    unit = f" {facts.value_unit}" if facts.value_unit else ""
    return f"{text}{unit}" + (f", in steps of {quantum}" if quantum else "")


def _grid(grid: dict[str, Any]) -> str:
    if grid.get("columns"):
        return "labels: " + ", ".join(map(str, grid["columns"]))
    text = f"H3 hexagons of resolution {grid.get('resolution')}"
    if grid.get("timeslot"):
        text += f", {grid.get('slot') or 'calendar'} slots of {grid['timeslot']}"
    return text + (f", clock of {grid['timezone']}" if grid.get("timezone") else "")


def _software(software: dict[str, Any] | None) -> str | None:
    return ", ".join(f"{name} {version}" for name, version in (software or {}).items()) or None
