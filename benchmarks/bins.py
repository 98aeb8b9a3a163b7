"""Reading with counts by bin for a histogram, beside reading for the mean alone.

``python benchmarks/bins.py [--rows 2000000 20000000] [--folder F]``. The floor is the same
reading without bins. Records have few pairs (500 vehicles in 200 cells, many records each) or many
(50,000 vehicles in 20,000 cells, about one or two records each). Each reading runs in a process of
its own, in turn with its floor; CPU seconds count all threads between opening the file and having
the sums, and the least of several is taken. Exits 1 if a ratio exceeds 1.5.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

LIMIT, TIMES, SEED = 1.5, 3, 0.5
MEMORY = "1GB"
SHAPES = {"few pairs": (500, 200, 1.0), "many pairs": (50_000, 20_000, 0.05)}
"""Users, cells, and the share of the cells that a user visits."""
STATISTICS = {"mean": ("mean",), "histogram": ("mean", "histogram")}


def generate(file: Path, rows: int, shape: str) -> None:
    """Write records of labelled cells as Parquet or CSV, by the ending of the file's name."""
    import duckdb  # noqa: PLC0415  only where it is used

    users, cells, share = SHAPES[shape]
    visited = max(int(cells * share), 1)
    # One thread: with more, who draws which random number changes from run to run.
    with duckdb.connect(config={"memory_limit": MEMORY, "threads": 1}) as connection:
        connection.execute(f"SELECT setseed({SEED})")
        connection.execute(
            f"""COPY (
            WITH drawn AS (SELECT CAST(floor({users} * random()) AS INTEGER) AS bus,
                CAST(floor({visited} * random()) AS INTEGER) AS visit, random() AS a
                FROM range({rows}))
            SELECT format('bus-{{:05d}}', bus) AS user_id,
                format('cell-{{:05d}}', hash(bus, visit) % {cells}) AS cell,
                round(65 * a, 1) AS value FROM drawn) TO '{file}'"""
        )


def read(file: Path, task: str) -> dict[str, float]:
    """Read the file for the statistics of a task; return what that took."""
    import hexveil.records.duckdb.reading  # noqa: F401, PLC0415  imported before the clock starts
    from hexveil import Labels, Select, read  # noqa: PLC0415  only where it is used

    before = measuring.cpu()
    found: Any = read(
        str(file),
        user="user_id",
        value="value",
        bounds=(0, 65),
        quantum="0.1",
        cells=Labels("cell"),
        select=Select(min_users=1),
        memory=MEMORY,
        statistics=STATISTICS[task],
        accept_single_records=True,
    )
    return measuring.since(before) | {"pairs": found.occupancy.n_pairs}


def measured(rows: int, folder: Path, ending: str, times: int) -> list[measuring.Measured]:
    """Return what both shapes take at one number of records."""
    found = []
    for shape in SHAPES:
        file = folder / f"{shape.replace(' ', '-')}-{rows}.{ending}"
        generate(file, rows, shape)
        runs = [
            {
                task: measuring.in_process(f"{shape}, {task}", __file__, "--task", task, file)
                for task in STATISTICS
            }
            for _ in range(times)
        ]
        file.unlink()
        plain, binned = (
            min((run[x] for run in runs), key=lambda one: one["cpu"]) for x in STATISTICS
        )
        found.append(
            measuring.Measured(
                "bins",
                f"{shape}, {ending}",
                {"rows": rows, "pairs": int(plain["pairs"])},
                binned["cpu"],
                plain["cpu"],
                int(binned["peak"]),
                limits={"ratio": LIMIT},
            )
        )
    return found


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure every size and kind of file."""
    asked = ((rows, ending) for rows in given.rows for ending in given.ending)
    found = [one for each in asked for one in measured(each[0], folder, each[1], given.times)]
    return measuring.told(found, given.json)


def main() -> int:
    """Run the benchmark, or one task of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 20_000_000])
    parser.add_argument("--ending", nargs="+", default=["parquet", "csv"])
    parser.add_argument("--times", type=int, default=TIMES, help="runs of each reading")
    parser.add_argument("--folder", type=Path, help="scratch folder; default a temporary one")
    parser.add_argument("--task", choices=STATISTICS, help=argparse.SUPPRESS)
    parser.add_argument("file", type=Path, nargs="?", help=argparse.SUPPRESS)
    measuring.add_json(parser)
    given = parser.parse_args()
    if given.task:
        return measuring.report(read(given.file, given.task))
    return measuring.in_folder(given, run)


if __name__ == "__main__":
    raise SystemExit(main())
