"""Read value columns with public presence: one, or several of the same records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.records.columns.column_datasets import ColumnDatasets
from hexveil.records.sources.cache import resolve_cache
from hexveil.records.sources.source_files import (
    resolve_source,
    resolve_spark_source,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.records.dataset import Dataset
    from hexveil.records.read_request import ReadRequest


def read_column(
    source: object,
    request: ReadRequest,
    spark: Any,  # noqa: ANN401  pyspark is not loaded
    cached: tuple[Any, Any],
) -> Dataset:
    """Return the data set of one value column; `cached` is the cache and the versions."""
    cache, version = cached
    if spark is not None:
        from hexveil.records.spark.reading import read_dataset as read_by_spark  # noqa: PLC0415

        records = resolve_spark_source(source)
        resolved = resolve_cache(cache, version, source, records)
        return read_by_spark(spark, records, replace(request, cache=resolved))
    from hexveil.records.duckdb.reading import read_dataset  # noqa: PLC0415  the engine

    files = resolve_source(source)
    return read_dataset(files, replace(request, cache=resolve_cache(cache, version, source, files)))


def read_value_columns(
    source: object,
    requests: Sequence[ReadRequest],
    spark: Any,  # noqa: ANN401  pyspark is not loaded
    cached: tuple[Any, Any],
) -> ColumnDatasets:
    """Read several value columns: in one pass, or by Spark or with a cache one after the other.

    Raises
    ------
    InputError
        If the columns differ in their clocks, or also as `read`.
    """
    datasets: Sequence[Dataset]
    if spark is not None or cached[0] is not None:
        # Each file's pairs are kept by column, so that a further column reads the files once more.
        datasets = [read_column(source, request, spark, cached) for request in requests]
    else:
        from hexveil.records.duckdb.reading import read_datasets  # noqa: PLC0415  the engine

        files = resolve_source(source)
        resolve_cache(None, cached[1], source, files)
        datasets = read_datasets(files, requests)
    by_column = {
        request.columns.value: dataset for request, dataset in zip(requests, datasets, strict=True)
    }
    clocks = {dataset.public.identity.get("naive_times", "none") for dataset in datasets}
    if requests[0].rules.two_clocks and len(clocks) > 1:
        raise InputError(
            "times without an offset stand in records of some value columns only, so that their "
            "days would follow different clocks; release these columns one by one."
        )
    return ColumnDatasets.of(by_column)
