"""Rows of docs/figures measured anew, at random, beside the committed ones.

``python -m benchmarks.recheck`` compares rows of the label "again" with those of the label "now" in
intervals.csv and clipping-ranges.csv. With ``--measure`` it measures them first: of each model,
delta and clipping range one row in `--part`, drawn with `--seed` before any is measured, with
`--releases` releases each; `--file` and `--model` choose among them, ``--add`` keeps them in the
file. Compared are rows of one model and range. A difference is counted in standard errors: those
of both errors, and of coverage that of the new row for both, as older rows have none.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import intervals
from intervals import MODELS, Row, add_row, load_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
FILES = ("intervals.csv", "clipping-ranges.csv")
NOW, AGAIN = "now", "again"
FAR = 3.0
"""Standard errors by which a row differs notably."""


def place(row: Row) -> tuple[str, str, str, str, str]:
    """Return what a row is about."""
    return row.model, row.delta, row.clipping_range, row.set, row.epsilon


def drawn(rows: Sequence[Row], part: int, seed: int) -> list[Row]:
    """Return one row in so many, of each model, delta and clipping range."""
    found: list[Row] = []
    for model in MODELS:
        rng = random.Random(seed)  # noqa: S311  rows, no secrets
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in sorted((row for row in rows if row.model == model), key=place):
            groups.setdefault(place(row)[:3], []).append(row)
        for each in groups.values():
            found += rng.sample(each, round(len(each) / part))
    return found


def measure(rows: Sequence[Row], releases: int) -> Iterator[Row]:
    """Yield these rows, measured anew; records of a set are made once."""
    for name, records in intervals.chosen(list(dict.fromkeys(row.set for row in rows))):
        for row in (row for row in rows if row.set == name):
            given = argparse.Namespace(
                epsilon=[row.epsilon],
                delta=None if row.delta == "0" else row.delta,
                ranges=[row.clipping_range],
                releases=releases,
                label=AGAIN,
            )
            yield from intervals.measure(name, records, row.model, given)


def deviations(now: Row, again: Row) -> tuple[float, float]:
    """Return by how many standard errors the errors and the coverage of two rows differ."""
    ratio = np.sqrt(again.releases / now.releases)
    known = np.isfinite(now.standard_error)
    earlier = now.standard_error if known else again.standard_error * ratio
    of_error = np.hypot(earlier, again.standard_error)
    # Where all intervals held, one interval that does not is the least that can be told apart.
    least = 1 / (again.releases * again.cells)
    of_coverage = max(again.coverage_error, least) * np.hypot(1, ratio)
    return (again.error - now.error) / of_error, (again.coverage - now.coverage) / of_coverage


def compared(pairs: Sequence[tuple[Row, Row]], name: str) -> str:
    """Return how rows measured anew differ from those before, in two lines."""
    logs = np.log([again.error / now.error for now, again in pairs])
    covered = np.array([again.coverage - now.coverage for now, again in pairs])
    far = np.abs([deviations(*pair) for pair in pairs]) > FAR
    half = 1.96 / np.sqrt(len(pairs))
    return (
        f"{name}: {len(pairs)} rows; error {np.exp(logs.mean()):.3f} times, "
        f"95 % {np.exp(logs.mean() - half * logs.std()):.3f} to "
        f"{np.exp(logs.mean() + half * logs.std()):.3f}; coverage {covered.mean():+.2%}, "
        f"± {half * covered.std():.2%}\n  beyond {FAR:g} standard errors: "
        f"error {far[:, 0].sum()}, coverage {far[:, 1].sum()}"
    )


def line(now: Row, again: Row) -> str:
    """Return one pair of rows."""
    of_error, of_coverage = deviations(now, again)
    return (
        f"{again.set:16} {again.model:8} {again.clipping_range:8} {again.epsilon:>3} "
        f"{again.delta:>4}  error {now.error:8.4g} {again.error:8.4g} {of_error:+5.1f}"
        f"  coverage {now.coverage:.3f} {again.coverage:.3f} {of_coverage:+5.1f}"
        f"  worst {now.worst:.2f} {again.worst:.2f}  {now.taken} {again.taken}"
    )


def main() -> int:
    """Measure if asked; print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--file", nargs="+", choices=FILES, default=FILES)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--part", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1128)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--add", action="store_true", help="to the file")
    given = parser.parse_args()
    for name in given.file:
        file = FIGURES / name
        rows = [row for row in load_rows(file) if row.model in given.model]
        now = {place(row): row for row in rows if row.label == NOW}
        again = [row for row in rows if row.label == AGAIN]
        if given.measure:
            again = []
            for row in measure(drawn(list(now.values()), given.part, given.seed), given.releases):
                again.append(row)
                print(line(now[place(row)], row), flush=True)
                if given.add:
                    add_row(file, row)
        groups: dict[str, list[tuple[Row, Row]]] = {}
        for row in again:
            key = f"{name}, {row.model}, {row.taken}"
            groups.setdefault(key, []).append((now[place(row)], row))
        for key, pairs in groups.items():
            print(compared(pairs, key))
    return 0


if __name__ == "__main__":
    sys.exit(main())
