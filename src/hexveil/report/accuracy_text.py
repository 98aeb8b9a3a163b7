"""Sentences about the accuracy of a release, from the `accuracy` of its manifest.

The rule of the grades and the estimates behind these numbers: docs/understand/estimates.md. The
sentences themselves: templates/accuracy.txt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.manifest_view import noun, unit_of_statistic, with_unit
from hexveil.report.templates import render_sentence

Statement = Mapping[str, Any]

FormatAmount = Callable[[float, str], str]

GRADES = {"good": "good", "caution": "caution", "cut_off": CUT_OFF, "noise": "noise"}
"""Quality grades by their keys in a manifest."""
GOOD_DEVIATIONS, CAUTION_DEVIATIONS = 1.0, 1.75
"""Largest half width of the interval of a good cell, and of a caution: deviations between cells."""
MEAN_ABS_NORMAL = 0.7979
"""Mean absolute value of a normal variable of deviation 1."""
_TEMPLATE = "accuracy.txt"


def describe_assumption(basis: str) -> str:
    """Return the assumptions of an error estimate.

    Examples
    --------
    >>> describe_assumption("worst case")[:14]
    'No assumption:'
    """
    return render_sentence(_TEMPLATE, "assumption", basis=basis)


def describe_accuracy(
    statements: Sequence[Statement], value_unit: str, amount: FormatAmount
) -> list[str]:
    """Return the accuracy of each statistic, in sentences.

    Parameters
    ----------
    statements : sequence of mapping
        The manifest's `accuracy`.
    value_unit : str
        Unit of measure of the values; "" where not stated.
    amount : callable
        Formats a number with a unit.
    """
    return [_describe(statement, value_unit, amount) for statement in statements]


def describe_one_number(manifest: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each statistic whose map says no more than one number for all cells.

    Bins of a histogram are named together.

    Parameters
    ----------
    manifest : mapping
        Of one value column, under either privacy model; without `accuracy` there is none.
    """
    bins, texts = 0, []
    for statement in manifest.get("accuracy") or ():
        name = statement["statistic"]
        if statement.get("beats_constant") is not False:
            continue
        if name.startswith("histogram_"):
            bins += 1
            continue
        unit = unit_of_statistic(name, manifest["dataset"]["value_unit"])
        error, missed = (
            with_unit(f"{number:.2g}", unit)
            for number in (
                statement["typical_error"], MEAN_ABS_NORMAL * statement["between_cells"]
            )
        )  # fmt: skip
        texts.append(
            render_sentence(
                _TEMPLATE, "one_number", statistic=noun(name), error=error, missed=missed
            )
        )
    if bins:
        texts.append(render_sentence(_TEMPLATE, "one_histogram", bins=bins))
    return texts


def _describe(statement: Statement, value_unit: str, amount: FormatAmount) -> str:
    name = statement["statistic"]
    unit = unit_of_statistic(name, value_unit)

    def formatted(number: float | None) -> str:
        return "" if number is None else amount(number, unit)

    return render_sentence(
        _TEMPLATE,
        "accuracy",
        statistic=noun(name),
        basis=statement["basis"],
        typical_error=formatted(statement["typical_error"]),
        between_cells=formatted(statement["between_cells"] or None),
        alike=statement["between_cells"] == 0,
        graded_by=statement["graded_by"],
        grades={key: f"{count:,}" for key, count in statement["grades"].items()},
        assumption=statement["assumption"],
    )
