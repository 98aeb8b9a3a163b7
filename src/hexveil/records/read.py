"""Read records: from a file or table to counts, sums and sums of squares.

The rules and their order: docs/reference/python.md. Assumption: whether a record carries a usable
value (present, finite, a number) is public, as are its user, place and time.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.base.rational import Number
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import DeclaredColumns
from hexveil.model.public_metadata import Unit
from hexveil.records.column_datasets import combine_columns
from hexveil.records.dataset import Dataset
from hexveil.records.read_request import Protect, Repeats
from hexveil.records.reading_arguments import readings_of, refuse_documents
from hexveil.records.select import Select
from hexveil.records.sources.cache import resolve_cache
from hexveil.records.sources.record_format import PLAIN, RecordFormat, Version
from hexveil.records.sources.source_files import is_spark, resolve_source, resolve_spark_source


def read(  # noqa: PLR0913  a public door: keyword-only, a field per argument
    source: object,
    *,
    user: str,
    value: str | Sequence[str],
    bounds: object,
    lat: str | None = None,
    lon: str | None = None,
    location: str | None = None,
    time: str | Sequence[str] | None = None,
    protect: Protect = "values",
    privacy_unit: Unit = "user",
    cells: Cells | Labels,
    quantum: Number | Mapping[str, Number] = "0.001",
    select: Select = Select(),  # noqa: B008  frozen
    repeats: Repeats = "drop",
    value_unit: str | Mapping[str, str] | None = None,
    max_bad_rows: float = 0.1,
    max_repeats: float = 0.2,
    accept_single_records: bool = False,
    memory: str = "1GB",
    engine: object = None,
    version: Version | None = None,
    timezone: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    format: RecordFormat = PLAIN,  # noqa: A002  the field of a run, and what users look for
    statistics: Sequence[str] | str = (),
    id_space: str | None = None,
) -> Dataset | Any:  # noqa: ANN401  by `protect` and the number of value columns
    """Read the records of a source as public metadata and private sums per (cell, user).

    Sums are of values and of their squares, both exact. `Dataset.has_squares` says whether sums
    of squares are there: they are left out if the fullest pair's, n * (span / quantum)^2, could
    reach 2^62, and a coarser quantum brings them back.

    Parameters
    ----------
    source : str, path, list of them, or table
        A Parquet, CSV (.gz, .zst), JSON (array or one document a line) or GeoJSON file; a folder
        or glob of such files with the same columns; a list of files, whose columns may differ; or
        a table: of pandas, polars or Arrow, a polars LazyFrame or a DuckDB relation. Such a query
        runs once, and its result is held in memory: select its columns before. Folders of Parquet
        files that are all named like `ward=7` are a column of text, unless the files have it
        themselves. JSON may be NGSI-LD entities; `.pb` files are snapshots of a GTFS-Realtime
        feed (extra `gtfs`), whose vehicle positions are the records. With Spark
        also a Spark DataFrame, or the addresses of Parquet files, like `s3://...`; local files
        must then be where every executor finds them, and no table in memory is read.
    user, value : str
        Column of the user id and of the value. Ids of text are kept apart byte for byte; numbers
        by their value: 7, 7.0 and 7.00 are one user. A float that is not whole, or so large that
        it is not exact, is refused as an id. The name of an NGSI-LD attribute means its value.
        Several value columns are read in one pass, and planned and released together
        (docs/how-to/several-sensors.md): bounds, quantum and value_unit then are mappings of column
        to what is stated of it, or the same for all. A record counts for each column of which it
        has a usable value. By Spark one column is read after the other.
    bounds : pair of numbers
        Values are clamped to these; both are multiples of `quantum`. Public.
    lat, lon : str, optional
        Columns of latitude and longitude, in degrees.
    location : str, optional
        One column of the place in GeoJSON order, longitude first: a list, a GeoJSON point, a
        GeoProperty, text of these, or a pair of columns ending in /0 and /1.
    time : str or pair of str, optional
        Column of the time: ISO 8601 text, a timestamp, or seconds or milliseconds since 1970
        (micro- and nanoseconds by `RecordFormat(time_format="us")`); or two columns, of the date
        and of the time of day.
    protect : "values" or "presence"
        Privacy model. With "values" it is public who reported where and when; with "presence" it
        is private, cells are declared by `area` or `values`, and what is returned is a
        `PrivateDataset` (docs/how-to/private-presence.md). max_bad_rows, max_repeats,
        accept_single_records, min_users, top and versions by file are then left out, since no
        refusal, no cell and no name of a release may depend on a record.
    privacy_unit : "user", "user-day" or "user-week"
        What is protected.
    cells : Cells, Labels or OneCell
        What a cell is. `OneCell()` makes one cell of all records.
    quantum : number
        Step to which values are rounded, in value units.
    select : Select
        Which records and cells are used.
    repeats : "drop" or "keep"
        Of several records with the same user and time, "drop" counts one place, drawn by a hash of
        user and time, with the average of the records there; "keep" counts all. Where times are
        coarser than the reports, "keep" is right. Without a time column repeats are kept.
    value_unit : str, optional
        Unit of measure, like "km/h".
    max_bad_rows : float
        Share of records that may be unusable, 0 to 1.
    max_repeats : float
        Share of records that `repeats="drop"` may leave out, 0 to 1; more is refused, for such
        times are probably coarser than the reports.
    accept_single_records : bool
        Whether nearly every user may have a single record, as sensors that report once do. Else
        that is refused, since a column such as a row number would make each record a user.
    memory : str
        What the engine may use here, like "1GB"; more goes to the scratch folder. What it may use
        in each of Spark's tasks is Spark's setting `spark.hexveil.taskMemory`.
    engine : "duckdb", "spark", SparkSession or None
        What reads the records: DuckDB here, or Spark's executors, with the same result. "spark"
        is the session that is there, or else a new one; None is DuckDB, and for a Spark DataFrame
        its own session.
    version : str or mapping of str to str, optional
        Version of the records, as their holder declares it; with `cache` also by the names of
        files or patterns of them, of which the first that fits counts.
    timezone : str, optional
        Time zone of times without an offset, and with `Labels` the local clock; default the
        time zone of `cells`.
    cache : str or path, optional
        Private folder of sums per file, made if it is not there: only files that are new are
        read, or whose declared `version` is. What is returned is the same. DuckDB alone has it.
    scratch : str or path, optional
        Private folder of temporary files, made if it is not there; default HEXVEIL_SCRATCH, else
        a folder in the machine's temporary folder. What killed runs left in it is removed.
        Spark's executors go by their own HEXVEIL_SCRATCH.
    format : RecordFormat
        Decimal comma, format of times, nested records, encoding.
    statistics : sequence of str, optional
        Statistics that will be published, if there are quantiles, shares or histograms among them
        (`hexveil.plan`): records are then counted by bin of their value as well, with an edge at
        each threshold. A cache keeps them for the bins they were asked for.
    id_space : str, optional
        Name of what an id of `user` names, like "vehicle"; the name of the column by default. An
        account pins it: the same vehicles under other ids would look unspent. Declare it where two
        columns hold the same ids.

    Returns
    -------
    Dataset or PrivateDataset; of several value columns ColumnDatasets or PrivateColumns

    Raises
    ------
    InputError
        If an argument, the source or a column cannot be used, or nothing is left of the records.

    Privacy
    -------
    Neighbours: the same users, places, times and counts; the values of one unit change within
    the bounds. Everything but the sums is public by that promise. With `drop_values` it is
    assumed that having one of these values is public too (ERRATA 13).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hexveil.model.cells import Labels
    >>> table = pa.table({"bus": ["a", "b"], "ward": ["x", "x"], "speed": [10.0, 20.0]})
    >>> read(table, user="bus", value="speed", bounds=(0, 65), cells=Labels("ward"),
    ...      select=Select(min_users=1))
    Dataset('speed', privacy_unit='user', n_cells=1, n_users=2, n_pairs=2)
    """
    # All arguments are checked before a file is opened.
    arguments = {name: argument for name, argument in locals().items() if name != "source"}
    require_package("duckdb", "publish")
    readings = readings_of(**arguments)
    is_private = readings[0][1] is not None
    spark = _spark(engine, source)
    records: Any = resolve_source(source) if spark is None else resolve_spark_source(source)
    if is_private:
        refuse_documents(records)
    resolved = resolve_cache(cache, version, records)
    readings = [
        (
            replace(request, cache=resolved),
            declared and replace(declared, identity={**declared.identity, "source": records.label}),
        )
        for request, declared in readings
    ]
    if spark is None:
        from hexveil.records.duckdb.reading import read_datasets  # noqa: PLC0415  the engine

        datasets: list[Any] = read_datasets(records, readings)
    else:
        from hexveil.records.spark.reading import read_by_spark  # noqa: PLC0415  the engine

        datasets = read_by_spark(spark, records, readings)
    by_column = {dataset.public.value: dataset for dataset in datasets}
    if len(by_column) == 1:
        return datasets[0]
    return combine_columns(by_column)


def declare(source: object = "", **options: Any) -> Any:  # noqa: ANN401  facts, as of `read`
    """Return the declared facts of a reading with private presence; no record is read.

    A plan needs nothing else, so that it can be made before there are any records. Of several
    value columns they are `DeclaredColumns`.

    Parameters
    ----------
    source : object
        Not looked at.
    options : keyword arguments
        As for `read`.

    Raises
    ------
    InputError
        If a declaration is missing or cannot be used.

    Examples
    --------
    >>> from hexveil.model.cells import Labels
    >>> declare(user="car", value="speed", bounds=(0, 130), protect="presence",
    ...         cells=Labels("road", values=["A4", "A8"])).grid.n_cells
    2
    """
    bound = inspect.signature(read).bind(source, **options)
    bound.apply_defaults()
    del bound.arguments["source"]
    facts = {one.value: one for _, one in readings_of(**bound.arguments) if one is not None}
    if not facts:
        raise InputError('declare is for protect="presence"; otherwise read the records.')
    return DeclaredColumns(facts) if len(facts) > 1 else next(iter(facts.values()))


def _spark(engine: object, source: object) -> Any:  # noqa: ANN401  pyspark is not loaded
    """Return the Spark session that reads the records, None where DuckDB does."""
    frame = is_spark(source, "DataFrame")
    if engine is None and not frame:
        return None
    if engine == "duckdb":
        if frame:
            raise InputError('engine "duckdb" reads no Spark DataFrame; leave engine out.')
        return None
    if not (engine is None or engine == "spark" or is_spark(engine, "SparkSession")):
        raise InputError(
            f'engine must be "duckdb", "spark", a Spark session or left out, got {engine!r}.'
        )
    if find_spec("pyspark") is None:
        raise InputError('engine "spark" needs the package pyspark: pip install "hexveil[spark]".')
    from hexveil.records.spark.session import session_of  # noqa: PLC0415  the engine

    return session_of(engine, source)
