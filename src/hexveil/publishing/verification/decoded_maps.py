"""Columns of a map with private presence, made again of its noisy numbers as a release does.

Folders of earlier versions have no uncut numbers: there intervals of weights are made of those that
were published, wherever they are above 0, and averages are not made again.
"""

from __future__ import annotations

import math
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
from hexveil.publishing.verification import shape_checks
from hexveil.publishing.verification.accuracy_checks import DEVIATION_TOLERANCE
from hexveil.publishing.verification.files.file_comparison import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.public_metadata import ValueLattice

    Json = dict[str, Any]


def check_decoded(table: pa.Table, numbers: dict[str, Floats], manifest: Json) -> Iterator[str]:
    """Yield columns that the functions of a release do not make of the noisy numbers."""
    plan, law = manifest["plan"], published_law(manifest)
    is_open = np.array(table[OPEN].to_pylist(), dtype=bool)
    threshold = None if plan["open_from"] is None else round(plan["open_from"] * PARTS)
    if plan["statistics"] == [USERS]:
        yield from compare_columns(
            table, count_columns(decode_counts(in_parts(numbers, USERS), law, is_open)), USERS
        )
        return
    weight = in_parts(numbers, "weight")
    if has_shapes(plan["statistics"]):
        uncut = weight / PARTS
        ends = weight_interval(uncut, law, plan["bins"], plan["open_from"])
        names = ("weight", "weight_low", "weight_high")
        columns = dict(zip(names, (np.maximum(uncut, 0.0), *ends), strict=True))
        yield from compare_columns(
            table,
            {
                name: pa.array(np.where(is_open, column, np.nan), from_pandas=True)
                for name, column in columns.items()
            },
            "weight",
        )
        return
    lattice, is_whole = shape_checks.lattice_of(manifest), "balance_noisy" in numbers
    centres, low, high = _ranges(numbers, lattice) if is_whole else 3 * (np.zeros_like(weight),)
    # Of closed cells, and where no ranges were published, the whole bounds.
    is_known = is_open & is_whole
    low, high = np.where(is_known, low, 0), np.where(is_known, high, PARTS)
    if not ((low >= 0) & (low < high) & (high <= PARTS)).all():
        yield "mean_range_low and mean_range_high are no range within the bounds."
        return
    window = CellWindow(is_open.astype(np.int64), low, high)
    if (cut := stated_cut(plan, centres, window)) is None:
        yield "plan/histogram is not that of one of plan/stages."
        return
    upper = (weight + in_parts(numbers, "balance")) // 2
    noisy = np.concatenate([upper, weight - upper])
    decoded = decode_map(window, noisy, law, cut, centres, threshold)
    columns = mean_columns(lattice, decoded)
    # It borrows from cells whose noisy numbers are not published.
    del columns[SMOOTHED]
    if not is_whole:
        columns = {name: column for name, column in columns.items() if name.startswith("weight")}
    elif not _is_stated(manifest, mean_accuracy(lattice, decoded)):
        yield "the accuracy of mean does not follow from the noisy numbers of the cells."
    yield from compare_columns(table, columns, "weight")


def _ranges(numbers: dict[str, Floats], lattice: ValueLattice) -> list[Ints]:
    """Return what ranges were chosen around, and their ends, in parts of the span."""
    lower, span = float(lattice.lower), float(lattice.span)
    names = ("mean_centre", "mean_range_low", "mean_range_high")
    return [_whole((numbers[name] - lower) / span * PARTS) for name in names]


def _is_stated(manifest: Json, expected: Json) -> bool:
    """Return whether a manifest has this statement on accuracy, but for rounding; or none."""
    for stated in manifest.get("accuracy", ())[:1]:
        for name, number in expected.items():
            is_number = isinstance(number, float) and isinstance(stated[name], float)
            if not is_number and stated[name] != number:
                return False
            if is_number and not math.isclose(
                stated[name], number, rel_tol=DEVIATION_TOLERANCE, abs_tol=TOLERANCE
            ):
                return False
    return True


def in_parts(numbers: dict[str, Floats], name: str) -> Ints:
    """Return noisy numbers in parts; of earlier versions those cut at 0, or zeros."""
    truncated = numbers.get(name, np.zeros(1))
    return _whole(numbers.get(f"{name}_noisy", truncated) * PARTS)


def _whole(numbers: NDArray[Any]) -> Ints:
    """Return whole numbers that stay so in every sum; 0 for those of closed cells."""
    integers: Ints = np.rint(np.clip(np.nan_to_num(numbers), -(2.0**60), 2.0**60)).astype(np.int64)
    return integers


def compare_columns(table: pa.Table, expected: dict[str, pa.Array], counted: str) -> Iterator[str]:
    """Yield columns that are not those expected; where noise was cut at 0, none of an interval."""
    is_cut = f"{counted}_noisy" not in table.column_names
    is_known = np.ones(table.num_rows, dtype=bool)
    if is_cut:
        is_known = np.asarray(table[counted].to_numpy(), dtype=np.float64) > 0.0
    for name, column in expected.items():
        if name not in table.column_names:
            continue
        if pa.types.is_string(column.type):
            same = is_cut or column.to_pylist() == table[name].to_pylist()
        else:
            stated, decoded = (
                np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)[is_known]
                for array in (table[name].combine_chunks(), column)
            )
            same = np.allclose(stated, decoded, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        if not same:
            yield f"{name} does not follow from the noisy numbers of the cells."


def published_law(manifest: Json) -> NoiseLaw:
    """Return the noise of the published map, by the manifest."""
    return law_of(manifest["plan"]["stages"][-1]["noise"], manifest["plan"]["scale"])
