"""Averages, quantiles and shares by OpenDP's queries over Polars, averages in two ways.

"lengths": how many records a cell has is public, as for hexveil; the records were cut by hand,
since its own cut makes these numbers private. "query": OpenDP cuts, and hides the numbers too.
Values are measured from the middle of the bounds in both: it halves what a record may change. They
are whole thousandths: of floating-point numbers it would add noise for the rounding of their sum,
and much of it where there are many records. A quantile is selected among candidates by noise on its
ranks; a share is a noisy sum of zeros and ones over a noisy length. The library divides ε among the
numbers of a query.
"""

from typing import Any

import common
import numpy as np
import opendp.prelude as dp
import polars as pl
from numpy.typing import NDArray

dp.enable_features("contrib")
PARTS = 1_000


def averages(work: common.Work, *, way: str, cells: int, rows: int) -> NDArray[np.float64]:
    """Return the average of each cell."""
    half = int(PARTS * (work.upper - work.lower) / 2)
    mean = pl.col("value").dp.mean((-half, half))
    if way == "lengths":
        query = lengths(work, cells, rows).agg(mean)
    else:
        query = truncated(work, cells, rows).agg(mean)
        query = query.with_keys(pl.LazyFrame({"cell": range(work.cells)}))
    found = query.release().collect()
    return work.filled(found["cell"].to_numpy(), found["value"].to_numpy() / PARTS + work.middle)


def frame(work: common.Work) -> pl.LazyFrame:
    """Return the records, values from the middle of the bounds in whole parts of a unit."""
    parts = np.rint(PARTS * (work.value - work.middle)).astype(np.int64)
    columns = {"user": work.user, "cell": work.cell, "value": parts}
    return pl.LazyFrame(columns)


def lengths(work: common.Work, cells: int, rows: int) -> Any:  # noqa: ANN401  the library's own type
    """Return a query of records cut by hand, whose numbers per cell are public."""
    # A changed record is one taken away and one put in its place.
    bound = dp.polars.Bound(by=["cell"], per_group=2 * rows, num_groups=cells)
    context = dp.Context.compositor(
        data=frame(work.cut(cells, rows)),
        privacy_unit=dp.unit_of(contributions=[bound] if cells else 2 * rows),
        privacy_loss=dp.loss_of(epsilon=common.EPSILON),
        margins=[
            dp.polars.Margin(
                by=["cell"], invariant="lengths", max_length=len(work.value), max_groups=work.cells
            )
        ],
    )
    return context.query(epsilon=common.EPSILON).group_by("cell")


def truncated(work: common.Work, cells: int, rows: int) -> Any:  # noqa: ANN401  as above
    """Return a query that cuts what a user contributes; which cells there are is public."""
    margin = dp.polars.Margin(by=["cell"], max_length=len(work.value), max_groups=work.cells)
    context = dp.Context.compositor(
        data=frame(work),
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(epsilon=common.EPSILON),
        margins=[margin],
    )
    query = context.query(epsilon=common.EPSILON)
    if not cells:  # random records of a user, whatever their cells
        return query.truncate_per_group(rows).group_by("cell")
    query = query.truncate_per_group(rows, by=["cell"])
    # Cells drawn at random (`keep="sample"`) fail here: two columns get the same name.
    return query.truncate_num_groups(cells, by=["cell"], keep="first").group_by("cell")


def quantiles(work: common.Work, *, rows: int, threshold: float) -> dict[str, NDArray[np.float64]]:
    """Return both quantiles and the share of each cell."""
    above = (work.value > threshold).astype(np.int64)
    columns = {"user": work.user, "cell": work.cell, "value": work.value, "above": above}
    context = dp.Context.compositor(
        data=pl.LazyFrame(columns),
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(epsilon=common.EPSILON),
        margins=[dp.polars.Margin(by=["cell"], max_length=len(work.value), max_groups=work.cells)],
    )
    candidates = np.linspace(work.lower, work.upper, common.CANDIDATES).tolist()
    asked = [
        pl.col("value").dp.quantile(level, candidates).alias(name)
        for name, level in common.QUANTILES.items()
    ]
    query = context.query(epsilon=common.EPSILON).truncate_per_group(rows).group_by("cell")
    query = query.agg(*asked, pl.col("above").dp.sum((0, 1)), dp.len())
    found = query.with_keys(pl.LazyFrame({"cell": range(work.cells)})).release().collect()
    share = found["above"].to_numpy() / np.maximum(found["len"].to_numpy(), 1)
    numbers = {name: found[name].to_numpy() for name in common.QUANTILES} | {common.SHARE: share}
    cell = found["cell"].to_numpy()
    return {name: work.filled(cell, one, np.nan) for name, one in numbers.items()}


if __name__ == "__main__":
    common.main(averages, quantiles=quantiles)
