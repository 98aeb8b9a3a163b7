"""Tables of docs/understand/reach.md, written from the CSV files in docs/figures.

``python -m benchmarks.reach_page`` replaces each table between ``<!-- table: NAME -->`` and
``<!-- end -->``; with ``--measure`` intervals.py measures the rows of intervals, judging sets and
goals first (its options, such as ``--epsilon 1 --releases 1``, may follow). reach.py measures those
of other methods. A test compares page and files.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import atomic_files

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import intervals
from collection import COLLECTION, GOALS
from interval_sets import SETS
from intervals import MODELS, RANGES, Row, load_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, FIGURES = DOCS / "understand" / "reach.md", DOCS / "figures"
TABLE = re.compile(r"(<!-- table: (?P<name>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MEASURED = {
    "intervals.csv": ("--releases", "20"),
    "clipping-ranges.csv": ("--sets", "judging", "goal", "--ranges", *RANGES, "--releases", "8"),
}
"""Options of intervals.py by the file of their rows: what it judges by itself, and each range."""
FIXED = RANGES[:-1]
"""Ranges that the default is compared with in hindsight."""
DEFAULT = RANGES[-1]
COVERAGE = (0.93, 0.98)
"""Average coverage of 95% intervals that the project set itself."""
LEAST_COVERAGE, CAPTION = 0.90, 0.30
INTERVALS, LEAST_CELL = (0.93, 0.985), 0.7
"""Average coverage, and that of any cell, which intervals.py asks for."""
WAYS = {
    "best constant, from the truth": "best constant",
    "plain Laplace, equal split": "plain Laplace, equal split",
    "composition, OptimalClipping": "equal-split, OptimalClipping",
    "per-cell (exact losses), OptimalClipping": "per-cell (exact losses), OptimalClipping",
    "CLIP-USER": "CLIP-USER",
    **{
        f'joint, clipping_range="{kind}"{more}': f'`clipping_range="{kind}"`{shown}'
        for kind in ("bounds", "private", "per-cell")
        for more, shown in (("", ", raw"), (", estimate", ", estimate"))
    },
}
"""Rows of the tables of other methods."""


def intervals_held(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each question, a column for each privacy model and delta."""
    kinds = [(model, delta) for model in MODELS for delta in ("0", "1e-6")]
    columns = [[row for row in rows if (row.model, row.delta) == kind] for kind in kinds]
    low, high = INTERVALS

    def line(text: str, figure: Callable[[list[Row]], str]) -> str:
        return _line(text, *map(figure, columns))

    def count(text: str, holds: Callable[[Row], bool]) -> str:
        return line(text, lambda column: str(sum(map(holds, column))))

    yield from _head("", *(f"{model}, δ = {delta}" for model, delta in kinds))
    yield line("rows", lambda column: str(len(column)))
    yield line("coverage, average", lambda c: f"{np.mean([row.coverage for row in c]):.1%}")
    yield line("coverage, least", lambda c: f"{min(row.coverage for row in c):.1%}")
    yield count(f"coverage below {low:.0%}", lambda row: row.coverage < low)
    yield count(f"coverage above {high:.1%}", lambda row: row.coverage > high)
    yield count("a cell covered in less than 70%", lambda row: row.worst < LEAST_CELL)
    yield count("of good cells more than 10% outside", lambda row: row.good_outside > 0.1)
    yield count(
        "expected error beyond 1.5 times the true one", lambda r: not 1 / 1.5 <= r.ratio <= 1.5
    )


class Judged:
    """Rows of the judging sets, by set, epsilon and clipping range."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Take the rows of judging sets."""
        judging = [one.name for one in COLLECTION.values() if one.purpose == "judging"]
        mine = [row for row in rows if row.set in judging]
        self.rows = sorted(mine, key=lambda row: (judging.index(row.set), float(row.epsilon)))
        self.at = {(row.set, row.epsilon, row.clipping_range): row for row in self.rows}

    def of(self, clipping_range: str) -> list[Row]:
        """Return the rows of one clipping range."""
        return [row for row in self.rows if row.clipping_range == clipping_range]

    def best(self, row: Row) -> float:
        """Return the least error of any fixed range on the same set at the same epsilon."""
        return min(self.at[row.set, row.epsilon, kind].error for kind in FIXED)


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each question, a column for each clipping range."""
    judged = Judged(rows)
    columns = [judged.of(kind) for kind in (DEFAULT, *FIXED)]

    def line(text: str, figure: Callable[[list[Row]], str]) -> str:
        return _line(text, *(figure(column) for column in columns))

    def count(text: str, holds: Callable[[Row], bool]) -> str:
        return line(text, lambda column: f"{sum(map(holds, column))} of {len(column)}")

    def ratios(column: list[Row]) -> list[float]:
        return [row.error / judged.best(row) for row in column]

    low, high = COVERAGE
    yield from _head("", f"`{DEFAULT}` (default)", *(f"`{kind}`" for kind in FIXED))
    yield line("error over the best in hindsight, average", lambda c: f"{np.mean(ratios(c)):.2f}")
    yield line("error over the best in hindsight, largest", lambda c: f"{max(ratios(c)):.2f}")
    yield count("error below that of the best constant", lambda row: row.error < row.constant)
    yield count("coverage from 93 to 98%", lambda row: low <= row.coverage <= high)
    yield count("coverage above 98%", lambda row: row.coverage > high)
    yield count("coverage from 90 to 93%", lambda row: LEAST_COVERAGE <= row.coverage < low)
    yield count("coverage below 90%", lambda row: row.coverage < LEAST_COVERAGE)
    yield line("coverage, least", lambda c: f"{min(row.coverage for row in c):.1%}")
    yield count("typical error within 30% of the true one", _is_near)
    yield count("typical error more than 30% too small", lambda r: r.stated_over_true < 1 - CAPTION)
    yield count("typical error more than 30% too large", lambda r: r.stated_over_true > 1 + CAPTION)


def _is_near(row: Row) -> bool:
    return 1.0 - CAPTION <= row.stated_over_true <= 1.0 + CAPTION


def goals(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each goal: what the default publishes at epsilon 1."""
    head = ("set", "cells", "constant", "goal", "default", "takes", "covered", "worst cell", "runs")
    yield from _head(*head)
    places = {(row.set, row.epsilon, row.clipping_range): row for row in rows}
    found = {name: places.get((name, "1", DEFAULT)) for name in GOALS}
    for name, goal in GOALS.items():
        row, unit = found[name], COLLECTION[name].unit
        if row is None:
            yield _line(name, "", "", f"{goal:g} {unit}", "not measured", *[""] * 4)
            continue
        yield _line(
            name,
            f"{row.cells:,}",
            f"{row.constant:.3g}",
            f"{goal:g} {unit}",
            f"{row.error:.3g}, {'met' if row.error <= goal else '**not met**'}",
            row.taken,
            f"{row.coverage:.1%}",
            f"{row.worst:.0%}",
            str(row.releases),
        )


def losing() -> Iterator[str]:
    """Yield a line for each kind of simulated records, a column for each range."""
    with (FIGURES / "reach-losing.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    # Where the default takes a range in some worlds alone, only these have estimates.
    complete = [row for row in rows if row["runs"] == rows[0]["runs"]]
    found = {
        (row["way"], row["records and users"]): f"{float(row['mean_absolute_error']):.3g}"
        for row in complete
    }
    kinds = ("bounds", "private", "auto")
    columns = [f'joint, clipping_range="{kind}"' for kind in kinds]
    yield from _head("km/h", "best constant", "plain Laplace", *(f"`{kind}`" for kind in kinds))
    first = list(WAYS)[:2]
    for where in dict.fromkeys(key[1] for key in found):
        ours = (
            found.get((f"{way}, estimate", where)) or found[f"{way}, smoothed", where]
            for way in columns
        )
        yield _line(where, *(found[way, where] for way in first), *ours)


def other_methods(name: str) -> Iterator[str]:
    """Yield a line for each method of reach.py on one set, a column for each epsilon."""
    with (FIGURES / f"reach-{name}.csv").open(encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines))
    epsilons = list(dict.fromkeys(row["epsilon"] for row in found))
    at = {(row["way"], row["epsilon"]): row for row in found}
    yield from _head(f"{found[0]['unit']} at ε =", *epsilons, "runs")
    for way, shown in WAYS.items():
        mine = {epsilon: at[way, epsilon] for epsilon in epsilons if (way, epsilon) in at}
        if mine:
            cells = (
                f"{float(mine[one]['mean_absolute_error']):.3g}" if one in mine else ""
                for one in epsilons
            )
            runs = max(int(row["runs"]) for row in mine.values())
            yield _line(shown, *cells, str(runs) if runs > 1 else "")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _head(*cells: str) -> tuple[str, str]:
    return _line(*cells), _line(*["---"] * len(cells))


def tables(rows: Sequence[Row]) -> dict[str, Iterator[str]]:
    """Return every table by its name on the page."""
    return {
        "intervals": intervals_held(load_rows(FIGURES / "intervals.csv")),
        "summary": summary(rows),
        "goals": goals(rows),
        "where maps lose": losing(),
        "methods on flights": other_methods("flights"),
    }


def rewrite(page: str, rows: Sequence[Row]) -> str:
    """Return the page with its tables written anew."""
    made = tables(rows)

    def table(place: re.Match[str]) -> str:
        return place[1] + "\n".join(made[place["name"]]) + "\n" + place[3]

    return TABLE.sub(table, page)


def measure(names: Sequence[str], more: Sequence[str]) -> None:
    """Measure errors and coverage of all judging sets and goals, or of those of these names.

    `more` are options of intervals.py.
    """
    for (file, words), known in zip(MEASURED.items(), ([*SETS], [*COLLECTION]), strict=True):
        sets = [name for name in names if name in known]
        if sets or not names:
            chosen = ["--sets", *sets] if sets else []
            intervals.main([*words, "--csv", str(FIGURES / file), *chosen, *more])


def main() -> int:
    """Write the tables of the page; with --measure, of errors that are measured first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="all sets first; takes two hours")
    parser.add_argument("--sets", nargs="+", default=[], help="of these sets alone")
    given, more = parser.parse_known_args()
    if more and not given.measure:
        parser.error(f"{more[0]} is an option of measuring; name --measure, too.")
    if given.measure:
        measure(given.sets, more)
    rows = load_rows(FIGURES / "clipping-ranges.csv")
    atomic_files.write(PAGE, rewrite(PAGE.read_text(encoding="utf-8"), rows).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
