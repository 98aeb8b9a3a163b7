"""Columns of a map with private presence, made again of its noisy numbers as a release does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.contribution import CellWindow
from hexveil.mechanisms.presence.count_map import decode_counts
from hexveil.mechanisms.presence.presence_decoding import decode_map
from hexveil.mechanisms.presence.shape_decoding import weight_interval
from hexveil.publishing.presence.map_accuracy import mean_accuracy
from hexveil.publishing.presence.presence_manifest import law_of, stated_cut
from hexveil.publishing.presence.presence_table import (
    OPEN,
    SMOOTHED,
    USERS,
    count_columns,
    mean_columns,
)
from hexveil.publishing.presence.shape_table import has_shapes
from hexveil.publishing.verification.distribution_checks import lattice_of
from hexveil.publishing.verification.moment_numbers import DEVIATION_TOLERANCE, is_same
from hexveil.publishing.verification.table_checks import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints

    Json = dict[str, Any]


def check_decoded(table: pa.Table, numbers: dict[str, Floats], manifest: Json) -> Iterator[str]:
    """Yield columns that the functions of a release do not make of the noisy numbers."""
    plan, law = manifest["plan"], published_law(manifest)
    is_open = np.array(table[OPEN].to_pylist(), dtype=bool)
    threshold = None if plan["open_from"] is None else round(plan["open_from"] * PARTS)
    if plan["statistics"] == [USERS]:
        decoded_counts = decode_counts(in_parts(numbers, USERS), law, is_open)
        yield from compare_columns(table, count_columns(decoded_counts))
        return
    weight = in_parts(numbers, "weight")
    if has_shapes(plan["statistics"]):
        uncut = weight / PARTS
        ends = weight_interval(uncut, law, plan["bins"], plan["open_from"])
        names = ("weight", "weight_low", "weight_high")
        columns = zip(names, (np.maximum(uncut, 0.0), *ends), strict=True)
        yield from compare_columns(
            table,
            {
                name: pa.array(np.where(is_open, column, np.nan), from_pandas=True)
                for name, column in columns
            },
        )
        return
    lattice = lattice_of(manifest)
    lower, span = float(lattice.lower), float(lattice.span)
    centres, low, high = (
        _as_integers((numbers[name] - lower) / span * PARTS)
        for name in ("mean_centre", "mean_range_low", "mean_range_high")
    )
    # Of closed cells the whole bounds.
    low, high = np.where(is_open, low, 0), np.where(is_open, high, PARTS)
    if not ((low >= 0) & (low < high) & (high <= PARTS)).all():
        yield "mean_range_low and mean_range_high are no range within the bounds."
        return
    window = CellWindow(is_open.astype(np.int64), low, high)
    if (beyond := stated_cut(plan, centres, window)) is None:
        yield "plan/histogram is not that of one of plan/stages."
        return
    upper = (weight + in_parts(numbers, "balance")) // 2
    noisy = np.concatenate([upper, weight - upper])
    decoded = decode_map(window, noisy, law, beyond, centres, threshold)
    columns_of_means = mean_columns(lattice, decoded)
    # It borrows from cells whose noisy numbers are not published.
    del columns_of_means[SMOOTHED]
    expected, stated = mean_accuracy(lattice, decoded), manifest["accuracy"][0]
    if not all(
        is_same(stated[name], number, DEVIATION_TOLERANCE)
        if isinstance(number, float)
        else stated[name] == number
        for name, number in expected.items()
    ):
        yield "the accuracy of mean does not follow from the noisy numbers of the cells."
    yield from compare_columns(table, columns_of_means)


def in_parts(numbers: dict[str, Floats], name: str) -> Ints:
    """Return noisy numbers in parts."""
    return _as_integers(numbers[f"{name}_noisy"] * PARTS)


def _as_integers(numbers: NDArray[Any]) -> Ints:
    """Return whole numbers that stay so in every sum; 0 for those of closed cells."""
    integers: Ints = np.rint(np.clip(np.nan_to_num(numbers), -(2.0**60), 2.0**60)).astype(np.int64)
    return integers


def compare_columns(table: pa.Table, expected: dict[str, pa.Array]) -> Iterator[str]:
    """Yield columns that are not those expected."""
    for name, column in expected.items():
        if pa.types.is_string(column.type):
            same = column.to_pylist() == table[name].to_pylist()
        else:
            stated, decoded = (
                np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
                for array in (table[name].combine_chunks(), column)
            )
            same = np.allclose(stated, decoded, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        if not same:
            yield f"{name} does not follow from the noisy numbers of the cells."


def published_law(manifest: Json) -> NoiseLaw:
    """Return the noise of the published map, by the manifest."""
    return law_of(manifest["plan"]["stages"][-1]["noise"], manifest["plan"]["scale"])
