"""Read records with private presence: one value column, or several in one pass."""

from __future__ import annotations

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


def refuse_several_columns(
    n_columns: int,
    *,
    spark: Any,  # noqa: ANN401  pyspark is not loaded
    cache: object,
) -> None:
    """Refuse several value columns of private presence where they can only be read one by one."""
    alone = {'engine="spark"': spark is not None, "a cache": cache is not None}
    if unsupported := [name for name, used in alone.items() if used]:
        raise InputError(
            f'value names {n_columns} columns, which with protect="presence" are read by DuckDB '
            f"and without a cache, not with {unsupported[0]}; leave that out, or read and release "
            "the columns one by one."
        )


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

        records = resolve_spark_source(source, unpack=cache is None)
        _refuse_documents(records)
        with_source = replace(facts, identity={**facts.identity, "source": records.label})
        request = replace(request, cache=resolve_cache(cache, version, source, records))
        return read_private_blocks(spark, records, request, with_source)
    # With a cache only new files are checked, as they are read.
    files = resolve_source(source, unpack=cache is None)
    _refuse_documents(files)
    with_source = replace(facts, identity={**facts.identity, "source": files.label})
    request = replace(request, cache=resolve_cache(cache, version, source, files))
    return read_private(files, request, with_source)


def read_declared_columns(
    source: object, requests: Sequence[ReadRequest], version: Version | None
) -> PrivateColumns:
    """Read several value columns with private presence in one pass.

    Clocks are not compared: whether times lack an offset would tell who is in the records.
    """
    from hexveil.records.duckdb.private_reading import (  # noqa: PLC0415  the engine
        read_private_columns,
    )

    refuse_versions_by_file(version)
    declared = [declare_facts(request) for request in requests]
    files = resolve_source(source)
    _refuse_documents(files)
    with_source = [
        replace(facts, identity={**facts.identity, "source": files.label}) for facts in declared
    ]
    datasets = read_private_columns(files, list(zip(requests, with_source, strict=True)))
    return PrivateColumns({dataset.public.value: dataset for dataset in datasets})


def _refuse_documents(source: object) -> None:
    """Refuse files with columns that depend on their records."""
    if isinstance(source, Files) and source.kind not in FIXED_COLUMNS:
        raise InputError(
            'protect "presence" reads Parquet, CSV and tables, whose columns do not depend on the '
            "records; convert the documents before."
        )
