"""Averages by diffprivlib: its mean of each cell, of records that were cut by hand.

Its mean takes how many records there are for public, and one record for what may change: with
k records of a user in all, wherever they are, each mean gets epsilon / k.
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


if __name__ == "__main__":
    common.main(averages)
