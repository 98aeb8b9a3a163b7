"""A run: the arguments of `read`, `plan`, `release` and `Ledger`, in the sections of a file.

A field has the name of the library's argument. The library has the defaults of omitted fields, so
there are none here. What each field is: fields.toml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from hexveil.config.field_types import (
    ClipUserName,
    ColumnBounds,
    ColumnInteger,
    ColumnNames,
    ColumnNumber,
    ColumnText,
    ErrorMode,
    EstimatorName,
    Exact,
    ExemptName,
    Goals,
    Integer,
    LatePolicy,
    Lists,
    MethodName,
    Names,
    Numbers,
    ObjectiveName,
    Paths,
    ProtectName,
    RangeMode,
    SeriesKind,
    Share,
    Switch,
    Text,
    UnfinishedStageName,
    Version,
    Weights,
    Words,
)


class Section(BaseModel):
    """A table of the run file: only known fields, none of them required."""

    # Strict: our own checks see what was written, before anything is converted. Deferred: a section
    # is checked as a part of the run, and rarely alone.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    def explicit_fields(self) -> dict[str, Any]:
        """Return the fields that were given, as keyword arguments."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class Columns(Section):
    """The meaning of the columns."""

    user: Text | None = None
    value: ColumnNames | None = None
    lat: Text | None = None
    lon: Text | None = None
    location: Text | None = None
    time: ColumnNames | None = None


class ValuesSection(Section):
    """The range of values."""

    bounds: ColumnBounds | None = None
    quantum: ColumnNumber | None = None
    value_unit: ColumnText | None = None


class Grid(Section):
    """The definition of a cell: a hexagon in a timeslot, public labels, or all records."""

    resolution: Integer | None = None
    timeslot: Text | None = None
    timezone: Text | None = None
    slot: Text | None = None
    labels: Names | None = None
    one_cell: Switch | None = None
    area: Words | None = None
    values: Lists | None = None


class PrivacySection(Section):
    """The privacy model, and declarations for private presence."""

    protect: ProtectName | None = None
    fleet: ColumnInteger | None = None
    records_per_unit: Integer | None = None
    cells_per_unit: Integer | None = None
    user_cap: Text | None = None
    delta: Exact | None = None
    quiet_records: Switch | None = None


class Selection(Section):
    """Records and cells to include, by public metadata."""

    hours: Words | None = None
    dates: Words | None = None
    box: Numbers | None = None
    min_users: Integer | None = None
    top: Integer | None = None
    drop_values: Numbers | None = None
    accept_value_dependent_counts: Switch | None = None


class ReadSection(Section):
    """How the records are read."""

    timezone: Text | None = None
    privacy_unit: Text | None = None
    repeats: Text | None = None
    max_bad_rows: Share | None = None
    max_repeats: Share | None = None
    accept_single_records: Switch | None = None
    id_space: Text | None = None
    memory: Text | None = None
    engine: Text | None = None
    version: Version | None = None
    cache: Text | None = None
    scratch: Text | None = None


class Format(Section):
    """How the records are written, where that differs from the usual form."""

    decimal: Text | None = None
    time_format: Text | None = None
    unit_suffix: Text | None = None
    record_path: Text | None = None
    file_columns: Text | None = None
    encoding: Text | None = None
    quoted_newlines: Switch | None = None
    max_line: Integer | None = None
    max_unpacking: Integer | None = None


class Planning(Section):
    """How the noise is planned."""

    epsilon: Exact | None = None
    target_error: Goals | None = None
    statistics: Names | None = None
    weights: Weights | None = None
    estimator: EstimatorName | None = None
    method: MethodName | None = None
    mechanism: Text | None = None
    objective: ObjectiveName | None = None
    error: ErrorMode | None = None
    split: Exact | None = None
    clipping_range: RangeMode | None = None
    range_share: Exact | None = None
    clip_user: ClipUserName | None = None
    cell_epsilon: Exact | None = None
    unfinished_stage: UnfinishedStageName | None = None
    exempt: ExemptName | None = None
    edition: Text | None = None
    baseline_error: ColumnNumber | None = None


class Publishing(Section):
    """The release folder."""

    out: Text | None = None
    estimates: Names | None = None
    title: Text | None = None
    subtitle: Text | None = None
    context: Text | None = None
    hide_geography: Switch | None = None
    sign: Text | None = None
    tiles: Switch | None = None
    accept_noise: Switch | None = None


class Daily(Section):
    """Time of daily publication, and treatment of late records."""

    wait: Text | None = None
    series: SeriesKind | None = None
    late: LatePolicy | None = None


class CatalogueSection(Section):
    """Facts for data portals, as the holder states them."""

    title: Text | None = None
    description: Text | None = None
    language: Text | None = None
    keywords: Names | None = None
    theme: Names | None = None
    publisher: Text | None = None
    publisher_url: Text | None = None
    contact: Text | None = None
    license: Text | None = None
    landing_page: Text | None = None
    spatial: Text | None = None
    temporal: Words | None = None
    base_url: Text | None = None


class LedgerSection(Section):
    """The ledger and its account."""

    url: Text | None = None
    dataset: Text | None = None
    budget: Exact | None = None
    key: Text | None = None
    window: Text | None = None
    account: Text | None = None
    accept_similar_name: Switch | None = None


class Run(BaseModel):
    """One run, as the file and the command line describe it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # Private, so that it is not part of the run: equal files are equal requests.
    _folder: Path = PrivateAttr(default=Path())

    source: Paths | None = None
    columns: Columns = Columns.model_construct()
    values: ValuesSection = ValuesSection.model_construct()
    cells: Grid = Grid.model_construct()
    privacy: PrivacySection = PrivacySection.model_construct()
    select: Selection = Selection.model_construct()
    read: ReadSection = ReadSection.model_construct()
    format: Format = Format.model_construct()
    plan: Planning = Planning.model_construct()
    release: Publishing = Publishing.model_construct()
    publish: Daily = Daily.model_construct()
    catalogue: CatalogueSection = CatalogueSection.model_construct()
    ledger: LedgerSection = LedgerSection.model_construct()

    @property
    def folder(self) -> Path:
        """Folder of the run file, to which its paths are relative, or the current folder."""
        return self._folder

    def standing_in(self, folder: Path) -> Run:
        """Return a copy of the run with paths relative to another folder."""
        run = self.model_copy()
        # The model is frozen for its users, so a copy is changed before anyone has it.
        run._folder = folder  # noqa: SLF001  of the same class
        return run


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Run.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


PATH_FIELDS = (
    ("", "source"),
    ("read", "cache"),
    ("read", "scratch"),
    ("release", "out"),
    ("release", "context"),
    ("ledger", "url"),
    ("ledger", "key"),
)
"""Fields that hold paths, relative to the folder of the file."""
