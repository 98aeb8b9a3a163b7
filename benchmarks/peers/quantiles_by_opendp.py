"""Quantiles and shares by OpenDP's queries over Polars, which cut what a user contributes.

A quantile is selected among candidates by noise on its ranks; a share is a noisy sum of zeros and
ones over a noisy length. The library divides ε among the numbers of a query.
"""

import common
import numpy as np
import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def statistics(work: common.Work, *, rows: int, threshold: float) -> dict[str, np.ndarray]:
    """Return both quantiles and the share of each cell."""
    frame = pl.LazyFrame(
        {
            "user": work.user,
            "cell": work.cell,
            "value": work.value,
            "above": (work.value > threshold).astype(np.int64),
        }
    )
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(epsilon=common.EPSILON),
        margins=[dp.polars.Margin(by=["cell"], max_length=len(work.value), max_groups=work.cells)],
    )
    candidates = np.linspace(work.lower, work.upper, common.CANDIDATES).tolist()
    quantiles = [
        pl.col("value").dp.quantile(level, candidates).alias(name)
        for name, level in common.QUANTILES.items()
    ]
    query = context.query(epsilon=common.EPSILON).truncate_per_group(rows).group_by("cell")
    query = query.agg(*quantiles, pl.col("above").dp.sum((0, 1)), dp.len())
    found = query.with_keys(pl.LazyFrame({"cell": range(work.cells)})).release().collect()
    share = found["above"].to_numpy() / np.maximum(found["len"].to_numpy(), 1)
    numbers = {name: found[name].to_numpy() for name in common.QUANTILES} | {common.SHARE: share}
    cell = found["cell"].to_numpy()
    return {name: common.filled_by(work.cells, cell, one) for name, one in numbers.items()}


if __name__ == "__main__":
    common.main_of_quantiles(statistics)
