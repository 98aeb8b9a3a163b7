"""The dossier of a release: a privacy officer reads, completes and signs it.

Made from a release folder alone: public facts, no record, no ledger. A privacy officer signs what a
recipient can check, so the whole folder is verified first. The dossier states what is protected
from whom, to which degree, on which assumptions, and what stays open. It draws no legal conclusion;
facts that only the controller knows are places to fill in. All sentences stand in
templates/moments/dossier.md, the templates that it includes, templates/presence/dossier.md and
templates/columns/dossier.md.
"""

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
from hexveil.report.manifest_view import ManifestView, format_heading, spoken_value
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import (
    PURE,
    delta_in_words,
    factor_words,
    limits_of_promise,
    probability_factor,
)

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
    check = read_folder(folder)
    checksum = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    manifest = clean_texts(check.manifest)
    if manifest["ledger"] is None and Fraction(manifest["guarantee"]["epsilon_spent"]):
        raise InputError(f"{folder / NAME} names no entry of a ledger, so nothing was booked.")
    stated = statements(manifest)
    tables = dict(zip(stated, check.tables.values(), strict=True))
    dossiers = {name: describe(column, tables[name], checksum) for name, column in stated.items()}
    if len(dossiers) == 1:
        return next(iter(dossiers.values()))
    sections = [replace(entry, title=f"Value column {name}") for name, entry in dossiers.items()]
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
    if is_private(stated):
        specific: Json = {"open_cells": sum(table["is_open"].to_pylist())}
    else:
        specific = _public_presence(stated)
    return document(kind_of(stated).dossier, _common(stated, table, checksum) | specific)


def _of_whole(whole: Json, checksum: str) -> DocumentSection:
    """Return the dossier of several value columns together."""
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
        "delta": decimal_text(delta) if delta else "",
        "meaning_of_delta": delta_in_words(manifest),
        "repeated": repeated,
        # A month, or a quarter of a year of weeks: the span that the public notice names.
        "longest": repeated[2] if loss else {},
        "nothing_read": not loss,
        "earlier_maps": accuracy_text.describe_earlier_maps(manifest),
        **limits_of_promise(),
    }


def _public_presence(manifest: Json) -> Json:
    """Return the values of public presence: counts, errors, and steps that read values."""
    plan = manifest["plan"]
    noised = [(cell, entry) for cell in manifest["cells"] for entry in cell.get("noised", ())]
    # A range of means beside a distribution is one of their own steps, held together below.
    steps = plan.get("privacy_steps", [])
    staged = accuracy_text.get_step(steps, "cell_stages") is not None
    is_distribution = "components" in plan
    values = accuracy_text.clipping_values(manifest, steps)
    biases = [entry["bias"] for _, entry in noised if entry["statistic"] == "mean"]
    return values | {
        "accuracy": accuracy_text.describe_accuracy(manifest),
        "posterior": is_distribution
        or any(statement["basis"] == "posterior" for statement in manifest["accuracy"]),
        "staged": staged,
        # No bias proven below the width of a cell's bounds.
        "has_unproven_bias": is_distribution
        or (
            staged and any(entry["bias"] >= cell["upper"] - cell["lower"] for cell, entry in noised)
        ),
        "largest_bias": ManifestView.from_manifest(manifest, shown="mean").amount_up(
            max(biases, default=0.0)
        ),
        "cut_off": accuracy_text.describe_cut_off(
            manifest["accuracy"] if values["strategy"] else (), len(manifest["cells"])
        ),
    }


def repeated_losses(unit: str, loss: Fraction, delta: Fraction = PURE) -> list[dict[str, Any]]:
    """Return the sums of a loss over several releases, days or weeks of a unit's owner.

    At one δ squares of μ add up in place of losses.
    """
    rows = []
    # Constants lose nothing, however often: one row says it.
    for times in (1, *(SPANS[unit] if loss else ())):
        total = times * loss
        if delta and times > 1:
            total = Fraction(square_epsilon(times * calibrated_square(loss, delta), delta))
        factor = probability_factor(total)
        row = {"times": times, "epsilon": decimal_text(total), "factor": factor_words(factor)}
        certainty = insider_certainty(factor, delta if loss else PURE)
        rows.append(row | {"certainty": certainty})
    return rows


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
