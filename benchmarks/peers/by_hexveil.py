"""Averages by hexveil: read, plan, book, release; the raw estimates."""

import tempfile
from pathlib import Path

import common
import numpy as np
from numpy.typing import NDArray

import hexveil as hv
from hexveil.planning.clipping_range.private_range import ClippingRangeMode


def averages(work: common.Work, *, clipping_range: ClippingRangeMode) -> NDArray[np.float64]:
    """Return the average of each cell."""
    dataset = hv.read(
        work.file,
        user="user",
        value="value",
        bounds=(int(work.lower), int(work.upper)),
        cells=hv.Labels("cell"),
        select=hv.Select(min_users=1),
        repeats="keep",
    )
    plan = hv.plan(dataset, epsilon=1, clipping_range=clipping_range, advise=False)
    with tempfile.TemporaryDirectory() as folder:
        book = hv.Ledger(Path(folder) / "book.sqlite", dataset="records", budget=1)
        table = hv.release(dataset, plan, ledger=book, accept_noise=True).table
    return work.filled([int(cell) for cell in table["cell"].to_pylist()], table["mean_raw"])


if __name__ == "__main__":
    common.main(averages, itself=True)
