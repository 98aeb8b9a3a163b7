"""Sentences about the accuracy of a release, and about clipping.

They come from `accuracy` and the privacy steps of its manifest. The rule of the grades and the
estimates behind these numbers: docs/understand/estimates.md; clipping:
docs/understand/clipping-range.md. The sentences: templates/accuracy.txt and templates/clipping.txt.

A manifest is for programs, and English. Its sentences follow from its facts, so those of another
language are made from these again.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from hexveil.report.manifest_view import ManifestView, noun
from hexveil.report.promise_wording import guarantee_sentences
from hexveil.report.templates import in_language, render_sentence

Step = Mapping[str, Any]
Statement = Mapping[str, Any]

CUT_OFF = "cut off"
"""Grade of a cell whose values may lie beyond the range they were clipped to."""
GRADES = {"good": "good", "caution": "caution", "cut_off": CUT_OFF, "noise": "noise"}
"""Quality grades by their keys in a manifest."""
GOOD_DEVIATIONS, CAUTION_DEVIATIONS = 1.0, 1.75
"""Largest half width of the interval of a good cell, and of a caution: deviations between cells."""
MEAN_ABS_NORMAL = 0.7979
"""Mean absolute value of a normal variable of deviation 1."""
_CLIPPING, _TEMPLATE = "clipping.txt", "accuracy.txt"


def get_step(steps: Sequence[Step], name: str) -> Step | None:
    """Return the privacy step of a name; None if there is none."""
    # A manifest has each step at most once: verification checks that.
    return next((step for step in steps if step["step"] == name), None)


def get_strategy(steps: Sequence[Step]) -> str | None:
    """Return how user averages were clipped; None within public bounds.

    "single_stage" under one range, "cell_ranges" with a range per cell, "remembered_ranges" where
    these follow from earlier maps.

    Examples
    --------
    >>> get_strategy([{"step": "cells"}])
    >>> get_strategy([{"step": "clipping_range"}, {"step": "cells"}])
    'single_stage'
    >>> get_strategy([{"step": "pooled_histogram"}, {"step": "first_look"}, {"step": "cells"}])
    'cell_ranges'
    """
    if get_step(steps, "pooled_histogram") is not None:
        return "cell_ranges"
    if "remembered" in (get_step(steps, "cells") or {}):
        return "remembered_ranges"
    return None if get_step(steps, "clipping_range") is None else "single_stage"


def clipping_values(
    manifest: Mapping[str, Any], steps: Sequence[Step], *, squares: bool = True
) -> dict[str, Any]:
    """Return strategy, clipped averages and privacy steps for a template; empty without a range.

    Parameters
    ----------
    manifest : mapping
        Of one value column.
    steps : sequence of mapping
        Its privacy steps.
    squares : bool
        Whether to name the range of second moments too, where there is one.
    """
    strategy, cell_stages = get_strategy(steps) or "", get_step(steps, "cell_stages")
    averages, sentences = "", []
    if strategy:
        amount = ManifestView.from_manifest(manifest, shown="mean").amount
        facts: dict[str, Any] = {"strategy": strategy, "amount": amount}
        by_name = {step["step"]: step for step in steps}
        averages = render_sentence(
            _CLIPPING, "clipped_averages", steps=by_name, squares=squares, **facts
        )
        # A release clipped to public bounds has a single step, which its epsilon describes already.
        sentences = [
            render_sentence(_CLIPPING, "privacy_step", step=step, **facts) for step in steps
        ]
    if cell_stages is not None:
        stages = [
            render_sentence(_CLIPPING, "cell_stage", stage=stage) for stage in cell_stages["stages"]
        ]
        sentences = [render_sentence(_CLIPPING, "cell_mechanism", step=cell_stages), *stages]
    return {"strategy": strategy, "clipped_averages": averages, "privacy_steps": sentences}


def describe_cut_off(statements: Sequence[Step], cells: int) -> list[str]:
    """Return the number of cells cut off by a private range, a text for each statistic.

    Examples
    --------
    >>> describe_cut_off([{"statistic": "mean", "grades": {"cut_off": 3}}], 40)[0][:15]
    'One end unknown'
    """
    return [
        render_sentence(
            _CLIPPING,
            "cut_off",
            statistic=noun(stated["statistic"]),
            count=f"{stated['grades']['cut_off']:,}",
            cells=f"{cells:,}",
        )
        for stated in statements
    ]


def describe_assumption(basis: str) -> str:
    """Return the assumptions of an error estimate.

    Examples
    --------
    >>> describe_assumption("worst case")[:14]
    'No assumption:'
    """
    return render_sentence(_TEMPLATE, "assumption", basis=basis)


def describe_memory() -> str:
    """Describe the use of earlier releases by estimates, for anybody."""
    return render_sentence(_TEMPLATE, "memory")


def describe_earlier_maps(manifest: Mapping[str, Any]) -> str:
    """Describe the same of the numbers of a release; empty where they use no earlier one."""
    remembers = bool(manifest.get("memory", {}).get("releases"))
    return render_sentence(_TEMPLATE, "earlier_maps") if remembers else ""


def describe_accuracy(manifest: Mapping[str, Any]) -> list[str]:
    """Return the accuracy of each statistic, in sentences; bins of a histogram are too many.

    Parameters
    ----------
    manifest : mapping
        Of one value column.
    """
    texts = []
    for statement in manifest.get("accuracy", ()):
        name, error = statement["statistic"], statement["typical_error"]
        if name.startswith("histogram_"):
            continue
        view = ManifestView.from_manifest(manifest, shown=name)
        between = statement["between_cells"]
        facts: dict[str, Any] = {
            **{key: statement[key] for key in ("basis", "graded_by", "assumption")},
            "typical_error": "" if error is None else view.amount_up(error),
            "between_cells": view.amount(between) if between else "",
            "grades": {key: f"{count:,}" for key, count in statement["grades"].items()},
            "alike": between == 0,
        }
        texts.append(render_sentence(_TEMPLATE, "accuracy", statistic=noun(name), **facts))
    return texts


def describe_one_number(manifest: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each statistic with a map no better than one number for all cells.

    Bins of a histogram are named together.

    Parameters
    ----------
    manifest : mapping
        Of one value column, under either privacy model; without `accuracy` there is none.
    """
    of_map = [
        statement
        for statement in manifest.get("accuracy") or ()
        if statement.get("beats_constant") is False
    ]
    texts = [
        render_sentence(
            _TEMPLATE,
            "one_number",
            statistic=noun(name),
            error=view.amount_up(statement["typical_error"]),
            missed=view.amount(MEAN_ABS_NORMAL * statement["between_cells"]),
        )
        for statement in of_map
        if not (name := statement["statistic"]).startswith("histogram_")
        for view in [ManifestView.from_manifest(manifest, shown=name)]
    ]
    if bins := len(of_map) - len(texts):
        texts.append(render_sentence(_TEMPLATE, "one_histogram", bins=bins))
    return texts


def translate_statements(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest with its sentences on guarantee and accuracy in the language it states."""
    if manifest.get("language", "en") == "en":
        return manifest
    stated = manifest["guarantee"]
    with in_language({}):
        english = describe_memory()
    with in_language(manifest):
        words = guarantee_sentences(
            stated["privacy_unit"],
            Fraction(stated["epsilon_spent"]),
            dropped=(manifest.get("selection") or {}).get("drop_values", "none"),
            protect=stated["protect"],
            delta=Fraction(stated.get("delta", 0)),
            together=manifest.get("columns_together"),
        )
        translated = {**manifest, "guarantee": {**stated, **words}}
        if "accuracy" in manifest:
            translated["accuracy"] = [_translated(entry, english) for entry in manifest["accuracy"]]
        return translated


def _translated(statement: Statement, english: str) -> Statement:
    if "assumption" not in statement:
        return statement
    memory = f" {describe_memory()}" * statement["assumption"].endswith(english)
    return {**statement, "assumption": describe_assumption(statement["basis"]) + memory}
