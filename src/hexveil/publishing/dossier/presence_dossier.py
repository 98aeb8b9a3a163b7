"""Values of the dossier of a release with private presence.

The whole folder is verified first, not the manifest alone: a privacy officer signs what a recipient
can check.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.publishing.dossier.verified_release import VerifiedRelease, has_field
from hexveil.publishing.dossier.wording import repeated_losses
from hexveil.publishing.presence.presence_manifest import MODEL
from hexveil.publishing.verification.presence_checks import delta_of
from hexveil.report.manifest_view import format_heading, spoken_value
from hexveil.report.origin import describe_manifest
from hexveil.report.promise_wording import delta_in_words, in_common

if TYPE_CHECKING:
    from pathlib import Path


def find_values(folder: Path) -> dict[str, Any] | None:
    """Return everything that the template names; None for a release of another model.

    Raises
    ------
    InputError
        If the folder is not as it was written.
    """
    if not has_field(folder, "model", MODEL):
        return None
    release = VerifiedRelease.read(folder)
    manifest = release.manifest
    unit = manifest["guarantee"]["privacy_unit"]
    loss, delta = Fraction(manifest["guarantee"]["epsilon_spent"]), delta_of(manifest)
    repeated = repeated_losses(unit, loss, delta)
    return {
        "manifest": manifest,
        "checksum": release.checksum,
        "unit": unit,
        "origin": describe_manifest(manifest),
        "heading": _heading(manifest),
        "promise": manifest["guarantee"]["promise"],
        "epsilon": decimal_text(loss),
        "delta": decimal_text(delta) if delta else "",
        "meaning_of_delta": delta_in_words(manifest),
        "repeated": repeated,
        "longest": repeated[2],
        "in_common": in_common(),
        "open_cells": sum(release.table["is_open"].to_pylist()),
    }


def _heading(manifest: dict[str, Any]) -> str:
    dataset, statistics = manifest["dataset"], manifest["plan"]["statistics"]
    unit = "" if statistics == ["users"] else dataset["value_unit"]
    heading = format_heading(statistics, spoken_value(dataset))
    return f"{heading} ({unit})" if unit else heading
