"""Averages by smartnoise-sql: a query in SQL, of which a user's records are sampled by itself.

It has one bound, on the records of a user in all cells. Its epsilon is that of each statistic, and
an average is made of two; so the epsilon given is divided by what it says that the query costs.
Values are measured from the middle of the bounds: it halves what a record may change.
"""

import common
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from snsql import Privacy, from_df

QUERY = "SELECT cell, AVG(value) AS mean FROM it.work GROUP BY cell"


def averages(work: common.Work, *, rows: int) -> NDArray[np.float64]:
    """Return the average of each cell."""
    half = (work.upper - work.lower) / 2
    columns = {
        "user": {"private_id": True, "type": "int"},
        "cell": {"type": "int"},
        "value": {"type": "float", "lower": -half, "upper": half},
    }
    bounds = {"max_ids": rows, "censor_dims": False}
    metadata = {"": {"it": {"work": {"row_privacy": False, **bounds, **columns}}}}
    frame = pd.DataFrame({"user": work.user, "cell": work.cell, "value": work.value - work.middle})
    asked = Privacy(epsilon=common.EPSILON, delta=1e-9)
    cost, _ = from_df(frame[:1], privacy=asked, metadata=metadata).get_privacy_cost(QUERY)
    given = Privacy(epsilon=common.EPSILON**2 / cost, delta=1e-9)
    found = from_df(frame, privacy=given, metadata=metadata).execute(QUERY)[1:]
    cell, mean = np.asarray(found, float).T
    return work.filled(cell, mean + work.middle)


if __name__ == "__main__":
    common.main(averages)
