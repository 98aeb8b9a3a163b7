"""The dossier of a release: a privacy officer reads, completes and signs it.

Made from a release folder alone: public facts, no record, no ledger. A privacy officer signs what a
recipient can check, so the whole folder is verified first. The dossier states what is protected
from whom, to which degree, on which assumptions, and what stays open. It draws no legal conclusion;
facts that only the controller knows are places to fill in. All sentences stand in
templates/moments/dossier.md, the templates that it includes, templates/presence/dossier.md and
templates/columns/dossier.md.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.publishing.components import statements, statements_of_whole
from hexveil.publishing.kinds.guarantee import is_private
from hexveil.publishing.markup import DocumentSection, clean_texts, document
from hexveil.publishing.part_kinds import kind_of
from hexveil.publishing.verification.verify import read_folder
from hexveil.report import accuracy_text
from hexveil.report.manifest_view import format_heading, noun, spoken_value, unit_of_statistic
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import (
    PURE,
    delta_in_words,
    factor_words,
    limits_of_promise,
    probability_factor,
)
from hexveil.report.templates import with_unit

Json = dict[str, Any]

NAME = "manifest.json"
SPANS = {"user": (7, 30, 365), "user-day": (7, 30, 365), "user-week": (4, 13, 52)}
"""Numbers of releases, days or weeks of a unit's owner, for the table of losses."""
CERTAIN = 1000
"""Factor from which on an insider counts as certain."""


def dossier(folder: Path) -> DocumentSection:
    """Return the dossier of a release folder.

    Raises
    ------
    InputError
        If there is no release in the folder, it is not as it was written, or it costs something
        and nothing was booked.
    StorageError
        If the disk fails.
    """
    check, checksum = read_folder(folder), _checksum(folder)
    manifest = clean_texts(check.manifest)
    if manifest["ledger"] is None and Fraction(manifest["guarantee"]["epsilon_spent"]):
        raise InputError(f"{folder / NAME} names no entry of a ledger, so nothing was booked.")
    stated = statements(manifest)
    tables = dict(zip(stated, check.tables.values(), strict=True))
    parts = {name: describe(own, tables[name], checksum) for name, own in stated.items()}
    if len(parts) == 1:
        return next(iter(parts.values()))
    sections = [replace(own, title=f"Value column {name}") for name, own in parts.items()]
    joint = _of_whole(statements_of_whole(manifest), checksum)
    return replace(joint, sections=(*joint.sections, *sections))


def describe(stated: Json, table: pa.Table, checksum: str) -> DocumentSection:
    """Return the dossier of one release, of several value columns that of one.

    Parameters
    ----------
    stated : dict
        Statements of the value column, with texts that show as they are.
    table : pyarrow.Table
    checksum : str
        SHA-256 of the manifest's file.
    """
    common = _common(stated, table, checksum)
    if is_private(stated):
        specific = {"open_cells": sum(table["is_open"].to_pylist())}
    else:
        own = _of_moments if "cut_off" in stated else _of_distribution
        specific = _public_presence(stated) | own(stated)
    return document(kind_of(stated).dossier, common | specific)


def _of_whole(whole: Json, checksum: str) -> DocumentSection:
    """Return the dossier of what holds of several value columns together."""
    unit, loss = whole["guarantee"]["privacy_unit"], whole["guarantee"]["epsilon_spent"]
    return document(
        "columns/dossier.md",
        {
            "manifest": whole,
            "checksum": checksum,
            "unit": unit,
            "heading": whole["heading"],
            "is_private": is_private(whole),
            "repeated": repeated_losses(unit, Fraction(loss)),
        },
    )


def _checksum(folder: Path) -> str:
    """Return the SHA-256 of a folder's manifest."""
    return hashlib.sha256((folder / NAME).read_bytes()).hexdigest()


# ---- values of the templates ----


def _common(manifest: Json, table: pa.Table, checksum: str) -> Json:
    """Return the values of every release: its promise, also over time, and its data set."""
    guarantee, dataset = manifest["guarantee"], manifest["dataset"]
    statistics = manifest["plan"]["statistics"]
    unit, loss = guarantee["privacy_unit"], Fraction(guarantee["epsilon_spent"])
    delta = Fraction(guarantee.get("delta", 0))
    repeated = repeated_losses(unit, loss, delta)
    value_unit = "" if statistics == ["users"] else dataset["value_unit"]
    heading = format_heading(statistics, spoken_value(dataset))
    return {
        "manifest": manifest,
        "checksum": checksum,
        "unit": unit,
        "origin": describe_origin(table, manifest),
        "published": f"{heading} ({value_unit})" if value_unit else heading,
        "promise": guarantee["promise"],
        "epsilon": decimal_text(loss),
        "delta": decimal_text(delta) if delta else "",
        "meaning_of_delta": delta_in_words(manifest),
        "repeated": repeated,
        # A month, or a quarter of a year of weeks: the span that the public notice names.
        "longest": repeated[2] if loss else {},
        "nothing_read": not loss,
        **limits_of_promise(),
    }


def _public_presence(manifest: Json) -> Json:
    """Return the values of every release under public presence."""
    unit = manifest["dataset"]["value_unit"]
    return {
        "bounds": manifest["bounds"] | {"upper": with_unit(manifest["bounds"]["upper"], unit)},
        "accuracy": accuracy_text.describe_accuracy(
            manifest["accuracy"], unit, lambda n, one: with_unit(f"{n:.3g}", one)
        ),
    }


def _of_distribution(manifest: Json) -> Json:
    """Return the values of quantiles, shares and histograms, which state no planning error."""
    return {
        # A range of the means is one of their own steps, which the steps here hold together.
        **accuracy_text.clipping_values([], str),
        "errors": [],
        "posterior": True,
        "staged": False,
        "has_unproven_bias": True,
        "largest_bias": 0.0,
        "cut_off": [],
        "privacy_steps": [
            f"{one['releases']}: epsilon {one['epsilon']}" for one in manifest["plan"]["components"]
        ],
    }


def _of_moments(manifest: Json) -> Json:
    """Return the values of means and variances: errors, biases, the strategy and its steps."""
    unit, steps = manifest["dataset"]["value_unit"], manifest["plan"]["privacy_steps"]
    statistics = [statistic for cell in manifest["cells"] for statistic in cell["noised"]]
    biases = [statistic["bias"] for statistic in statistics if statistic["statistic"] == "mean"]
    return accuracy_text.clipping_values(steps, lambda number: with_unit(f"{number:.6g}", unit)) | {
        "errors": _planning_errors(manifest),
        "posterior": any(one["basis"] == "posterior" for one in manifest["accuracy"]),
        "staged": _has_cell_stages(manifest),
        "has_unproven_bias": _has_unproven_bias(manifest),
        "largest_bias": max(biases, default=0.0),
        "cut_off": accuracy_text.describe_cut_off(manifest["cut_off"], len(manifest["cells"])),
    }


def repeated_losses(unit: str, loss: Fraction, delta: Fraction = PURE) -> list[dict[str, Any]]:
    """Return the sums of a loss over several releases, days or weeks of a unit's owner.

    At one δ squares of μ add up in place of losses.
    """
    if delta and loss:
        return [_composed(times, loss, delta) for times in (1, *SPANS[unit])]
    # Constants lose nothing, however often: one row says it.
    return [_losses_at(times, times * loss) for times in (1, *SPANS[unit]) if times == 1 or loss]


def _composed(times: int, loss: Fraction, delta: Fraction) -> dict[str, Any]:
    """Return the loss of so many releases at one δ."""
    composed = loss
    if times > 1:
        exact = Fraction(square_epsilon(times * calibrated_square(loss, delta), delta))
        # Four digits, rounded up, as people read them.
        composed = Fraction(math.ceil(exact * 1000), 1000)
    return _losses_at(times, composed, delta)


def _losses_at(times: int, loss: Fraction, delta: Fraction = PURE) -> dict[str, Any]:
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


def _planning_errors(manifest: Json) -> list[dict[str, Any]]:
    """Return the planning error of each noised statistic."""
    names = sorted({entry["statistic"] for entry in manifest["cells"][0]["noised"]})
    both = {key: manifest["plan"][f"{key}_error"] for key in ("mean", "max")}
    strategy = accuracy_text.get_strategy(manifest["plan"]["privacy_steps"])
    return [
        {
            "statistic": noun(name),
            "unit": unit_of_statistic(name, manifest["dataset"]["value_unit"]),
            # Under a private range and in stages of cells errors are predicted; else bounds.
            "predicted": strategy is not None or _has_cell_stages(manifest),
            **{k: error[name] if isinstance(error, dict) else error for k, error in both.items()},
        }
        for name in names
    ]


def _has_cell_stages(manifest: Json) -> bool:
    """Return whether a mechanism of one cell published every cell, with predicted errors."""
    return accuracy_text.get_step(manifest["plan"]["privacy_steps"], "cell_stages") is not None


def _has_unproven_bias(manifest: Json) -> bool:
    """Return whether a cell's mechanism has no bias proven below the width of its bounds."""
    return _has_cell_stages(manifest) and any(
        entry["bias"] >= cell["upper"] - cell["lower"]
        for cell in manifest["cells"]
        for entry in cell["noised"]
    )
