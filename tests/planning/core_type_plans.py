"""Plans of one goal, made as by several processors: equal but for their last digits.

from planning import core_type_plans
folders = core_type_plans.saved("Haswell", "fleet", tmp_path, ["mean"])
hv.Plan.load(folders["mean"], core_type_plans.dataset("fleet"))
"""

import argparse
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import core_types
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
INVENTED = {"few cells": (40, 5), "fleet": (120, 12)}
"""Users and cells of invented data sets."""


@cache
def dataset(source):
    """Return a data set, the same on every processor: only whole numbers are drawn."""
    users, cells = INVENTED[source]
    draw = np.random.default_rng(1)
    activity = 2**12 // draw.integers(1, 2**12, (users, 1))
    counts = activity * draw.integers(0, 4, (users, cells)) // 6
    counts[0] += 1
    counts[np.arange(users), draw.integers(0, cells, users)] += 1
    number = hv.Occupancy.from_dense(counts).n
    value = draw.integers(0, 61, number.size)
    return sums_of(counts, number * value, number * value**2)


def made(source, goal):
    """Return the plan that this processor makes."""
    return hv.plan(dataset(source), advise=False, **GOALS[goal])


def saved(core, source, folder, goals=tuple(GOALS), threads=1):
    """Return the folder of each goal's plan, planned by another processor and saved.

    Parameters
    ----------
    core : str
        One of `core_types.possible()`.
    source : str
        One of `INVENTED`.
    folder : Path
        In which a folder of a new name is made for each plan.
    goals : sequence of str
        Keys of `GOALS`.
    threads : int
        Of OpenBLAS.
    """
    into = Path(tempfile.mkdtemp(prefix="plans-", dir=folder))
    core_types.run(
        core, "-m", "planning.core_type_plans", "--save", into, source, *goals, threads=threads
    )
    return {goal: into / goal for goal in goals}


def digest(folder):
    """Return the digest of all that a saved plan says."""
    return json.loads((folder / "plan.json").read_text("utf-8"))["digest"]


def differing(plans):
    """Return the goals whose plans differ between processors.

    Parameters
    ----------
    plans : mapping of processor to what `saved` returned, all for the same data set
    """
    goals = next(iter(plans.values()))
    return [goal for goal in goals if len({digest(one[goal]) for one in plans.values()}) > 1]


def main():
    """Save the plans of this processor."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--save", type=Path, help="save the plans of this processor in this folder")
    asked.add_argument("source")
    asked.add_argument("goals", nargs="*")
    given = asked.parse_args()
    for goal in given.goals:
        made(given.source, goal).save(given.save / goal)


if __name__ == "__main__":
    main()
