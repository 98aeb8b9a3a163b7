"""Whether stated intervals hold, and predictions, on sets that nobody tuned on; both models.

Usage: python benchmarks/intervals.py [--sets NAME ...] [--epsilon E ...] [--delta D]
       [--model values|presence] [--ranges R ...] [--releases 20] [--final] [--csv FILE]

The sets, and which of them may be tuned on: interval_sets.py; those of collection.py, by name or
purpose (tuning, judging, goal), have public occupancy alone. Each row is of whole releases through
the public functions, each with a ledger of its own that is thrown away: noise is fresh, records are
the same. Truth is the average of the records of a cell within the bounds, computed from them alone.
Judged are released cells that have records; under private presence those that are open.

Columns, over judged cells and then over releases: mean absolute error of what is published; that of
the best constant, the median of the true averages; share of 95 % intervals that hold; the same for
the worst cell (of those judged in a quarter of the releases and five times), and share of cells
below 70 %; share of cells graded good, and share of these whose truth lies outside; the error that
the plan predicts over the error (of private presence both weighted by records, as the plan states
it); share of cells with records that are judged.

Asked: coverage from 93 to 98.5 %, no cell below 70 %, predictions within a factor of 1.5. --csv
adds the rows to a file, where the last of a place counts; there `stated` is the typical error of
the releases, and `coverage_error` the standard error of the coverage. docs/figures/intervals.csv
and clipping-ranges.csv have those of docs/understand/reach.md. Rows of the clipping range "auto"
are those of the range that it takes, and name it.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import hexveil as hv
from hexveil.base.errors import InputError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
from collection import COLLECTION, RecordSet, selected
from interval_sets import FINAL, JUDGING, SETS, Records, loaded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

MODELS = ("values", "presence")
EPSILONS = ("1", "2", "0.5", "5")
AUTO = "auto"
RANGES = ("bounds", "private", "per-cell", AUTO)
PURPOSES = ("tuning", "judging", "goal")
PUBLISHED = ("mean", "mean_estimate", "mean_smoothed", "mean_raw")
"""The first of these columns that a release has is the published average."""
GRADES = ("quality", "mean_quality")


def rows_of(release: hv.Release, keys: Sequence[str]) -> dict[Any, int]:
    """Return the row of each cell of a release, by its name; without keys by its number."""
    if not keys:
        return {row: row for row in range(release.table.num_rows)}
    names = zip(*(release.table[key].to_pylist() for key in keys), strict=True)
    return {name: row for row, name in enumerate(names)}


@dataclass(frozen=True, eq=False)
class Shown:
    """What one release shows of cells with records; NaN where it shows nothing."""

    mean: Floats
    low: Floats
    high: Floats
    good: Bools

    @classmethod
    def of(cls, release: hv.Release, keys: Sequence[str], names: Sequence[Any]) -> Shown:
        """Return the rows of a release in the order of these names of cells."""
        table, place = release.table, rows_of(release, keys)
        columns = table.take([place[name] for name in names])
        best, grade = (
            next(name for name in some if name in table.column_names)
            for some in (PUBLISHED, GRADES)
        )
        mean, low, high = (
            np.array(columns[name].to_pylist(), float) for name in (best, "mean_low", "mean_high")
        )
        return cls(mean, low, high, np.array(columns[grade].to_pylist()) == "good")


@dataclass(frozen=True)
class Row:
    """Results on one set at one epsilon under one model; see the head of this file."""

    set: str
    model: str
    epsilon: str
    delta: str
    releases: int
    cells: int
    constant: float
    error: float
    standard_error: float
    coverage: float
    worst: float
    below_70: float
    good: float
    good_outside: float
    predicted_error: float
    judged: float
    predicted: float
    stated: float
    clipping_range: str = AUTO
    taken: str = ""
    coverage_error: float = np.nan

    @property
    def stated_over_true(self) -> float:
        """Typical error that releases state over the measured one."""
        return self.stated / self.error

    @property
    def ratio(self) -> float:
        """Predicted over measured error."""
        return self.predicted / self.predicted_error

    def faults(self) -> str:
        """Return what is not as asked."""
        found = {
            "coverage": not 0.93 <= self.coverage <= 0.985,
            "worst cell": self.worst < 0.7,
            "prediction": not 1 / 1.5 <= self.ratio <= 1.5,
        }
        return ", ".join(name for name, is_missed in found.items() if is_missed)


def figures(shown: Sequence[Shown], true: Floats, records: Floats, span: float) -> dict[str, float]:
    """Return the figures of some releases, by the names of a row's fields.

    `predicted_error` is weighted by records here.
    """
    mean, low, high, good = (
        np.array([getattr(one, name) for one in shown]) for name in ("mean", "low", "high", "good")
    )
    is_judged = ~np.isnan(mean)
    error = np.abs(mean - true)
    # An end that rounds beside the truth by the last digit holds it.
    slack = 1e-6 * span
    holds = (low - slack <= true) & (true <= high + slack) & is_judged
    seen = is_judged.sum(axis=0)
    often = seen >= max(min(5, len(shown)), len(shown) / 4)
    rate = holds.sum(axis=0)[often] / seen[often]
    covered = holds.sum(axis=1) / np.maximum(is_judged.sum(axis=1), 1)
    each = [
        (x[j].mean(), np.average(x[j], weights=records[j]), np.abs(t - np.median(t)).mean())
        for x, j in zip(error, is_judged, strict=True)
        if (t := true[j]).size
    ]
    plain, weighted, constant = np.mean(each, axis=0) if each else (np.nan,) * 3
    found = {
        "error": plain,
        "standard_error": np.std([one[0] for one in each]) / np.sqrt(max(len(each), 1)),
        "predicted_error": weighted,
        "constant": constant,
        "coverage": holds.sum() / max(seen.sum(), 1),
        "coverage_error": np.std(covered) / np.sqrt(len(shown)),
        "worst": rate.min(initial=1.0),
        "below_70": (rate < 0.7).mean() if rate.size else 0.0,
        "good": good[is_judged].mean() if seen.any() else 0.0,
        "good_outside": (good & ~holds & is_judged).sum() / max((good & is_judged).sum(), 1),
        "judged": is_judged.mean(),
    }
    return {name: float(number) for name, number in found.items()}


def releases(
    data: Any,  # noqa: ANN401  of both models
    plan: Any,  # noqa: ANN401  as above
    number: int,
    estimates: tuple[str, ...] = ("raw",),
) -> Iterator[hv.Release]:
    """Yield so many releases of a plan, each through a ledger of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for k in range(number):
            file, delta = Path(folder) / f"{k}.sqlite", plan.delta or None
            ledger = hv.Ledger(file, dataset="intervals", budget=1000, delta=delta)
            yield hv.release(data, plan, ledger=ledger, accept_noise=True, estimates=estimates)


def measure(
    name: str, records: Records | RecordSet, model: str, given: argparse.Namespace
) -> Iterator[Row]:
    """Yield the rows of one set under one model, one for each epsilon and clipping range."""
    data = records.read(model)
    options: dict[str, Any] = {"delta": given.delta} if given.delta else {}
    if model == "presence":
        assert isinstance(records, Records)
        options["fleet"] = records.fleet()
    for epsilon in given.epsilon:
        rows: dict[str, Row] = {}
        # "auto" last: its releases are those of the clipping range that it takes.
        for kind in [AUTO] if model == "presence" else sorted(given.ranges, key=AUTO.__eq__):
            more = options if model == "presence" else options | {"clipping_range": kind}
            try:
                plan: Any = hv.plan(data, epsilon=epsilon, advise=False, **more)
                taken = kind if model == "presence" else plan.allocation.clipping.mode
                row = rows.get(taken) or of_plan(name, records, plan, given)
            except InputError as refusal:
                print(f"{name}, {model}, {kind} at {epsilon}: {refusal}", flush=True)
                continue
            rows[kind] = dataclasses.replace(
                row, epsilon=epsilon, model=model, clipping_range=kind, taken=taken
            )
            yield rows[kind]


def of_plan(
    name: str,
    records: Records | RecordSet,
    plan: Any,  # noqa: ANN401  of both models
    given: argparse.Namespace,
) -> Row:
    """Return the row of some releases of a plan."""
    is_hidden = plan.is_declared
    data = records.read("presence" if is_hidden else "values")
    estimates = ("raw",) if isinstance(records, Records) else ("raw", "smoothed")
    made = list(releases(data, plan, given.releases, estimates))
    known: dict[Any, tuple[float, int]] = dict(records.truth())
    names = [key for key in known if key in rows_of(made[0], records.keys)]
    true, count = (np.array(x, float) for x in zip(*(known[k] for k in names), strict=True))
    shown = [Shown.of(one, records.keys, names) for one in made]
    span = records.bounds[1] - records.bounds[0]
    found: dict[str, Any] = dict(figures(shown, true, count, span))
    predicted = plan.prediction.map.error if is_hidden else plan.expected_error
    if not is_hidden:
        found["predicted_error"] = found["error"]
    stated = [next(iter(one.statements.values()))["accuracy"][0]["typical_error"] for one in made]
    return Row(
        name, "", "", given.delta or "0", len(made), true.size, **found,
        predicted=float(predicted), stated=float(np.mean([x for x in stated if x])),
    )  # fmt: skip


HEAD = (
    "| set | model | range | ε | cells | constant | error | covered | worst | below 70 % | good "
    "| outside | predicted/error | judged | missed |\n" + "|---" * 15 + "|"
)


def line(row: Row) -> str:
    """Return a row of the table."""
    numbers = (
        f"{row.constant:.3g}",
        f"{row.error:.3g} ± {row.standard_error:.2g}",
        f"{row.coverage:.3f}",
        *(f"{x:.2f}" for x in (row.worst, row.below_70, row.good, row.good_outside, row.ratio)),
        f"{row.judged:.2f}",
    )
    names = row.set, row.model, row.clipping_range, row.epsilon, str(row.cells)
    return f"| {' | '.join((*names, *numbers, row.faults()))} |"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = (*SETS, *PURPOSES, *COLLECTION)
    parser.add_argument("--sets", nargs="+", choices=known, metavar="SET")
    parser.add_argument("--epsilon", nargs="+", default=EPSILONS)
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--ranges", nargs="+", choices=RANGES, default=[AUTO], metavar="R")
    parser.add_argument("--delta", help="of a promise of ε and δ, like 1e-6")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--final", action="store_true", help="final sets: after the last change")
    parser.add_argument("--csv", type=Path, help="file of rows to add to")
    given = parser.parse_args(words)
    if given.sets is None:
        given.sets = FINAL if given.final else JUDGING
    elif not given.final and set(given.sets) & set(FINAL):
        parser.error(f"errors of {', '.join(FINAL)} are shown with --final alone")
    return given


def add_row(file: Path, row: Row) -> None:
    """Add a row to a CSV; a new file gets a head."""
    is_new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, [field.name for field in dataclasses.fields(Row)])
        if is_new:
            writer.writeheader()
        writer.writerow(dataclasses.asdict(row))


def load_rows(file: Path) -> list[Row]:
    """Return the rows of a CSV, of each place the last."""
    kinds: dict[str, Any] = {"int": int, "float": lambda text: float(text or "nan"), "str": str}
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [
            Row(*(kinds[str(field.type)](line[field.name]) for field in dataclasses.fields(Row)))
            for line in csv.DictReader(lines)
        ]
    places = ("set", "model", "epsilon", "delta", "clipping_range")
    return list({tuple(getattr(row, name) for name in places): row for row in rows}.values())


def chosen(names: Collection[str]) -> Iterator[tuple[str, Records | RecordSet]]:
    """Yield the sets of these names, or of these purposes of the collection."""
    yield from loaded([name for name in names if name in SETS])
    for one in COLLECTION.values():
        if {one.name, one.purpose} & set(names) or ("goal" in names and one in selected("goal")):
            yield one.name, one


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; `words` are options in place of those of the command line."""
    given = arguments(words)
    print(HEAD)
    for name, records in chosen(given.sets):
        models = (given.model,) if given.model else MODELS
        for model in models if isinstance(records, Records) else ("values",):
            for row in measure(name, records, model, given):
                print(line(row), flush=True)
                if given.csv is not None:
                    add_row(given.csv, row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
