"""The dossier of a release: a privacy officer reads, completes and signs it.

Made from a release folder's manifest alone: public facts, no record, no ledger. It states what is
protected from whom, to which degree, on which assumptions, and what stays open. It draws no legal
conclusion; facts that only the controller knows are places to fill in. All sentences stand in
templates/dossier.md and the templates that it includes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.publishing.columns.column_manifest import KIND as COLUMNS
from hexveil.publishing.dossier import (
    column_dossier,
    distribution_dossier,
    presence_dossier,
    release_facts,
)
from hexveil.publishing.dossier.verified_release import NAME, has_field
from hexveil.publishing.dossier.wording import template_values
from hexveil.publishing.markup import document

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.publishing.markup import DocumentSection


def dossier(folder: Path) -> DocumentSection:
    """Return the dossier of a release folder.

    Raises
    ------
    InputError
        If the folder has no manifest of this version, or one that is broken or was changed.
    StorageError
        If the disk fails.
    """
    # A folder without a receipt passes the checks with fields missing that a sentence needs.
    try:
        return _of_kind(folder)
    except LookupError as error:
        raise InputError(
            f"{folder / NAME} lacks a field that the dossier needs ({error}): it was changed. Ask "
            "the publisher for the folder again."
        ) from error


def _of_kind(folder: Path) -> DocumentSection:
    """Return the dossier by the kind of release that the manifest states."""
    if has_field(folder, "kind", COLUMNS):
        return _of_columns(folder)
    private = presence_dossier.find_values(folder)
    if private is not None:
        return document("presence/dossier.md", private)
    distribution = distribution_dossier.distribution_values(folder)
    if distribution is not None:
        return document("dossier.md", distribution)
    # The facts are checked first: nobody signs a text made from a changed manifest.
    return document("dossier.md", template_values(release_facts.read_facts(folder)))


def _of_columns(folder: Path) -> DocumentSection:
    """Return the dossier of several value columns: of the whole, then of each as a section."""
    values = column_dossier.joint_values(folder)
    joint = document("columns/dossier.md", values)
    sections = [
        replace(dossier(folder / column["folder"]), title=f"Value column {column['column']}")
        for column in values["manifest"]["columns"]
    ]
    return replace(joint, sections=(*joint.sections, *sections))
