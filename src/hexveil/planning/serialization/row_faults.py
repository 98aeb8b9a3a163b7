"""Numbers that no plan has in the tables of a saved plan: a stranger may have written them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.planning.serialization.metadata_codec import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

TARGET = "target_"
"""Prefix of the columns of targets."""


def cell_faults(table: pa.Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each possible fault of a cell, and its place."""
    lower, upper = numbers(table, "lower"), numbers(table, "upper")
    rise = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
    yield "has bounds that do not rise", ~rise
    for cap, noise in (("mean_kept", "noise_records"), ("variance_kept", "variance_noise")):
        maximum, scale = numbers(table, cap), numbers(table, noise)
        yield f"has a {cap} below 0", maximum < 0
        yield f"has a {noise} that is not a finite number", ~np.isfinite(scale)
        yield f"keeps records without noise ({noise})", (scale < 0) | ((scale == 0) & (maximum > 0))
    for name in table.column_names:
        if name.startswith(TARGET):
            yield f"has a {name} that is not above 0", ~(numbers(table, name) > 0)


def user_faults(table: pa.Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each possible fault of a user, and its place."""
    factor = numbers(table, "factor")
    yield "has a factor that is not from 0 to 1", ~((factor >= 0) & (factor <= 1))
    yield "does not number users in order", numbers(table, "user") != np.arange(table.num_rows)
