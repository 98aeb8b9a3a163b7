"""Read records with private presence: one value column, or several of the same records."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.records.columns.column_datasets import PrivateColumns
from hexveil.records.private_presence.declared_reading import (
    FIXED_COLUMNS,
    declare_facts,
    refuse_versions_by_file,
)
from hexveil.records.sources.cache import resolve_cache
from hexveil.records.sources.source_files import Files, resolve_source, resolve_spark_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.records.private_presence.private_dataset import PrivateDataset
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.versions import Version


def read_declared(
    source: object,
    request: ReadRequest,
    *,
    spark: Any,  # noqa: ANN401  pyspark is not loaded
    cache: object,
    version: Version | None,
) -> PrivateDataset:
    """Read records with private presence; declarations are checked before a file is opened."""
    from hexveil.records.duckdb.private_reading import read_private  # noqa: PLC0415  the engine

    refuse_versions_by_file(version)
    facts = declare_facts(request)
    if spark is not None:
        from hexveil.records.spark.private_blocks import read_private_blocks  # noqa: PLC0415

        records = resolve_spark_source(source)
        _refuse_documents(records)
        with_source = replace(facts, identity={**facts.identity, "source": records.label})
        request = replace(request, cache=resolve_cache(cache, version, source, records))
        return read_private_blocks(spark, records, request, with_source)
    files = resolve_source(source)
    _refuse_documents(files)
    with_source = replace(facts, identity={**facts.identity, "source": files.label})
    request = replace(request, cache=resolve_cache(cache, version, source, files))
    return read_private(files, request, with_source)


def read_declared_columns(
    source: object,
    requests: Sequence[ReadRequest],
    *,
    spark: Any,  # noqa: ANN401  pyspark is not loaded
    cache: object,
    version: Version | None,
) -> PrivateColumns:
    """Read several value columns with private presence: in one pass, or one after the other.

    By Spark and with a cache one column is read after the other. Every declaration is checked
    before a file is opened. Clocks are not compared: whether times lack an offset would tell who is
    in the records.
    """
    refuse_versions_by_file(version)
    declared = [declare_facts(request) for request in requests]
    if spark is not None or cache is not None:
        return _read_one_by_one(source, requests, spark, cache, version)
    from hexveil.records.duckdb.private_reading import (  # noqa: PLC0415  the engine
        read_private_columns,
    )

    files = resolve_source(source)
    _refuse_documents(files)
    with_source = [
        replace(facts, identity={**facts.identity, "source": files.label}) for facts in declared
    ]
    datasets = read_private_columns(files, list(zip(requests, with_source, strict=True)))
    return PrivateColumns({dataset.public.value: dataset for dataset in datasets})


def _read_one_by_one(
    source: object,
    requests: Sequence[ReadRequest],
    spark: Any,  # noqa: ANN401  pyspark is not loaded
    cache: object,
    version: Version | None,
) -> PrivateColumns:
    datasets: dict[str, PrivateDataset] = {}
    with ExitStack() as opened:
        for request in requests:
            dataset = read_declared(source, request, spark=spark, cache=cache, version=version)
            datasets[dataset.public.value] = dataset
            opened.callback(dataset.close)
        # Closed only if a later column fails: nothing of the others then stays in Spark.
        opened.pop_all()
    return PrivateColumns(datasets)


def _refuse_documents(source: object) -> None:
    """Refuse files with columns that depend on their records."""
    if isinstance(source, Files) and source.kind not in FIXED_COLUMNS:
        raise InputError(
            'protect "presence" reads Parquet, CSV and tables, whose columns do not depend on the '
            "records; convert the documents before."
        )
