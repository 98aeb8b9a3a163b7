"""Raw and smoothed estimates where smoothing has least to say, beside one constant.

``python -m benchmarks.smoothing [--runs N] [--epsilon E]``. Simulated records of 20, 60 and 300
users in 24 cells named by a label, values within 0 and 60: true averages without structure, hardly
any difference between cells, or values piled at the two bounds. Each run is a release through the
ledger and the noise library. Prints average errors over cells and runs, and how often the smoothed
estimates' intervals hold the true averages.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import hexveil as hv
from hexveil.planning.clipping_range.private_range import ClippingRangeMode
from hexveil.records import Dataset

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
from reach import truth

CELLS, USERS = 24, (20, 60, 300)
RANGES: tuple[ClippingRangeMode, ...] = ("bounds", "private", "auto")
KINDS = ("no structure", "hardly any difference", "piled at the bounds")


def records(kind: str, users: int) -> Dataset:
    """Return simulated records, read; three cells in four have a given user."""
    rng = np.random.default_rng(users)
    user, cell = (part.ravel() for part in np.indices((users, CELLS)))
    there = rng.random(user.size) < 0.75
    rows = np.repeat(np.flatnonzero(there), rng.geometric(0.2, int(there.sum())))
    user, cell = user[rows], cell[rows]
    middle = rng.uniform(15.0, 45.0, CELLS) if kind == KINDS[0] else rng.normal(30, 0.5, CELLS)
    value = middle[cell] + rng.normal(0, 4, users)[user] + rng.normal(0, 8, user.size)
    if kind == KINDS[2]:
        value = np.where(rng.random(user.size) < rng.uniform(0.2, 0.8, CELLS)[cell], 60.0, 0.0)
    table = pa.table({"user": user.astype(str), "place": cell.astype(str), "value": value})
    return hv.read(
        table,
        user="user",
        value="value",
        bounds=(0, 60),
        cells=hv.Labels("place"),
        select=hv.Select(min_users=1),
        repeats="keep",
    )


def row(
    dataset: Dataset, clipping_range: ClippingRangeMode, epsilon: str, runs: int
) -> list[float]:
    """Return the errors of a constant, raw and smoothed numbers, and the intervals' coverage."""
    true = truth(dataset)
    plan = hv.plan(dataset, epsilon=epsilon, clipping_range=clipping_range, advise=False)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            book = hv.Ledger(Path(folder) / "book.sqlite", dataset=f"run {run}", budget=epsilon)
            table = hv.release(
                dataset, plan, ledger=book, accept_noise=True, estimates=("raw", "smoothed")
            ).table
            raw, smooth, low, high = (
                table[f"mean_{key}"].to_numpy() for key in ("raw", "smoothed", "low", "high")
            )
            inside = (low <= true) & (true <= high)
            errors = np.abs(raw - true).mean(), np.abs(smooth - true).mean()
            found.append([*errors, inside.mean()])
    return [float(np.abs(true - np.median(true)).mean()), *np.mean(found, axis=0).tolist()]


def main() -> int:
    """Print a row per kind of values, number of users and kind of plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--clipping-range", nargs="+", default=list(RANGES), choices=RANGES)
    asked = parser.parse_args()
    print("| values | users | clipping range | constant | raw | smoothed | inside |")
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        for users in USERS:
            dataset = records(kind, users)
            for name in asked.clipping_range:
                *errors, inside = row(dataset, name, asked.epsilon, asked.runs)
                figures = " | ".join(f"{one:.2f}" for one in errors)
                print(f"| {kind} | {users} | {name} | {figures} | {inside:.0%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
