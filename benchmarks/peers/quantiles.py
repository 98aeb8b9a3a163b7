"""Medians, 85th percentiles and shares by other libraries and by hexveil, of the same records.

``python benchmarks/peers/quantiles.py [--set NAME ...] [--only NAME ...] [--runs N] [--tune]
[--folder DIR] [--commit]``. The frame is that of run.py: environments from the pinned versions, a
process for each run, ε = 1 for all three statistics of all cells together. Settings were chosen on
the true errors (`--tune` prints those of a grid), which nobody could who has only private records.
`--commit` puts the rows into results.json and writes the table of the page anew.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the files beside this one

import numpy as np  # noqa: E402  a library that is not beside this file
import pages  # noqa: E402  beside this file
import pyarrow.parquet as pq  # noqa: E402  as numpy
import run  # noqa: E402  beside this file
import works  # noqa: E402  beside this file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

THRESHOLDS = {"flights": 400.0, "surat-6": 30.0, "warsaw-6": 30.0}
LEVELS = {"p50": 0.5, "p85": 0.85}
SHARE = "share"
NAMES = (*LEVELS, SHARE)
RUNS = 4
GRID = {"cells": (1, 2, 4, 8), "rows": (1, 2)}


@dataclass(frozen=True)
class Way:
    """A way of making quantiles and shares: library, promise, and the best settings of each set."""

    library: str
    promise: str
    settings: Mapping[str, Mapping[str, Any]]
    is_ranged: bool = False
    runs: int = RUNS

    @property
    def script(self) -> Path:
        """Return the file of the script."""
        return HERE / f"quantiles_by_{self.library.replace('-', '_').replace('.', '_')}.py"


def cut(*each: tuple[int, int]) -> dict[str, dict[str, int]]:
    """Return cells and rows for each set; without cells, rows of a user wherever they are."""
    return {
        name: {"cells": cells, "rows": rows} if cells else {"rows": rows}
        for name, (cells, rows) in zip(THRESHOLDS, each, strict=True)
    }


def ours(protect: str) -> dict[str, dict[str, Any]]:
    """Return the settings of hexveil; the number of users is declared as it is."""
    users = {"flights": 4037, "surat-6": 302, "warsaw-6": 1556}
    return {name: {"protect": protect, "users": users[name]} for name in THRESHOLDS}


PEERS = {
    "diffprivlib": ("values", cut((4, 1), (1, 2), (1, 2)), 4),
    "opendp": ("presence", cut((0, 1), (0, 1), (0, 1)), 4),
    "pipeline-dp": ("presence", cut((4, 1), (1, 1), (1, 1)), 4),
    "tmlt.analytics": ("presence", cut((4, 1), (1, 1), (1, 1)), 1),
}
WAYS = {
    **{
        name + (", our range" if ranged else ""): Way(name, promise, settings, ranged, runs)
        for name, (promise, settings, runs) in PEERS.items()
        for ranged in (False, True)
    },
    "hexveil, presence": Way("hexveil", "presence", ours("presence")),
    "hexveil, values": Way("hexveil", "values", ours("values")),
}


def truth(file: Path, threshold: float) -> dict[str, NDArray[np.float64]]:
    """Return the true statistics of each cell."""
    table = pq.read_table(file)
    cell, value = (table[name].to_numpy() for name in ("cell", "value"))
    order = np.argsort(cell, kind="stable")
    values = np.split(value[order], np.cumsum(np.bincount(cell))[:-1])
    found = {
        name: np.array([np.quantile(one, q, method="inverted_cdf") for one in values])
        for name, q in LEVELS.items()
    }
    return found | {SHARE: np.array([(one > threshold).mean() for one in values])}


def once(
    way: Way, python: Path, file: Path, settings: Sequence[Mapping[str, Any]]
) -> list[dict[str, float]]:
    """Run a script; return the mean absolute errors of each of its settings."""
    true = truth(file, settings[0]["threshold"])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "statistics.parquet"
        run.run([python, way.script, file, out, "--settings", json.dumps(settings)], "its script")
        found = pq.read_table(out)
    cells = true[SHARE].size
    return [
        {
            name: round(float(np.abs(found[name].to_numpy()[begin:][:cells] - one).mean()), 5)
            for name, one in true.items()
        }
        for begin in range(0, len(settings) * cells, cells)
    ]


def constants(file: Path, threshold: float) -> dict[str, float]:
    """Return the error of the best constant for each statistic."""
    true = truth(file, threshold)
    return {name: round(float(np.abs(x - np.median(x)).mean()), 5) for name, x in true.items()}


def measure(name: str, which: str, file: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Measure one way on one set."""
    way = WAYS[name]
    python = run.environment(way.library, given.folder, given.python)
    known = run.facts(python, way.library)
    settings = {**way.settings[which], "threshold": THRESHOLDS[which]}
    errors = []
    for _ in range(given.runs or way.runs):
        ranged = run.private_range(file) if way.is_ranged else {}
        errors += once(way, python, file, [{**settings, **ranged}])
    means = {one: float(f"{statistics.fmean(e[one] for e in errors):.3g}") for one in NAMES}
    shown = "  ".join(f"{one} {mean:7.3g}" for one, mean in means.items())
    print(f"{which:8} {name:26} {shown}  {len(errors)} runs", flush=True)
    return row_of(name, which, known, means, len(errors))


def row_of(
    name: str, which: str, known: Mapping[str, str], means: Mapping[str, float], runs: int
) -> dict[str, Any]:
    """Return what results.json keeps of one way on one set."""
    way = WAYS[name]
    told = {"library": way.library, "promise": way.promise, "is_ranged": way.is_ranged}
    settings = {**way.settings[which], "threshold": THRESHOLDS[which]}
    found = {"settings": settings, "means": dict(means), "runs": runs}
    return {"name": name, "set": which, **told, **known, **found}


def tune(name: str, which: str, file: Path, given: argparse.Namespace) -> None:
    """Print the errors of a grid of settings in parts of the constants', the best first."""
    way, constant = WAYS[name], constants(file, THRESHOLDS[which])
    python = run.environment(way.library, given.folder, given.python)
    cells = (0,) if name.startswith("opendp") else GRID["cells"]
    rows = (1, 2, 4, 8, 16) if name.startswith("opendp") else GRID["rows"]
    tried: list[dict[str, Any]] = [
        ({"cells": c} if c else {}) | {"rows": r, "threshold": THRESHOLDS[which]}
        for c, r in itertools.product(cells, rows)
    ]
    total = np.zeros(len(tried))
    for _ in range(given.runs or 3):
        found = once(way, python, file, tried)
        total += [sum(one[name] / constant[name] for name in NAMES) for one in found]
    for place in np.argsort(total)[:4]:
        parts = total[place] / (given.runs or 3) / len(NAMES)
        print(f"{which:8} {name:20} {parts:.2f} {tried[place]}", flush=True)


def main() -> int:
    """Measure, or tune, what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=WAYS, metavar="NAME", default=list(WAYS))
    parser.add_argument("--set", nargs="+", choices=THRESHOLDS, default=list(THRESHOLDS))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--folder", type=Path, help="where environments and records are kept")
    parser.add_argument("--python", default=sys.executable, help="3.11 is what was measured with")
    parser.add_argument("--commit", action="store_true", help="write results.json and the page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hexveil-peers-") as folder:
        given.folder = (given.folder or Path(folder)).resolve()
        given.folder.mkdir(parents=True, exist_ok=True)
        for which, name in itertools.product(given.set, given.only):
            file = given.folder / f"{which}.parquet"
            if not file.exists():
                works.write(which, file)
            if given.tune:
                tune(name, which, file, given)
                continue
            try:
                row = measure(name, which, file, given)
            except run.CannotRunError as why:
                print(f"{which:8} {name:26} {why}", flush=True)
                continue
            if given.commit:
                about = constants(file, THRESHOLDS[which])
                pages.commit_quantiles(which, about, row, list(WAYS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
