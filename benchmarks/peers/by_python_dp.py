"""Averages by python-dp (Google's library from Python), of records that were cut by hand.

Its mean hides how many records there are, and is told in how many cells a user is, with how many
records; that this holds is left to the caller. k records wherever they are, which it has no word
for, change its sums by as much as one record in each of k cells: its noise is for that.
"""

import common
from pydp.algorithms.laplacian import BoundedMean


def averages(work: common.Work, *, cells: int, rows: int) -> list[float]:
    """Return the average of each cell."""
    return [
        BoundedMean(
            epsilon=common.EPSILON,
            lower_bound=work.lower,
            upper_bound=work.upper,
            l0_sensitivity=cells or rows,
            linf_sensitivity=rows if cells else 1,
            dtype="float",
        ).quick_result(values.tolist())
        for values in work.cut(cells, rows).by_cell()
    ]


if __name__ == "__main__":
    common.main(averages)
