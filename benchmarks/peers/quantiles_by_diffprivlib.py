"""Quantiles and shares by diffprivlib, of records that were cut by hand.

Each of its functions takes how many records there are for public, and one record for what may
change: with k records of a user in all and three statistics, each gets epsilon / 3 k.
"""

import math

import common
from diffprivlib import tools


def statistics(
    work: common.Work, *, cells: int, rows: int, threshold: float
) -> dict[str, list[float]]:
    """Return both quantiles and the share of each cell."""
    epsilon = common.EPSILON / (common.QUERIES * max(cells, 1) * rows)
    values = work.cut(cells, rows).by_cell()
    bounds = (work.lower, work.upper)

    found: dict[str, list[float]] = {name: [] for name in (*common.QUANTILES, common.SHARE)}
    for one in values:
        for name, level in common.QUANTILES.items():
            found[name].append(
                tools.quantile(one, level, epsilon=epsilon, bounds=bounds) if one.size else math.nan
            )
        above = (one > threshold).astype(float)
        share = tools.mean(above, epsilon=epsilon, bounds=(0, 1)) if one.size else math.nan
        found[common.SHARE].append(share)
    return found


if __name__ == "__main__":
    common.main_of_quantiles(statistics)
