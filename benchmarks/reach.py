"""How far maps are off over epsilon: one constant, plain Laplace, the papers' methods, ours.

``python -m benchmarks.reach flights|big|warsaw|surat [--runs N] [--epsilons E ...]`` prints a table
of mean absolute errors over cells, averaged over runs, and writes it as CSV and as a figure into
`--out` (those of docs/understand/reach.md: `--out docs/figures`). All rows are of the same records.
The constant is the best there is, the median of the true averages, which nobody may know; no plan
has it. Plans have their own defaults: nothing is tuned here, and true averages are only compared
with. `clipping_range="auto"` takes one of the other three, and has its errors.

A run draws the noise of a plan by the release's own functions and the vetted noise library. Buses
are in the hexagons that a plan at epsilon 1 proposes, or in those of `--resolution`, not divided by
time; of Surat and Warsaw (the folder `--data`) errors alone are printed, written or drawn.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import hexveil as hv
from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.sensitivity_report import UNMETERED
from hexveil.planning.allocation import allocation_of, with_outputs
from hexveil.publishing.estimates.decoded_moments import groupings_of, smooth_release
from hexveil.publishing.estimates.posterior_estimates import estimate_view
from hexveil.publishing.pipeline import private_sums
from hexveil.simulation.flights import departures
from hexveil_research.papers import drawing
from hexveil_research.papers.study import Line, Outcome, Panel, Whose, line

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the files beside this one

import big  # noqa: E402  beside this file
from collection import BUSES, truth  # noqa: E402  beside this file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil.planning.plan import Plan

    Floats = NDArray[np.float64]

RUNS, MANY = 50, 10_000
EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "5", "10")
DATA = HERE.parents[1] / "shared" / "data"
WRITTEN = Path("reproduced")
CONSTANT = "best constant, from the truth"
BAR = 1.96


@dataclass(frozen=True)
class Way:
    """A way of planning: its name, what `hv.plan` is told, and whether it is ours."""

    name: str
    options: Mapping[str, Any]
    ours: bool = False


PAPERS = (
    Way(
        "plain Laplace, equal split",
        {"method": "equal-split", "mechanism": hv.mechanisms.Baseline()},
    ),
    Way("composition, OptimalClipping", {"method": "equal-split"}),
    Way("per-cell (exact losses), OptimalClipping", {"method": "per-cell"}),
    Way("CLIP-USER", {"method": "clip-user"}),
)
INTERVALS: tuple[str, ...] = ("bounds", "private", "per-cell", "auto")
"""The private intervals that are measured, each raw and smoothed."""
AUTO = "auto"
CELLS = ("origin", "hour")
"""Of flights: airport and scheduled hour."""


def ours(intervals: Sequence[str] = INTERVALS) -> tuple[Way, ...]:
    """Return the joint plan with each of these intervals."""
    return tuple(
        Way(f'joint, clipping_range="{one}"', {"clipping_range": one}, ours=True)
        for one in intervals
    )


@dataclass(frozen=True)
class Case:
    """A data set: its unit, how it is read, the most maps that are smoothed, what is left out."""

    unit: str
    read: Callable[[argparse.Namespace], hv.Dataset]
    smoothed: int = MANY
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """The errors of one way at one epsilon: absolute, averaged over cells, then over runs.

    The standard error is that of the mean over runs; 0 of a constant.
    """

    name: str
    epsilon: str
    mean: float
    standard_error: float
    runs: int
    ours: bool = False

    @classmethod
    def of(cls, name: str, epsilon: str, errors: Sequence[float], *, ours: bool = False) -> Found:
        """Return what these errors say, one of each run."""
        few = len(errors) < 2
        error = 0.0 if few else float(np.std(errors, ddof=1) / np.sqrt(len(errors)))
        return cls(name, epsilon, float(np.mean(errors)), error, len(errors), ours)


def flights() -> hv.Dataset:
    """Return the sums of aircraft in cells of airport and scheduled hour."""
    return hv.read(
        departures(),
        user="tailnum",
        value="ground speed",
        bounds=(0, 600),
        cells=hv.Labels(*CELLS),
        select=hv.Select(min_users=1),
        repeats="keep",
    )


def buses(file: str, top: int, proposed: hv.Cells) -> Callable[[argparse.Namespace], hv.Dataset]:
    """Return what reads buses in hexagons, a bus for all time as the user."""

    def read(given: argparse.Namespace) -> hv.Dataset:
        finer = hv.Cells(given.resolution, timeslot=None) if given.resolution else proposed
        options: dict[str, Any] = {"bounds": (0, top), "protect": "values", **BUSES}
        dataset: hv.Dataset = hv.read(given.data / file, cells=finer, **options)
        return dataset

    return read


CASES = {
    "flights": Case("mph", lambda _: flights()),
    "big": Case(
        "km/h",
        lambda given: big.read(given.rows),
        3,
        {"CLIP-USER": "one plan takes over four minutes"},
    ),
    "warsaw": Case("km/h", buses("warsaw_buses.parquet", 90, hv.Cells(4, timeslot=None))),
    "surat": Case(
        "km/h", buses("surat_itms.parquet", 65, hv.Cells(5, "6h", "Asia/Kolkata", "pooled"))
    ),
}


def drawn(dataset: hv.Dataset, plan: Plan, runs: int, smooth: int) -> Iterator[dict[str, Floats]]:
    """Yield raw numbers and estimates of so many releases; of the first `smooth` smoothed ones too.

    Each is drawn as a release draws it, without a ledger: for studies only.
    """
    facts = dataset.public
    allocation, sums = allocation_of(plan.single, facts.lattice), private_sums(dataset)
    for run in range(runs):
        outputs = execute(allocation, sums, VettedNoise(), MemoryJournal(), UNMETERED)
        shown = with_outputs(plan.single, allocation, outputs)
        values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
        made = {"raw": np.clip(values["mean"], plan.lower, plan.upper)}
        effects = groupings_of(facts.cells)
        view = allocation.view(outputs)
        if view is not None:
            made["estimate"] = estimate_view(view, effects).estimate
        if run < smooth:
            made["smoothed"] = smooth_release(shown, facts, values)["mean"].estimate
        yield made


def errors(maps: Iterator[dict[str, Floats]], true: Floats) -> dict[str, list[float]]:
    """Return the mean absolute error over cells of each map, by estimate."""
    found: dict[str, list[float]] = {}
    for made in maps:
        for name, numbers in made.items():
            found.setdefault(name, []).append(float(np.abs(numbers - true).mean()))
    return found


def constant(true: Floats) -> float:
    """Return what the best constant misses on average."""
    return float(np.abs(true - np.median(true)).mean())


def measured(
    dataset: hv.Dataset, true: Floats, way: Way, epsilon: str, runs: tuple[int, int]
) -> Iterator[Found]:
    """Yield the errors of a way: raw, and for ours smoothed.

    `runs` are those drawn, and those of them that are smoothed.
    """
    many, smooth = runs
    plan = hv.plan(dataset, epsilon=epsilon, advise=False, **way.options)
    for name, each in errors(drawn(dataset, plan, many, smooth * way.ours), true).items():
        full = way.name if name == "raw" else f"{way.name}, {name}"
        yield Found.of(full, epsilon, each, ours=way.ours)


def taken(plan: Plan) -> str:
    """Return which intervals a plan by "auto" took."""
    return str(plan.allocation.clipping.mode)


def automatic(
    dataset: hv.Dataset, way: Way, epsilon: str, found: Sequence[Found]
) -> Iterator[Found]:
    """Yield the errors of "auto", which are those of the plan that it takes; say which."""
    plan = hv.plan(dataset, epsilon=epsilon, advise=False, **way.options)
    like = ours((taken(plan),))[0]
    print(f"  {way.name} at {epsilon} is {like.name}", flush=True)
    for one in found:
        if one.name in (like.name, f"{like.name}, smoothed") and one.epsilon == epsilon:
            yield replace(one, name=one.name.replace(like.name, way.name))


def reach(case: Case, dataset: hv.Dataset, given: argparse.Namespace) -> list[Found]:
    """Return the errors of all ways at all epsilons; say which is at work, and what is left out."""
    true = truth(dataset)
    found = [Found.of(CONSTANT, epsilon, [constant(true)]) for epsilon in given.epsilons]
    runs = given.runs, min(given.runs, case.smoothed)
    for way in (*PAPERS, *ours(given.clipping_range)):
        if way.name in case.without:
            print(f"  {way.name} is left out: {case.without[way.name]}", flush=True)
            continue
        for epsilon in given.epsilons:
            began = time.monotonic()
            try:
                if way.options.get("clipping_range") == AUTO:
                    found += automatic(dataset, way, epsilon, found)
                else:
                    found += measured(dataset, true, way, epsilon, runs)
            except InputError as trouble:
                print(f"  {way.name} at {epsilon}: {trouble}", flush=True)
            took = time.monotonic() - began
            print(f"  {way.name} at epsilon {epsilon}: {took:.0f} s", file=sys.stderr, flush=True)
    return found


def show(found: list[Found], unit: str, by: str = "ε =") -> None:
    """Print a row for each way, a column for each epsilon."""
    epsilons = list(dict.fromkeys(one.epsilon for one in found))
    at = {(one.name, one.epsilon): one for one in found}
    print(f"| mean absolute error, {unit}; {by} | {' | '.join(epsilons)} | runs |")
    print("|---|" + "---|" * (len(epsilons) + 1))
    for name in dict.fromkeys(one.name for one in found):
        mine = [at.get((name, epsilon)) for epsilon in epsilons]
        cells = [f"{one.mean:.3g}" if one else "" for one in mine]
        runs = 0 if name == CONSTANT else max(one.runs for one in mine if one)
        print(f"| {name} | {' | '.join(cells)} | {runs or ''} |", flush=True)


def table(found: list[Found], unit: str, by: str = "epsilon") -> bytes:
    """Return the errors as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["way", by, "mean_absolute_error", "standard_error", "runs", "unit"])
    for one in found:
        figures = (f"{one.mean:.5g}", f"{one.standard_error:.2g}", one.runs)
        writer.writerow([one.name, one.epsilon, *figures, unit])
    return text.getvalue().encode()


def figure(found: list[Found], title: str, unit: str) -> dict[str, bytes]:
    """Return the figure of error against epsilon, both logarithmic, the constant as a rule.

    Left out are "auto", which is one of the others, and smoothed numbers, which are in the CSV.
    """
    again = (AUTO, "smoothed")
    names = dict.fromkeys(one.name for one in found if not any(x in one.name for x in again))
    lines = tuple(_line([one for one in found if one.name == name]) for name in names)
    ends = "95% interval of the mean over runs"
    labels = ("epsilon (largest loss of a user)", f"mean absolute error over cells ({unit})")
    panel = Panel("", *labels, lines, log_x=True, log_y=True, ends=ends)
    return drawing.images(title, Outcome((panel,)))


def _line(mine: list[Found]) -> Line:
    x, y = [float(one.epsilon) for one in mine], np.array([one.mean for one in mine])
    if mine[0].name == CONSTANT:
        return line(CONSTANT, x, y, whose="reference")
    half = BAR * np.array([one.standard_error for one in mine])
    low = np.maximum(y - half, y / 10)
    whose: Whose = "ours" if mine[0].ours else "paper"
    return line(mine[0].name, x, y, low=low, high=y + half, whose=whose)


def arguments() -> argparse.Namespace:
    """Return what the command was told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=CASES)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--epsilons", nargs="+", default=list(EPSILONS))
    parser.add_argument("--clipping-range", nargs="+", default=list(INTERVALS))
    parser.add_argument("--resolution", type=int, help="of the hexagons of buses")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the large set")
    parser.add_argument("--data", type=Path, default=DATA, help="where the buses' files are")
    parser.add_argument("--out", type=Path, default=WRITTEN, help="where CSV and figure go")
    return parser.parse_args()


def main() -> int:
    """Print the table; write CSV and figure."""
    given = arguments()
    case = CASES[given.set]
    dataset = case.read(given)
    occupancy = dataset.occupancy
    size = f"{occupancy.n_cells:,} cells, {occupancy.n_users:,} users"
    print(f"{given.set}: {size}, {int(occupancy.records_per_cell.sum()):,} records", flush=True)
    found = reach(case, dataset, given)
    name = f"{given.set}-{given.resolution}" if given.resolution else given.set
    given.out.mkdir(parents=True, exist_ok=True)
    atomic_files.write(given.out / f"reach-{name}.csv", table(found, case.unit))
    images = figure(found, f"{given.set}: {size}", case.unit)
    atomic_files.write(given.out / f"reach-{name}.svg", images["svg"])
    show(found, case.unit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
