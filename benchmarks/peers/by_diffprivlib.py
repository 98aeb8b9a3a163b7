"""Averages, quantiles and shares by diffprivlib, of records that were cut by hand.

Each of its functions takes how many records there are for public, and one record for what may
change: with k records of a user in all, wherever they are, each mean gets epsilon / k, and each of
three statistics of a cell a third of that.
"""

import math

import common
from diffprivlib import tools


def averages(work: common.Work, *, cells: int, rows: int) -> list[float]:
    """Return the average of each cell."""
    epsilon, bounds = common.EPSILON / (max(cells, 1) * rows), (work.lower, work.upper)
    values = work.cut(cells, rows).by_cell()
    return [
        tools.mean(one, epsilon=epsilon, bounds=bounds) if one.size else math.nan for one in values
    ]


def quantiles(
    work: common.Work, *, cells: int, rows: int, threshold: float
) -> dict[str, list[float]]:
    """Return both quantiles and the share of each cell."""
    epsilon, bounds = common.EPSILON / (max(cells, 1) * rows * common.QUERIES), work.bounds
    found: dict[str, list[float]] = {name: [] for name in (*common.QUANTILES, common.SHARE)}
    for one in work.cut(cells, rows).by_cell():
        for name, level in common.QUANTILES.items():
            found[name].append(
                tools.quantile(one, level, epsilon=epsilon, bounds=bounds) if one.size else math.nan
            )
        above = (one > threshold).astype(float)
        share = tools.mean(above, epsilon=epsilon, bounds=(0, 1)) if one.size else math.nan
        found[common.SHARE].append(share)
    return found


if __name__ == "__main__":
    common.main(averages, quantiles=quantiles)
