"""Averages by hexveil with private presence: read, place on the declared cells, book, release."""

import tempfile
from pathlib import Path

import common
import numpy as np
from numpy.typing import NDArray

import hexveil as hv


def averages(work: common.Work, *, users: int) -> NDArray[np.float64]:
    """Return the average of each cell of a fleet declared to have so many users."""
    dataset = hv.read(
        work.file,
        user="user",
        value="value",
        bounds=(int(work.lower), int(work.upper)),
        cells=hv.Labels("cell", values=[list(map(str, range(work.cells)))]),
        repeats="keep",
        protect="presence",
    )
    plan = hv.plan(dataset, epsilon=common.EPSILON, fleet=users)
    with tempfile.TemporaryDirectory() as folder:
        book = hv.Ledger(Path(folder) / "book.sqlite", dataset="records", budget=1)
        table = hv.release(dataset, plan, ledger=book, accept_noise=True).to_arrow()
    return work.filled([int(cell) for cell in table["cell"].to_pylist()], table["mean"])


if __name__ == "__main__":
    common.main(averages, itself=True)
