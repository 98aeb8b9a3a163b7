"""Values of the dossier's template, with their numbers formatted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.base.rational import decimal_text
from hexveil.report import accuracy_text, clipping_text
from hexveil.report.manifest_view import (
    format_heading,
    format_rounded_up,
    noun,
    squared,
    with_unit,
)
from hexveil.report.origin import describe_manifest
from hexveil.report.promise_wording import (
    PURE,
    delta_in_words,
    exact_counts,
    factor_words,
    in_common,
    probability_factor,
    promise,
)

if TYPE_CHECKING:
    from hexveil.publishing.dossier.release_facts import ReleaseFacts

SPANS = {"user": (7, 30, 365), "user-day": (7, 30, 365), "user-week": (4, 13, 52)}
"""Numbers of releases, days or weeks of a unit's owner, for the table of losses."""
LOSSES = ("max", "p99", "p90", "median", "mean")
CERTAIN = 1000
"""Factor from which on an insider counts as certain."""


def template_values(facts: ReleaseFacts) -> dict[str, Any]:
    """Return everything that the dossier's template names."""
    manifest, loss = facts.manifest, facts.loss
    dataset = manifest["dataset"]
    delta = Fraction(manifest["guarantee"].get("delta", 0))
    repeated = repeated_losses(facts.unit, loss, delta)
    return {
        "manifest": manifest,
        "checksum": facts.checksum,
        "has_receipt": facts.has_receipt,
        "unit": facts.unit,
        "origin": describe_manifest(manifest),
        "heading": format_heading(manifest["plan"]["statistics"], dataset["value"] or "value"),
        "nothing_read": not loss,
        "promise": promise(facts.unit, loss, delta=delta),
        "delta": decimal_text(delta) if delta else "",
        "meaning_of_delta": delta_in_words(manifest),
        "epsilon": decimal_text(loss),
        "exact_counts": exact_counts(),
        "in_common": in_common(),
        "repeated": repeated,
        # A month, or a quarter of a year of weeks: the span that the public notice names.
        "longest": repeated[2] if loss else {},
        "losses": {key: format_rounded_up(manifest["losses"][key], 4) for key in LOSSES},
        "bounds": manifest["bounds"]
        | {"upper": with_unit(manifest["bounds"]["upper"], dataset["value_unit"])},
        "errors": planning_errors(facts),
        "accuracy": accuracy_text.describe_accuracy(
            manifest["accuracy"], dataset["value_unit"], lambda n, unit: with_unit(f"{n:.3g}", unit)
        ),
        "posterior": any(one["basis"] == "posterior" for one in manifest["accuracy"]),
        "staged": _has_cell_stages(manifest),
        "has_unproven_bias": _has_unproven_bias(manifest),
        "largest_bias": with_unit(format_rounded_up(facts.largest_bias), dataset["value_unit"]),
        "cells_left_out": manifest["rules"].get("cells left out by selection", 0),
    } | _clipping(facts)


def _clipping(facts: ReleaseFacts) -> dict[str, Any]:
    """Return the strategy, the privacy steps and the cells cut off, in words."""
    manifest = facts.manifest

    def amount(number: float) -> str:
        return with_unit(f"{number:.6g}", manifest["dataset"]["value_unit"])

    counts = clipping_text.describe_cut_off(manifest["cut_off"], len(manifest["cells"]))
    steps = manifest["plan"]["privacy_steps"]
    return clipping_text.template_values(steps, amount) | {"cut_off": counts}


def repeated_losses(unit: str, loss: Fraction, delta: Fraction = PURE) -> list[dict[str, Any]]:
    """Return the sums of a loss over several releases, days or weeks of a unit's owner.

    At one δ squares of μ add up in place of losses.
    """
    if delta and loss:
        return [_composed(times, loss, delta) for times in (1, *SPANS[unit])]
    # Constants lose nothing, however often: one row says it.
    return [losses_at(times, times * loss) for times in (1, *SPANS[unit]) if times == 1 or loss]


def _composed(times: int, loss: Fraction, delta: Fraction) -> dict[str, Any]:
    """Return the loss of so many releases at one δ."""
    composed = loss
    if times > 1:
        exact = Fraction(square_epsilon(times * calibrated_square(loss, delta), delta))
        # Four digits, rounded up, as people read them.
        composed = Fraction(math.ceil(exact * 1000), 1000)
    return losses_at(times, composed, delta)


def losses_at(times: int, loss: Fraction, delta: Fraction = PURE) -> dict[str, Any]:
    """Return the epsilon, factor and certainty of the loss of several releases together."""
    factor = probability_factor(loss)
    return {
        "times": times,
        "epsilon": decimal_text(loss),
        "factor": factor_words(factor),
        "certainty": insider_certainty(factor, delta),
    }


def insider_certainty(factor: float, delta: Fraction = PURE) -> str:
    """Return the certainty in percent of an insider who was undecided before; "" if near 100.

    This insider knows the values of all other units: then the odds of two possibilities for one
    unit's values change by the same factor as the probabilities of outcomes. With a δ it is the
    chance that the insider guesses right, on average over outcomes.

    Examples
    --------
    >>> insider_certainty(1.0), insider_certainty(2.718281828459046), insider_certainty(1e9)
    ('50', '73.2', '')
    """
    if factor >= CERTAIN:
        return ""
    share = (Fraction(factor) + delta) / (1 + Fraction(factor))
    # Rounded up, because it limits what an insider can learn.
    return decimal_text(Fraction(math.ceil(share * 1000), 10))


def planning_errors(facts: ReleaseFacts) -> list[dict[str, Any]]:
    """Return the planning error of each noised statistic; one of all where they were added up."""
    plan = facts.manifest["plan"]
    names = [entry["statistic"] for entry in facts.manifest["cells"][0]["noised"]]
    mean, largest = plan["mean_error"], plan["max_error"]
    if isinstance(mean, dict) and isinstance(largest, dict):
        return [_error(name, mean[name], largest[name], facts) for name in sorted(mean)]
    if isinstance(mean, dict) or isinstance(largest, dict) or len(names) > 1:
        # The sum of errors in different units has none.
        sums = [
            max(error.values()) if isinstance(error, dict) else error for error in (mean, largest)
        ]
        rounded = [format_rounded_up(number) for number in sums]
        return [{"statistic": "", "mean": rounded[0], "max": rounded[1]}]
    return [_error(names[0], mean, largest, facts)]


def _has_cell_stages(manifest: dict[str, Any]) -> bool:
    """Return whether a mechanism of one cell published every cell, with predicted errors."""
    return clipping_text.get_step(manifest["plan"]["privacy_steps"], "cell_stages") is not None


def _has_unproven_bias(manifest: dict[str, Any]) -> bool:
    """Return whether a cell's mechanism has no bias proven below the width of its bounds."""
    return _has_cell_stages(manifest) and any(
        entry["bias"] >= cell["upper"] - cell["lower"]
        for cell in manifest["cells"]
        for entry in cell["noised"]
    )


def _error(name: str, mean: float, largest: float, facts: ReleaseFacts) -> dict[str, Any]:
    """Return one planning error, rounded up, with its unit of measure."""
    unit = facts.manifest["dataset"]["value_unit"]
    unit = squared(unit) if name == "variance" else unit
    strategy = clipping_text.get_strategy(facts.manifest["plan"]["privacy_steps"])
    return {
        "statistic": noun(name),
        # Under a private range and in stages of cells errors are predicted; else they are bounds.
        "predicted": strategy is not None or _has_cell_stages(facts.manifest),
        "mean": with_unit(format_rounded_up(mean), unit),
        "max": with_unit(format_rounded_up(largest), unit),
    }
