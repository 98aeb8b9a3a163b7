"""Description of a release for data portals: one set of facts for every standard.

Made from the released table's public columns and the manifest; no released number enters it, so it
is the same whatever the values were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.model.cells import DAY, slot_seconds
from hexveil.publishing.archive.folder_names import folder_name
from hexveil.publishing.catalogue.coverage import Coverage, find_coverage
from hexveil.publishing.catalogue.folder_files import DataFile, listed_files
from hexveil.records.sources.versions import NOT_DECLARED
from hexveil.report.manifest_view import common_unit, format_heading, spoken_value
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

_TEMPLATE = "catalogue.txt"
_SHORT = 16


@dataclass(frozen=True)
class ColumnDescription:
    """A column of the released table.

    Attributes
    ----------
    name, text, unit : str
        `unit` is "" where there is none.
    kind : str
        "string", "integer", "number", "boolean", "time" (of a pooled slot), "datetime" (local) or
        "instant".
    optional : bool
        Whether a cell may have no number: closed cells of a map with private presence.
    """

    name: str
    text: str
    unit: str
    kind: str
    optional: bool = False


@dataclass(frozen=True)
class PrivacyStatement:
    """The promise of a release, for programs.

    Attributes
    ----------
    model : str
        The name of the guarantee.
    epsilon : str
        Decimal text: the largest loss of a privacy unit, rounded up.
    unit, promise, neighbours, not_protected : str
    assumptions : tuple of str
    delta : str
        Decimal text; "" of a pure promise.
    """

    model: str
    epsilon: str
    unit: str
    promise: str
    neighbours: str
    not_protected: str
    assumptions: tuple[str, ...]
    delta: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "model": self.model,
            "epsilon": self.epsilon,
            **stated_facts({"delta": self.delta}),
            "privacy_unit": self.unit,
            "promise": self.promise,
            "neighbours": self.neighbours,
            "assumptions": list(self.assumptions),
            "not_protected": self.not_protected,
        }

    def in_words(self) -> str:
        """Return it as text."""
        facts = {name: fact for name, fact in vars(self).items() if name != "model"}
        return render_sentence(_TEMPLATE, "privacy", **facts)


@dataclass(frozen=True)
class ReleaseDescription:
    """Facts that describe a release to portals.

    Attributes
    ----------
    identifier : str
        Fingerprint of the public request.
    name : str
        Lower-case ASCII, unique for the release.
    title, text : str
    version : str
        Of the records, as declared; "" if not.
    rows : int
        Number of cells.
    timeslot : str
        Length of a slot as an ISO 8601 duration; "" without slots.
    columns : tuple of ColumnDescription
    privacy : PrivacyStatement
    coverage : Coverage
    files : tuple of DataFile
    stated : dict
        Facts that the holder states; see `Catalogue.stated`.
    """

    identifier: str
    name: str
    title: str
    text: str
    version: str
    rows: int
    timeslot: str
    columns: tuple[ColumnDescription, ...]
    privacy: PrivacyStatement
    coverage: Coverage
    files: tuple[DataFile, ...]
    stated: dict[str, Any]

    @property
    def language(self) -> str:
        """Language of title and text."""
        return str(self.stated.get("language", "en"))

    @property
    def license_url(self) -> str | None:
        """URL of the licence; None where none is stated."""
        stated = self.stated.get("license")
        if stated is None or "://" in stated:
            return stated
        return f"https://spdx.org/licenses/{stated}"

    @property
    def contact_page(self) -> str:
        """URL of the contact page; "" where there is none."""
        contact = str(self.stated.get("contact", ""))
        return contact if "://" in contact else ""

    @property
    def email(self) -> str:
        """Address of the contact; "" where there is none."""
        return "" if self.contact_page else str(self.stated.get("contact", ""))


def stated_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that are known: a description leaves out the others."""
    return {name: fact for name, fact in facts.items() if fact}


def instant_text(instant: datetime) -> str:
    """Return an instant of UTC as ISO 8601."""
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def describe_release(
    table: pa.Table, manifest: dict[str, Any], names: frozenset[str]
) -> ReleaseDescription:
    """Return the description of a release.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    manifest : dict
    names : frozenset of str
        Files of the folder.
    """
    dataset, grid, stated = manifest["dataset"], manifest["grid"], manifest.get("catalogue", {})
    heading = format_heading(manifest["plan"]["statistics"], spoken_value(dataset))
    sentence = {
        "heading": heading,
        # Numbers of units, and shares of records, have no unit of measure.
        "value_unit": common_unit(manifest["plan"]["statistics"], dataset["value_unit"]),
        "dataset": dataset["name"],
        "grid": grid,
        "cells": table.num_rows,
    }
    version = dataset["version"] or ""
    return ReleaseDescription(
        identifier=manifest["request"],
        name=f"{folder_name(dataset['name'])}-{manifest['request'][:_SHORT]}",
        title=stated.get("title")
        or manifest.get("title")
        or render_sentence(_TEMPLATE, "title", **sentence),
        text=stated.get("description")
        or render_sentence(
            _TEMPLATE,
            "description",
            promise=manifest["guarantee"]["promise"],
            subtitle=manifest.get("subtitle", ""),
            **sentence,
        ),
        version="" if version == NOT_DECLARED else version,
        rows=table.num_rows,
        timeslot=_duration(grid.get("timeslot")),
        columns=tuple(
            _column(field, pooled=grid.get("slot") == "pooled", model=manifest.get("model", ""))
            for field in table.schema
        ),
        privacy=_privacy(manifest["guarantee"]),
        coverage=find_coverage(table, manifest),
        files=listed_files(names),
        stated=stated,
    )


def _privacy(guarantee: dict[str, Any]) -> PrivacyStatement:
    kind = "(epsilon, delta)" if "delta" in guarantee else "pure epsilon"
    return PrivacyStatement(
        model=f"{kind}-differential privacy",
        epsilon=guarantee["epsilon_spent"],
        delta=guarantee.get("delta", ""),
        unit=guarantee["privacy_unit"],
        assumptions=tuple(guarantee["assumptions"]),
        **{name: guarantee[name] for name in ("promise", "neighbours", "not_protected")},
    )


def _column(field: pa.Field, *, pooled: bool, model: str) -> ColumnDescription:
    metadata, kind = field.metadata or {}, _kind(field, pooled=pooled)
    return ColumnDescription(
        field.name,
        metadata.get(b"description", b"").decode(),
        metadata.get(b"unit", b"").decode(),
        kind,
        optional=model == "presence" and kind == "number",
    )


def _kind(field: pa.Field, *, pooled: bool) -> str:
    """Return the kind of a column: by its name where Arrow has text, else by its type."""
    if field.name in ("slot", "slot_end"):
        return "time" if pooled else "datetime"
    if field.name == "starts_at_utc":
        return "instant"
    kinds = {"int64": "integer", "double": "number", "bool": "boolean"}
    return kinds.get(str(field.type), "string")


def _duration(timeslot: str | None) -> str:
    """Return a timeslot as an ISO 8601 duration.

    Examples
    --------
    >>> _duration("15min"), _duration("1h"), _duration("1d"), _duration(None)
    ('PT15M', 'PT1H', 'P1D', '')
    """
    if timeslot is None:
        return ""
    seconds = slot_seconds(timeslot)
    if seconds == DAY:
        return "P1D"
    return f"PT{seconds // 3600}H" if seconds % 3600 == 0 else f"PT{seconds // 60}M"
