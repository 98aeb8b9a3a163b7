"""A run: the arguments of `read`, `plan`, `release` and `Ledger`, in the sections of a file.

A field has the name of the library's argument. The library has the defaults of omitted fields, so
there are none here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from hexveil.config.field_types import (  # noqa: TC001  pydantic reads annotations
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

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def _field(description: str, default: str | None = None) -> Any:  # noqa: ANN401  as Field does
    """Return an optional field; `default` only documents the default of the library."""
    return Field(default=None, description=description, json_schema_extra={"library": default})


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

    user: Text | None = _field("Column with the id of the user, for example the bus.")
    value: ColumnNames | None = _field(
        "Column with the value to average, or several to release together (repeat the option)."
    )
    lat: Text | None = _field("Column with the latitude, in degrees.")
    lon: Text | None = _field("Column with the longitude, in degrees.")
    location: Text | None = _field(
        'Column with [longitude, latitude], a point of GeoJSON or WKT, or "lat, lon", instead of '
        "lat and lon."
    )
    time: ColumnNames | None = _field(
        "Column with the time, or two: date and time of day (repeat the option)."
    )


class ValuesSection(Section):
    """The range of values."""

    bounds: ColumnBounds | None = _field(
        "Smallest and largest value, such as 0,65; others are clamped. Of several value columns "
        "one pair each: pm25=0,500 (repeat the option)."
    )
    quantum: ColumnNumber | None = _field(
        "Step to which values are rounded, for all value columns or each.", "0.001"
    )
    value_unit: ColumnText | None = _field(
        'Unit of measure, for example "km/h", for all value columns or each.'
    )


class Grid(Section):
    """The definition of a cell: a hexagon in a timeslot, public labels, or all records."""

    resolution: Integer | None = _field("H3 resolution, 0 (coarse) to 15 (fine).", "8")
    timeslot: Text | None = _field('Length of a slot, "15min" to "1d", or "none".', "1h")
    timezone: Text | None = _field('Local clock, for example "Europe/Warsaw".')
    slot: Text | None = _field('"calendar", or "pooled" for the same hour of all days.', "calendar")
    labels: Names | None = _field("Public columns that define a cell, instead of a place.")
    one_cell: Switch | None = _field("One cell of all records, instead of places or labels.")
    area: Words | None = _field(
        "Declared area under private presence: west, south, east and north end in degrees, names "
        "of hexagons, or a GeoJSON file with a polygon."
    )
    values: Lists | None = _field(
        "Declared values of each label under private presence; as an option 4,15 or 4,15;7,8."
    )


class PrivacySection(Section):
    """The privacy model, and declarations for private presence."""

    protect: ProtectName | None = _field(
        'Privacy model: "values", or "presence" to protect also who reported where and when.',
        "values",
    )
    fleet: ColumnInteger | None = _field(
        "Declared number of units that may be in the records, under private presence; for all "
        "value columns or each."
    )
    records_per_unit: Integer | None = _field(
        "Declared typical number of records of a unit.", "100"
    )
    cells_per_unit: Integer | None = _field("Declared typical number of cells of a unit.", "10")
    user_cap: Text | None = _field(
        'Records from which on a unit weighs fully: a number, "private" or, by default, "none".'
    )
    delta: Exact | None = _field(
        "Promise (epsilon, delta) with Gaussian noise: far below one over the number of units, "
        "such as 1e-6. By default the promise is pure."
    )
    quiet_records: Switch | None = _field(
        "Do not show the private counts of a reading on the terminal."
    )


class Selection(Section):
    """Records and cells to include, by public metadata."""

    hours: Words | None = _field("Local hours of the day to include, such as 6-9,17.")
    dates: Words | None = _field("First and last local day to include.")
    box: Numbers | None = _field("West, south, east and north end of the area, in degrees.")
    min_users: Integer | None = _field("Smallest number of users in a cell.", "10")
    top: Integer | None = _field("Number of cells to keep, those with the most records.")
    drop_values: Numbers | None = _field(
        "Codes of a missing reading, at most 8; an account takes one list of them."
    )
    accept_value_dependent_counts: Switch | None = _field(
        "Drop codes within the bounds, too: counts then tell exactly how many records have them."
    )


class ReadSection(Section):
    """How the records are read."""

    timezone: Text | None = _field("Time zone of times without an offset, if not the local one.")
    privacy_unit: Text | None = _field(
        'Records protected together: "user", "user-day" or "user-week".', "user"
    )
    repeats: Text | None = _field(
        'Records of one user at one time: "drop" (one place, averaged) or "keep".', "drop"
    )
    max_bad_rows: Share | None = _field("Largest tolerated share of unreadable rows.", "0.1")
    max_repeats: Share | None = _field("Largest tolerated share of dropped repeats.", "0.2")
    accept_single_records: Switch | None = _field(
        "Read even if nearly every user has a single record."
    )
    id_space: Text | None = _field(
        "Name of what an id names, such as vehicle; an account pins it. By default the user column."
    )
    memory: Text | None = _field('Memory for reading, for example "1GB".', "1GB")
    engine: Text | None = _field('Engine that reads the records: "duckdb" or "spark".')
    version: Version | None = _field(
        "Version of the records, declared by their holder; with a cache also a table of versions "
        "by file name."
    )
    cache: Text | None = _field(
        "Private folder of sums per file; only files with a new name or version are read."
    )
    scratch: Text | None = _field(
        "Private folder for temporary files; removes those of killed runs. By default "
        "HEXVEIL_SCRATCH, or a folder in the machine's temporary folder."
    )


class Format(Section):
    """How the records are written, where that differs from the usual form."""

    decimal: Text | None = _field('Decimal mark of numbers that are text: "." or ",".', ".")
    time_format: Text | None = _field(
        'Format of times that are text, as of strptime: "%d/%m/%Y %H:%M:%S"; or of numbers since '
        '1970 their unit: "s", "ms", "us" or "ns".'
    )
    unit_suffix: Text | None = _field('Unit that follows each value, as "m/s" in "5.2 m/s".')
    record_path: Text | None = _field(
        'Keys that lead to the list of records in a JSON document, such as "results".'
    )
    file_columns: Text | None = _field(
        'Columns of the files of a folder: "same", or "common" to read those that all files have.',
        "same",
    )
    encoding: Text | None = _field(
        'Encoding of delimited text, such as "latin-1" or "utf-16", if not UTF-8.'
    )
    quoted_newlines: Switch | None = _field(
        "Whether quoted fields of delimited text hold line ends; not under private presence."
    )
    max_line: Integer | None = _field(
        "Bytes of the longest line of delimited text; longer ones count as unparsable.", "1000000"
    )
    max_unpacking: Integer | None = _field(
        "How many times its size a packed file of text or JSON may unpack to.", "200"
    )


class Planning(Section):
    """How the noise is planned."""

    epsilon: Exact | None = _field("Privacy price: the largest loss of any unit.")
    target_error: Goals | None = _field(
        "Largest planning error, instead of epsilon, at the lowest price: 2, 5% (of the span), or "
        "mean=2,variance=5%; of several value columns one for all or each: pm25=2 or pm25.mean=2 "
        "(repeat the option)."
    )
    statistics: Names | None = _field(
        'Published statistics: "mean", "variance", "sd", quantiles like "p85", shares like '
        '"share<10" or "share>=50", "histogram"; under private presence also "users".'
    )
    weights: Weights | None = _field(
        "Importance of errors of moments (means, variances) and of the distribution (quantiles, "
        "shares) in the split of epsilon, such as moments=1,distribution=2, of numbers of users "
        "beside them, and of several value columns by their names; by default 1 each."
    )
    estimator: EstimatorName | None = _field(
        'How quantiles and shares are measured: "ranks" or "bins"; by default the one with the '
        "smaller predicted error."
    )
    method: MethodName | None = _field(
        '"joint", "per-cell", "equal-split" or "clip-user".', "joint"
    )
    mechanism: Text | None = _field(
        'Mechanism of cells planned separately, such as "OptimalClipping" or "Levy(gamma=0.2)".'
    )
    objective: ObjectiveName | None = _field(
        'Minimised error: "max" or "mean" over cells; "mean" unless there are targets.'
    )
    error: ErrorMode | None = _field(
        '"separate", or "sum": the errors of mean and variance added, for study; "separate" '
        'unless clip_user is "printed".'
    )
    split: Exact | None = _field(
        "The mean's share of a cell's loss, if cells are planned separately, and for variances "
        "under a private clipping range."
    )
    clipping_range: RangeMode | None = _field(
        '"bounds"; "private" estimates a range privately, and weights users; "per-cell" one for '
        'each cell, for means alone; "auto" chooses by users times epsilon: "private" from 25 of '
        'the map, "per-cell" from 25 of a cell, else "bounds".',
        "auto",
    )
    range_share: Exact | None = _field("Share of epsilon for the clipping range.")
    clip_user: ClipUserName | None = _field(
        'Form of the method "clip-user": "improved", or "printed" as in the paper.', "improved"
    )
    cell_epsilon: Exact | None = _field(
        'Loss of one cell, instead of epsilon, for clip_user "printed".'
    )
    unfinished_stage: UnfinishedStageName | None = _field(
        'Suppressions of the stage that was halted: "keep" or "undo", for clip_user "printed".'
    )
    exempt: ExemptName | None = _field(
        'Cell in which the method "clip-user" suppresses nobody: that of the "smallest" error '
        'beforehand, as in the paper\'s experiments (default), or "none", as in its Algorithm 1.'
    )
    edition: Text | None = _field(
        "A name of your choice: the same goal under another edition is another request, planned "
        "and paid for again."
    )
    baseline_error: ColumnNumber | None = _field(
        "Assumed error of one constant for all cells, at most half the span, for all value columns "
        "or each. By default a twentieth of the span."
    )


class Publishing(Section):
    """The release folder."""

    out: Text | None = _field("New folder for the map.")
    estimates: Names | None = _field(
        'Columns beside the noisy one: "raw", or "raw,smoothed".', "raw"
    )
    title: Text | None = _field(
        "Title of the map, for page and portals; by default what is averaged."
    )
    subtitle: Text | None = _field("Line below the title, such as place and time.")
    context: Text | None = _field(
        "GeoJSON file drawn below the map; its names are those of places and streets."
    )
    hide_geography: Switch | None = _field(
        "Leave coast, rivers, borders and names of places out of the map."
    )
    sign: Text | None = _field("Private key that signs the folder; see hexveil ledger keygen.")
    tiles: Switch | None = _field(
        "Add vector tiles of the map; by default for at least 50,000 cells, if the extra tiles is "
        "installed."
    )
    accept_noise: Switch | None = _field("Release even if the grid is too fine for the fleet.")


class Daily(Section):
    """Time of daily publication, and treatment of late records."""

    wait: Text | None = _field("Waiting time for late records after the end of a day.", "6h")
    series: SeriesKind | None = _field(
        'Grid and kind of plan: "fixed" keeps to the stated ones on every day and leaves none out '
        'as too noisy, "daily" judges each day.',
        "daily",
    )
    late: LatePolicy | None = _field(
        'Records that arrive later: "keep" the published map, or "revise" it at a price.', "keep"
    )


class CatalogueSection(Section):
    """Facts for data portals, as the holder states them."""

    title: Text | None = _field("Title, in place of the one that follows from the release.")
    description: Text | None = _field("Description, in place of the one of the release.")
    language: Text | None = _field("Language of title and description; by default en.")
    keywords: Names | None = _field("Keywords.")
    theme: Names | None = _field('Codes of the EU\'s data themes, such as "TRAN", or URLs.')
    publisher: Text | None = _field("Name of the publishing organisation.")
    publisher_url: Text | None = _field("Web page of the publishing organisation.")
    contact: Text | None = _field("E-mail address, or URL of a contact page.")
    license: Text | None = _field('SPDX identifier, such as "CC-BY-4.0", or URL of the licence.')
    landing_page: Text | None = _field("URL of a page about the data.")
    spatial: Text | None = _field("URL that names the area.")
    temporal: Words | None = _field(
        "First and last local day of the records, where the cells do not show it."
    )
    base_url: Text | None = _field("URL under which the folder out will be served.")


class LedgerSection(Section):
    """The ledger and its account."""

    url: Text | None = _field("Ledger: an SQLite file, or postgresql://user@host/name.")
    dataset: Text | None = _field("Name of the data set in the ledger.")
    budget: Exact | None = _field("Largest loss of a unit over all releases of a window.")
    key: Text | None = _field("Key file under which ids are hashed; created beside a ledger file.")
    window: Text | None = _field(
        'Refill of the budget: never ("lifetime", the default), every "month" or "day".'
    )
    account: Text | None = _field(
        "Account shared by several data sets; by default the data set's own."
    )
    accept_similar_name: Switch | None = _field(
        "Open an account beside one whose name differs in capitals, forms of letters or spaces "
        "alone."
    )


class Run(BaseModel):
    """One run, as the file and the command line describe it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # Private, so that it is not part of the run: equal files are equal requests.
    _folder: Path = PrivateAttr(default=Path())

    source: Paths | None = _field("File, folder or pattern of the records.")
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


FIELDS: dict[tuple[str, str], FieldInfo] = {("", "source"): Run.model_fields["source"]} | {
    (section, name): info
    for section, model in SECTIONS.items()
    for name, info in model.model_fields.items()
}
"""Every field by (section, name); section "" is the top of the file."""


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


def option(section: str, name: str) -> str:
    """Return the command-line option of a field."""
    prefix = "catalogue-" if section == "catalogue" else ""
    return "--" + prefix + _OPTION_NAMES.get((section, name), name).replace("_", "-")


_OPTION_NAMES = {
    ("ledger", "url"): "ledger",
    ("cells", "values"): "label-values",
    ("read", "version"): "data-version",
    ("read", "timezone"): "time-timezone",
}
