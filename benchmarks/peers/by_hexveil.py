"""Averages (raw), quantiles and shares by hexveil, under either model: read, plan, release."""

import tempfile
from pathlib import Path
from typing import Any

import common
import numpy as np
from numpy.typing import NDArray

import hexveil as hv
from hexveil.planning.request import ClippingRangeMode


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


def presence(work: common.Work, *, users: int) -> NDArray[np.float64]:
    """Return the average of each cell of a fleet declared to have so many users."""
    return published(work, users, "mean")["mean"]


def quantiles(
    work: common.Work, *, protect: str, users: int, threshold: float
) -> dict[str, NDArray[np.float64]]:
    """Return both quantiles and the share of each cell."""
    share = f"share_above_{threshold:g}"
    statistics = (*common.QUANTILES, f"share>{threshold:g}")
    columns = (*common.QUANTILES, share)
    found = published(work, users * (protect == "presence"), *columns, statistics=statistics)
    return found | {common.SHARE: found[share]}


def published(
    work: common.Work, users: int, *columns: str, statistics: tuple[str, ...] = ()
) -> dict[str, NDArray[np.float64]]:
    """Return columns of a release; of users whose presence is private if their number is given."""
    names = [list(map(str, range(work.cells)))] if users else None
    more: dict[str, Any] = {"protect": "presence"} if users else {"select": hv.Select(min_users=1)}
    dataset = hv.read(
        work.file,
        user="user",
        value="value",
        bounds=(int(work.lower), int(work.upper)),
        cells=hv.Labels("cell", values=names),
        repeats="keep",
        statistics=statistics,
        **more,
    )
    plan = hv.plan(dataset, epsilon=1, fleet=users or None, statistics=statistics or None)
    with tempfile.TemporaryDirectory() as folder:
        book = hv.Ledger(Path(folder) / "book.sqlite", dataset="records", budget=1)
        release = hv.release(dataset, plan, ledger=book, accept_noise=True)
    cell = [int(one) for one in release.table["cell"].to_pylist()]
    return {name: work.filled(cell, release[name], np.nan) for name in columns}


if __name__ == "__main__":
    common.main(averages, presence=presence, quantiles=quantiles, itself=True)
