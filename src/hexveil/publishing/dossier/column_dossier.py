"""Values of the dossier of a release of several value columns: what holds of all together."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.publishing.columns.column_texts import describe_losses, describe_targets
from hexveil.publishing.dossier.verified_release import NAME
from hexveil.publishing.dossier.wording import repeated_losses
from hexveil.publishing.markup import clean_texts
from hexveil.publishing.presence.presence_manifest import MODEL
from hexveil.publishing.verification.verify import read_columns
from hexveil.report.manifest_view import format_heading

if TYPE_CHECKING:
    from pathlib import Path


def joint_values(folder: Path) -> dict[str, Any]:
    """Return everything that the template names.

    Raises
    ------
    InputError
        If the folder, or that of a column, is not as it was written.
    """
    manifest = clean_texts(read_columns(folder).manifest)
    unit, loss = manifest["guarantee"]["privacy_unit"], manifest["guarantee"]["epsilon_spent"]
    names = ", ".join(column["column"] for column in manifest["columns"])
    return {
        "manifest": manifest,
        "checksum": hashlib.sha256((folder / NAME).read_bytes()).hexdigest(),
        "unit": unit,
        "heading": format_heading(manifest["statistics"], names),
        "is_private": manifest.get("model") == MODEL,
        "losses": describe_losses(manifest.get("losses")),
        "targets": describe_targets(manifest["columns"]),
        "repeated": repeated_losses(unit, Fraction(loss)),
    }
