"""Values of the dossier of a release with private presence.

The whole folder is verified first, not the manifest alone: a privacy officer signs what a recipient
can check.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.publishing.dossier.wording import repeated_losses
from hexveil.publishing.markup import clean
from hexveil.publishing.presence.presence_manifest import MODEL
from hexveil.publishing.verification.verify import read_release
from hexveil.report.manifest_view import format_heading
from hexveil.report.promise import in_common

if TYPE_CHECKING:
    from pathlib import Path

NAME = "manifest.json"


def find_values(folder: Path) -> dict[str, Any] | None:
    """Return everything that the template names; None for a release of another model.

    Raises
    ------
    InputError
        If the folder is not as it was written.
    """
    if not _is_presence(folder / NAME):
        return None
    manifest, table = read_release(folder)
    if manifest["ledger"] is None:
        raise InputError(f"{folder / NAME} names no entry of a ledger, so nothing was booked.")
    manifest = _cleaned(manifest)
    unit = manifest["guarantee"]["privacy_unit"]
    loss = Fraction(manifest["guarantee"]["epsilon_spent"])
    repeated = repeated_losses(unit, loss)
    return {
        "manifest": manifest,
        "checksum": hashlib.sha256((folder / NAME).read_bytes()).hexdigest(),
        "unit": unit,
        "heading": _heading(manifest),
        "promise": manifest["guarantee"]["promise"],
        "epsilon": decimal_text(loss),
        "repeated": repeated,
        "longest": repeated[2],
        "in_common": in_common(),
        "open_cells": sum(table["is_open"].to_pylist()),
    }


def _is_presence(path: Path) -> bool:
    """Return whether a manifest states this model; other checks come afterwards."""
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("model") == MODEL


def _heading(manifest: dict[str, Any]) -> str:
    dataset, statistics = manifest["dataset"], manifest["plan"]["statistics"]
    unit = "" if statistics == ["users"] else dataset["value_unit"]
    heading = format_heading(statistics, dataset["value"] or "value")
    return f"{heading} ({unit})" if unit else heading


def _cleaned(value: Any) -> Any:  # noqa: ANN401  JSON of any kind
    """Return JSON with every text cleaned for a document."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    return value
