"""Six other libraries and hexveil on the same records: errors of averages, CPU seconds.

``python benchmarks/peers/run.py [--only NAME ...] [--set NAME ...] [--quick] [--runs N]``. For
each library it makes an environment from the pinned versions beside this file (with the Python of
`--python`, in the folder `--folder` or a temporary one), writes the records once (works.py), and
runs the library's script in a process of its own, which publishes the average of each cell so that
a user loses epsilon 1 in all. Here the averages are compared with the true ones, and the CPU
seconds of the process and of those that it started are taken: interpreter, imports and reading
included. What cannot be installed or fails is reported with its reason.

Settings were chosen on the true averages, by `--tune NAME`, which prints the errors of a grid of
them: nobody who has only private records could. hexveil has its defaults. `--commit` replaces what
results.json has of the same libraries and sets, and writes the tables of the page anew.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the files beside this one

import numpy as np  # noqa: E402  a library that is not beside this file
import pages  # noqa: E402  beside this file
import pyarrow.parquet as pq  # noqa: E402  as numpy
import works  # noqa: E402  beside this file

from hexveil.accounting.promise import PARTS  # noqa: E402  as numpy
from hexveil.mechanisms.contract import MemoryJournal, execute  # noqa: E402  as numpy
from hexveil.mechanisms.presence import PresenceSums  # noqa: E402  as numpy
from hexveil.mechanisms.presence.presence_allocation import MapForm, PresenceAllocation  # noqa: E402  as numpy
from hexveil.mechanisms.sensitivity_report import Meter  # noqa: E402  as numpy
from hexveil.mechanisms.simulated_noise import SimulatedNoise  # noqa: E402  as numpy
from hexveil.model.private_pairs import PrivatePairs  # noqa: E402  as numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

SECONDS = 1_800
"""The most that one run may take, by the clock."""
PATIENCE = 10
"""Seconds for processes that a script left behind to end."""
ADOPT = 36
"""The number of Linux's PR_SET_CHILD_SUBREAPER: processes left behind become this one's."""
RUNS = {"flights": 8, "big": 1, "surat-6": 8, "warsaw-6": 8}
SLOW_RUNS = {"flights": 4, "big": 1, "surat-6": 4, "warsaw-6": 4}
RANGE_EPSILON = 0.2
"""What our private clipping range costs where a peer is given it."""
QUICK_ROWS = 200_000
GRID = {"cells": (2, 4, 8, 16, 32), "rows": (1, 2, 4)}


@dataclass(frozen=True)
class Peer:
    """A way of making numbers: its library, settings for each set, and task if not averages."""

    library: str
    flights: Mapping[str, Any]
    big: Mapping[str, Any] = field(default_factory=dict)
    buses: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=lambda: RUNS)
    is_ranged: bool = False
    task: str = ""

    @property
    def script(self) -> Path:
        """Return the file of its script."""
        return HERE / f"by_{self.library.replace('-', '_').replace('.', '_')}.py"

    def settings(self, which: str) -> Mapping[str, Any]:
        """Return the settings for a set."""
        of_set = {"flights": self.flights, "big": self.big}
        return of_set.get(which, self.buses or self.flights)


def cut(cells: int, rows: int, **others: str) -> dict[str, Any]:
    """Return settings: the most cells of a user, and the most records of a user in a cell."""
    return {**others, "cells": cells, "rows": rows}


def peer(library: str, *each: tuple[int, int], way: str) -> Peer:
    """Return a way with settings for flights, the large set and buses."""
    flights, large, buses = (cut(*one, way=way) for one in each)
    return Peer(library, flights, large, buses)


LIBRARIES = {
    "diffprivlib": Peer("diffprivlib", cut(4, 1), cut(16, 1), cut(2, 1)),
    "python-dp": Peer("python-dp", cut(8, 1), cut(8, 1), cut(2, 1)),
    "opendp, lengths": peer("opendp", (4, 1), (16, 1), (2, 1), way="lengths"),
    "opendp, query": peer("opendp", (0, 8), (0, 16), (0, 2), way="query"),
    "pipeline-dp": Peer("pipeline-dp", cut(8, 1), cut(8, 1), cut(2, 1)),
    "tmlt.analytics": Peer("tmlt.analytics", cut(8, 1), cut(8, 1), cut(2, 1), runs=SLOW_RUNS),
    "smartnoise-sql": Peer("smartnoise-sql", {"rows": 2}, {"rows": 16}, {"rows": 2}),
}
PEERS = {
    **LIBRARIES,
    **{f"{name}, our range": replace(peer, is_ranged=True) for name, peer in LIBRARIES.items()},
    "hexveil, presence": Peer("hexveil", {"users": 4037}, {"users": 100_000}, task="presence"),
    **{
        f"hexveil, {way}": Peer("hexveil", {"clipping_range": way}, {"clipping_range": way})
        for way in ("auto", "bounds", "private")
    },
}


class CannotRunError(Exception):
    """Why a library could not be installed or run."""


@dataclass(frozen=True)
class Row:
    """What one way needed for one set, and how far it was off."""

    name: str
    set: str
    library: str
    version: str = ""
    python: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    errors: Sequence[float] = ()
    cpu: Sequence[float] = ()
    failed: str = ""


def run(command: Sequence[object], what: str) -> float:
    """Run a command, and return the CPU seconds of it and of all that it started."""
    before = spent()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=HERE,
        )
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise CannotRunError(f"{what} took over {SECONDS} seconds") from None
        if code:
            said.seek(0)
            print(said.read()[-2_000:], file=sys.stderr)
            raise CannotRunError(f"{what} failed with exit code {code}")
    reap()
    return spent() - before


def reap() -> None:
    """Wait for what a process left behind, so that its CPU seconds are counted too."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not found:
            time.sleep(0.05)


def spent() -> float:
    """Return the CPU seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(library: str, folder: Path, python: str) -> Path:
    """Return the Python of a library's own environment, which is made if it is not there."""
    if library == "hexveil":
        return Path(sys.executable)
    place = folder / library
    if not (place / "ready").exists():
        print(f"  installing {library}", flush=True)
        run([python, "-m", "venv", "--clear", place], "making an environment")
        pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet"]
        run([*pip, "--requirement", HERE / f"{library}.txt"], "installing")
        (place / "ready").touch()
    return place / "bin" / "python"


def facts(python: Path, library: str) -> dict[str, str]:
    """Return the versions of a library and of its Python."""
    code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]), *sys.version_info)"
    done = subprocess.run([python, "-c", code, library], check=True, capture_output=True, text=True)
    version, major, minor, micro, *_ = done.stdout.split()
    return {"version": version, "python": f"{major}.{minor}.{micro}"}


def once(
    python: Path, peer: Peer, work: Path, settings: Sequence[Mapping[str, Any]], repeats: int = 1
) -> tuple[dict[str, NDArray[np.float64]], float]:
    """Run a script; return each column by settings, repeat and cell, and the CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.parquet"
        told = ["--settings", json.dumps(settings), "--repeats", repeats]
        told += ["--task", peer.task] if peer.task else []
        used = run([python, peer.script, work, out, *told], "its script")
        table = pq.read_table(out)
    shape = len(settings), repeats, -1
    return {name: table[name].to_numpy().reshape(shape) for name in table.column_names}, used


def measure(name: str, which: str, work: Path, given: argparse.Namespace) -> Row:
    """Measure one way on one set, each run in a process of its own."""
    peer = PEERS[name]
    settings = dict(peer.settings(which))
    if peer.task == "presence":
        settings = {"users": works.truth(work).users}
    shown = {**settings, "is_ranged": True} if peer.is_ranged else settings
    row = Row(name, which, peer.library, settings=shown)
    try:
        python = environment(peer.library, given.folder, given.python)
        known = facts(python, peer.library)
        n_runs = given.runs or peer.runs[which]
        ranges = [private_range(work) if peer.is_ranged else {} for _ in range(n_runs)]
        runs = [once(python, peer, work, [{**settings, **one}]) for one in ranges]
    except CannotRunError as why:
        print(f"{which:8} {name:18} {why}", flush=True)
        return Row(name, which, peer.library, settings=shown, failed=str(why))
    true = works.truth(work)
    errors = [round(true.error(found["mean"][0, 0]), 4) for found, _ in runs]
    used = [round(seconds, 2) for _, seconds in runs]
    print(
        f"{which:8} {name:18} {known['version']:9} error {statistics.fmean(errors):7.2f}"
        f"  CPU {statistics.fmean(used):8.2f} s  {len(runs)} runs",
        flush=True,
    )
    return Row(**{**asdict(row), **known, "errors": errors, "cpu": used})


def private_range(file: Path) -> dict[str, float]:
    """Return our private clipping range of a set, as its stages choose it, and the ε left."""
    schema = pq.read_schema(file)
    public, table = json.loads(schema.metadata[b"public"]), pq.read_table(file)
    user, cell = (table[name].to_numpy() for name in ("user", "cell"))
    quanta = np.rint(1000 * (table["value"].to_numpy() - public["lower"])).astype(np.int64)
    pairs = PrivatePairs(cell, user, np.ones_like(cell), quanta)
    span = public["upper"] - public["lower"]
    form = MapForm(Fraction(str(RANGE_EPSILON)))
    plan = PresenceAllocation(
        public["cells"],
        round(1000 * span),
        Fraction(1),
        form,
        typical_weight=np.unique(user).size / public["cells"] / 2,
    )
    noise, sums = SimulatedNoise(np.random.default_rng(), 1), PresenceSums(pairs)
    outputs = execute(plan, sums, noise, MemoryJournal(), Meter(plan.losses()))
    window = plan.fine_window(outputs)
    return {
        "lower": public["lower"] + span * window.low[0] / PARTS,
        "upper": public["lower"] + span * window.high[0] / PARTS,
        "epsilon": 1 - RANGE_EPSILON,
    }


def tune(name: str, work: Path, given: argparse.Namespace) -> None:
    """Print the errors of a grid of settings, the best first."""
    peer = PEERS[name]
    python = environment(peer.library, given.folder, given.python)
    known = peer.settings(works.NAMES[0])
    if known.get("cells"):
        names = ("cells", "rows")
        grid = [dict(zip(names, one, strict=True)) for one in itertools.product(*GRID.values())]
    else:
        grid = [{"rows": rows} for rows in (2, 4, 8, 16, 32, 64)]
    tried = [{**known, **one} for one in grid]
    (found, _), true = once(python, peer, work, tried, given.runs or 5), works.truth(work)
    means = [statistics.fmean(map(true.error, one)) for one in found["mean"]]
    ranked = sorted(zip(means, map(str, tried), strict=True))
    for error, settings in ranked:
        print(f"{name:18} {error:7.2f}  {settings}")


def written(which: str, given: argparse.Namespace) -> Path:
    """Return the file of a set, made if it is not there."""
    rows = QUICK_ROWS if given.quick else works.ROWS
    file: Path = given.folder / (f"big-{rows}.parquet" if which == "big" else f"{which}.parquet")
    if not file.exists():
        works.write(which, file, rows)
    true = works.truth(file)
    print(f"{which}: {true.rows:,} records, {true.users:,} users, {true.means.size:,} cells")
    print(f"  the best constant misses {true.constant:.2f} {works.UNITS[which]}", flush=True)
    return file


def compare(given: argparse.Namespace) -> None:
    """Measure, or tune, what is asked for."""
    for which in given.set:
        work = written(which, given)
        true = works.truth(work)
        size = {"rows": true.rows, "users": true.users, "cells": true.means.size}
        about = {**size, "unit": works.UNITS[which], "constant": round(true.constant, 4)}
        for name in given.tune or ():
            tune(name, work, given)
        for name in () if given.tune else given.only or PEERS:
            row = measure(name, which, work, given)
            if given.commit and not given.quick:
                pages.commit({which: about}, asdict(row), list(PEERS))


def arguments(ways: Mapping[str, Peer], sets: Sequence[str]) -> argparse.ArgumentParser:
    """Return the options of a comparison of these ways on these sets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=ways, metavar="NAME", help=", ".join(ways))
    parser.add_argument("--set", nargs="+", choices=sets, default=list(sets))
    parser.add_argument("--runs", type=int, help="without it several of small sets")
    parser.add_argument("--tune", nargs="+", choices=ways, metavar="NAME")
    parser.add_argument("--folder", type=Path, help="where environments and records are kept")
    parser.add_argument("--python", default=sys.executable, help="3.11 is what was measured with")
    parser.add_argument("--commit", action="store_true", help="write results.json and the page")
    return parser


def within_folder(given: argparse.Namespace, work: Callable[[argparse.Namespace], None]) -> None:
    """Compare in the folder that was named, or in a temporary one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="hexveil-peers-") as folder:
        given.folder = (given.folder or Path(folder)).resolve()
        given.folder.mkdir(parents=True, exist_ok=True)
        work(given)


def main() -> int:
    """Read the command line, and compare."""
    parser = arguments(PEERS, works.NAMES)
    parser.add_argument("--quick", action="store_true", help="the large set in little")
    within_folder(parser.parse_args(), compare)
    return 0


if __name__ == "__main__":
    sys.exit(main())
