"""Medians, 85th percentiles and shares by other libraries and by hexveil, of the same records.

``python benchmarks/peers/quantiles.py [--set NAME ...] [--only NAME ...] [--runs N]
[--tune NAME ...] [--folder DIR] [--commit]``. The frame is that of run.py: environments from the
pinned versions, a process for each run, ε = 1 for all three statistics of all cells together.
Settings were chosen on the true errors (`--tune` prints those of a grid), which nobody could who
has only private records. `--commit` puts the rows into results.json and writes the table of the
page anew.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import numpy as np
import pages  # beside this file
import pyarrow.parquet as pq
import run  # beside this file
import works  # beside this file
from common import QUANTILES, SHARE  # beside this file
from run import Peer, cut

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

THRESHOLDS = {"flights": 400.0, "surat-6": 30.0, "warsaw-6": 30.0}
NAMES = (*QUANTILES, SHARE)
USERS = {"flights": 4037, "surat-6": 302, "warsaw-6": 1556}
"""What is declared where presence is private: the number of users, as it is."""
RUNS = dict.fromkeys(THRESHOLDS, 4)
SLOW_RUNS = dict.fromkeys(THRESHOLDS, 1)
GRID = {"cells": (1, 2, 4, 8), "rows": (1, 2)}
LIBRARIES = {
    "diffprivlib": Peer("diffprivlib", cut(4, 1), buses=cut(1, 2)),
    "opendp": Peer("opendp", {"rows": 1}),
    "pipeline-dp": Peer("pipeline-dp", cut(4, 1), buses=cut(1, 1)),
    "tmlt.analytics": Peer("tmlt.analytics", cut(4, 1), buses=cut(1, 1), runs=SLOW_RUNS),
}
WAYS = {
    name: replace(peer, task="quantiles", runs=SLOW_RUNS if peer.runs is SLOW_RUNS else RUNS)
    for name, peer in {
        **LIBRARIES,
        **{f"{name}, our range": replace(one, is_ranged=True) for name, one in LIBRARIES.items()},
        **{f"hexveil, {one}": Peer("hexveil", {"protect": one}) for one in ("presence", "values")},
    }.items()
}


def settings_of(way: Peer, which: str) -> dict[str, Any]:
    """Return the settings of a way for a set."""
    users = {"users": USERS[which]} if way.library == "hexveil" else {}
    return {**way.settings(which), **users, "threshold": THRESHOLDS[which]}


def promise(name: str) -> str:
    """Return what a way protects: values, or presence too."""
    hidden = not name.startswith("diffprivlib") and name != "hexveil, values"
    return "presence" if hidden else "values"


def truth(file: Path, threshold: float) -> dict[str, NDArray[np.float64]]:
    """Return the true statistics of each cell."""
    table = pq.read_table(file)
    cell, value = (table[name].to_numpy() for name in ("cell", "value"))
    order = np.argsort(cell, kind="stable")
    values = np.split(value[order], np.cumsum(np.bincount(cell))[:-1])
    found = {
        name: np.array([np.quantile(one, q, method="inverted_cdf") for one in values])
        for name, q in QUANTILES.items()
    }
    return found | {SHARE: np.array([(one > threshold).mean() for one in values])}


def once(
    way: Peer, python: Path, file: Path, settings: Sequence[Mapping[str, Any]]
) -> list[dict[str, float]]:
    """Run a script; return the mean absolute errors of each of its settings."""
    true = truth(file, settings[0]["threshold"])
    found, _ = run.once(python, way, file, settings)
    return [
        {
            name: round(float(np.abs(found[name][k, 0] - one).mean()), 5)
            for name, one in true.items()
        }
        for k in range(len(settings))
    ]


def constants(file: Path, threshold: float) -> dict[str, float]:
    """Return the error of the best constant for each statistic."""
    true = truth(file, threshold)
    return {name: round(float(np.abs(x - np.median(x)).mean()), 5) for name, x in true.items()}


def measure(name: str, which: str, file: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Return what results.json keeps of one way on one set."""
    way = WAYS[name]
    python = run.environment(way.library, given.folder, given.python)
    settings, errors = settings_of(way, which), []
    for _ in range(given.runs or way.runs[which]):
        ranged = run.private_range(file) if way.is_ranged else {}
        errors += once(way, python, file, [{**settings, **ranged}])
    means = {one: float(f"{statistics.fmean(e[one] for e in errors):.3g}") for one in NAMES}
    shown = "  ".join(f"{one} {mean:7.3g}" for one, mean in means.items())
    print(f"{which:8} {name:26} {shown}  {len(errors)} runs", flush=True)
    told = {"library": way.library, "promise": promise(name), "is_ranged": way.is_ranged}
    found = {"settings": settings, "means": means, "runs": len(errors)}
    return {"name": name, "set": which, **told, **run.facts(python, way.library), **found}


def tune(name: str, which: str, file: Path, given: argparse.Namespace) -> None:
    """Print the errors of a grid of settings in parts of the constants', the best first."""
    way, constant = WAYS[name], constants(file, THRESHOLDS[which])
    python = run.environment(way.library, given.folder, given.python)
    grid = GRID if "cells" in way.flights else {"rows": (1, 2, 4, 8, 16)}
    tried: list[dict[str, Any]] = [
        dict(zip(grid, one, strict=True), threshold=THRESHOLDS[which])
        for one in itertools.product(*grid.values())
    ]
    total = np.zeros(len(tried))
    for _ in range(given.runs or 3):
        found = once(way, python, file, tried)
        total += [sum(one[name] / constant[name] for name in NAMES) for one in found]
    for place in np.argsort(total)[:4]:
        parts = total[place] / (given.runs or 3) / len(NAMES)
        print(f"{which:8} {name:20} {parts:.2f} {tried[place]}", flush=True)


def compare(given: argparse.Namespace) -> None:
    """Measure, or tune, what is asked for."""
    for which in given.set:
        file = given.folder / f"{which}.parquet"
        if not file.exists():
            works.write(which, file)
        for name in given.tune or ():
            tune(name, which, file, given)
        for name in () if given.tune else given.only or WAYS:
            try:
                row = measure(name, which, file, given)
            except run.CannotRunError as why:
                print(f"{which:8} {name:26} {why}", flush=True)
                continue
            if given.commit:
                about = {which: constants(file, THRESHOLDS[which])}
                pages.commit(about, row, list(WAYS), "quantiles")


if __name__ == "__main__":
    run.within_folder(run.arguments(WAYS, list(THRESHOLDS)).parse_args(), compare)
