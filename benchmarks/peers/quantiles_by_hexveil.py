"""Quantiles and shares by hexveil, under either privacy model: read, plan, book, release."""

import tempfile
from pathlib import Path
from typing import Any

import common
import numpy as np

import hexveil as hv


def statistics(
    work: common.Work, *, protect: str, users: int, threshold: float
) -> dict[str, np.ndarray]:
    """Return both quantiles and the share of each cell."""
    asked = (*common.QUANTILES, f"share>{threshold:g}")
    columns = {name: name for name in common.QUANTILES}
    columns[common.SHARE] = f"share_above_{threshold:g}"
    is_hidden = protect == "presence"
    names = list(map(str, range(work.cells)))
    dataset: Any = hv.read(
        work.file,
        user="user",
        value="value",
        bounds=(int(work.lower), int(work.upper)),
        cells=hv.Labels("cell", values=[names]) if is_hidden else hv.Labels("cell"),
        repeats="keep",
        statistics=asked,
        **({"protect": "presence"} if is_hidden else {"select": hv.Select(min_users=1)}),
    )
    if is_hidden:
        plan = hv.plan(dataset, epsilon=1, fleet=users, statistics=asked)
    else:
        plan = hv.plan(dataset, epsilon=1, statistics=asked)
    with tempfile.TemporaryDirectory() as folder:
        book = hv.Ledger(Path(folder) / "book.sqlite", dataset="records", budget=1)
        release = hv.release(dataset, plan, ledger=book, accept_noise=True)
    cell = [int(one) for one in release.table["cell"].to_pylist()]
    return {
        name: common.filled_by(work.cells, cell, np.asarray(release[column], float))
        for name, column in columns.items()
    }


if __name__ == "__main__":
    common.main_of_quantiles(statistics, itself=True)
