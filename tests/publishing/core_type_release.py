"""Plans and releases as another processor makes them: planned, booked, drawn or shown again there.

python -m publishing.core_type_release LEDGER PLANS
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np

import hexveil as hv
from planning.sums import sums_of

BOTH = ("mean", "variance")
GOALS = {
    "mean": {"epsilon": 1},
    "both": {"epsilon": 20, "statistics": BOTH},
    "private": {"epsilon": 2, "clipping_range": "private"},
    "global, both": {"epsilon": 20, "clipping_range": "private", "statistics": BOTH},
    "cell ranges": {"epsilon": 2, "clipping_range": "per-cell"},
    "target": {"target_error": "10%"},
    "per-cell": {"epsilon": 1, "method": "per-cell"},
}
RELEASED = ("mean", "both", "cell ranges")


@cache
def dataset():
    """Return a data set of few cells, the same on every processor: whole numbers are drawn."""
    draw, users, cells = np.random.default_rng(1), 40, 5
    activity = 2**12 // draw.integers(1, 2**12, (users, 1))
    counts = activity * draw.integers(0, 4, (users, cells)) // 6
    counts[0] += 1
    counts[np.arange(users), draw.integers(0, cells, users)] += 1
    number = hv.Occupancy.from_dense(counts).n
    value = draw.integers(0, 61, number.size)
    return sums_of(counts, number * value, number * value**2)


def made(goal):
    """Return the plan that this processor makes."""
    return hv.plan(dataset(), advise=False, **GOALS[goal])


def released(ledger, goal, plan):
    """Release for a goal; return what came of it."""
    book = hv.Ledger(ledger, dataset=goal, budget=1000)
    shown = hv.release(dataset(), plan, ledger=book, accept_noise=True)
    return {
        "noisy": {n: shown.table[n].to_pylist() for n in shown.table.column_names if "_noisy" in n},
        "epsilon": str(shown.epsilon),
        "replayed": shown.replayed,
        "spent": str(book.spent),
    }


def main(ledger, folder):
    """Save the plan of each goal in a new folder, release some, and print what came of these."""
    plans = {goal: made(goal) for goal in GOALS}
    folder.mkdir()
    for goal, plan in plans.items():
        plan.save(folder / goal)
    said = {goal: released(ledger, goal, plans[goal]) for goal in RELEASED}
    print(json.dumps(said))  # noqa: T201  read by the test


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
