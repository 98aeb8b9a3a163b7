"""Values of the dossier of a release with quantiles, shares or histograms.

As under private presence the whole folder is verified first: a privacy officer signs what a
recipient can check. The sentences are those of every dossier under public presence.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.publishing.distribution.distribution_manifest import KIND
from hexveil.publishing.dossier.verified_release import VerifiedRelease, has_field
from hexveil.publishing.dossier.wording import LOSSES, repeated_losses
from hexveil.report import accuracy_text, clipping_text
from hexveil.report.manifest_view import format_heading, format_rounded_up, spoken_value, with_unit
from hexveil.report.origin import describe_manifest
from hexveil.report.promise_wording import delta_in_words, exact_counts, in_common

if TYPE_CHECKING:
    from pathlib import Path


def distribution_values(folder: Path) -> dict[str, Any] | None:
    """Return everything that the template names; None for a release of another kind.

    Raises
    ------
    InputError
        If the folder is not as it was written.
    """
    if not has_field(folder, "kind", KIND):
        return None
    release = VerifiedRelease.read(folder)
    manifest = release.manifest
    guarantee, dataset = manifest["guarantee"], manifest["dataset"]
    loss = Fraction(guarantee["epsilon_spent"])
    delta = Fraction(guarantee.get("delta", 0))
    repeated = repeated_losses(guarantee["privacy_unit"], loss, delta)
    bounds = manifest["bounds"]
    upper = with_unit(bounds["upper"], dataset["value_unit"])
    return {
        # A range of the means is one of their own steps, which the steps here hold together.
        **clipping_text.template_values([], str),
        "manifest": manifest,
        "checksum": release.checksum,
        "has_receipt": True,
        "unit": guarantee["privacy_unit"],
        "origin": describe_manifest(manifest),
        "heading": format_heading(manifest["plan"]["statistics"], spoken_value(dataset)),
        "nothing_read": False,
        "promise": guarantee["promise"],
        "epsilon": decimal_text(loss),
        "delta": decimal_text(delta) if delta else "",
        "meaning_of_delta": delta_in_words(manifest),
        "exact_counts": exact_counts(),
        "in_common": in_common(),
        "repeated": repeated,
        "longest": repeated[2],
        "losses": {key: format_rounded_up(manifest["losses"][key], 4) for key in LOSSES},
        "bounds": bounds | {"upper": upper},
        "errors": [],
        "accuracy": _accuracy(manifest),
        "posterior": True,
        "staged": False,
        "has_unproven_bias": True,
        "largest_bias": "",
        "cells_left_out": manifest["rules"].get("cells left out by selection", 0),
        "cut_off": [],
        "privacy_steps": [
            f"{one['releases']}: epsilon {one['epsilon']}" for one in manifest["plan"]["components"]
        ],
    }


def _accuracy(manifest: dict[str, Any]) -> list[str]:
    """Return sentences about the accuracy; bins of a histogram are in manifest.json."""
    stated = [one for one in manifest["accuracy"] if not one["statistic"].startswith("histogram_")]
    unit = manifest["dataset"]["value_unit"]
    return accuracy_text.describe_accuracy(stated, unit, lambda n, one: with_unit(f"{n:.3g}", one))
