"""Reading with counts by bin for a histogram, beside reading for the mean alone.

``python benchmarks/bins.py [--rows 2000000 20000000] [--folder F]``. The floor is the same
reading without bins. Records have few pairs (500 vehicles in 200 cells, many records each) or many
(50,000 vehicles in 20,000 cells, about one or two records each). Each reading runs in a process of
its own, in turn with its floor; CPU seconds count all threads between opening the file and having
the sums, and the least of several is taken. Exits 1 if a ratio exceeds 1.5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file
from aggregate import cpu, report

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


def read(file: Path, task: str) -> int:
    """Read the file for the statistics of a task, and print what that needed."""
    import hexveil.records.duckdb.reading  # noqa: F401, PLC0415  imported before the clock starts
    from hexveil.model.cells import Labels  # noqa: PLC0415  only where it is used
    from hexveil.records.read import read as read_records  # noqa: PLC0415  as above
    from hexveil.records.select import Select  # noqa: PLC0415  as above

    start = cpu()
    found = read_records(
        str(file),
        user="user_id",
        value="value",
        bounds=(0, 65),
        quantum="0.1",
        cells=Labels("cell"),
        select=Select(min_users=1),
        memory=MEMORY,
        statistics=STATISTICS[task],
    )
    return report(start, found.occupancy.n_pairs)


def measure(file: Path, times: int) -> dict[str, dict[str, float]]:
    """Return what both tasks need, each in processes of its own: the least of several runs."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(times):
        for task in STATISTICS:
            done = subprocess.run(
                [sys.executable, __file__, "--task", task, "--file", str(file)],
                check=True,
                capture_output=True,
                text=True,
            )
            found = json.loads(done.stdout)
            if task not in best or found["cpu"] < best[task]["cpu"]:
                best[task] = found
    return best


def run(rows: int, folder: Path, ending: str, times: int) -> list[measuring.Measured]:
    """Measure both shapes at one number of records; print a line for each."""
    made = []
    for shape in SHAPES:
        file = folder / f"{shape.replace(' ', '-')}-{rows}.{ending}"
        generate(file, rows, shape)
        found = measure(file, times)
        file.unlink()
        plain, binned = found["mean"], found["histogram"]
        one = measuring.Measured(
            "bins",
            f"{shape}, {ending}",
            {"rows": rows, "pairs": int(plain["rows"])},
            binned["cpu"],
            plain["cpu"],
            int(binned["peak"]),
            limits={"ratio": LIMIT},
        )
        print(
            f"{rows:>11,} records, {int(plain['rows']):>10,} pairs ({ending}): "
            f"{plain['cpu']:.2f} s for the mean, {binned['cpu']:.2f} s with a histogram, "
            f"{one.ratio:.2f} times; peak {plain['peak'] / 2**20:,.0f} and "
            f"{binned['peak'] / 2**20:,.0f} MiB",
            flush=True,
        )
        made.append(one)
    return made


def main() -> int:
    """Run the benchmark, or one task of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 20_000_000])
    parser.add_argument("--ending", nargs="+", default=["parquet", "csv"])
    parser.add_argument("--times", type=int, default=TIMES, help="runs of each reading")
    parser.add_argument("--folder", type=Path, help="scratch folder; default a temporary one")
    parser.add_argument("--task", choices=STATISTICS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    measuring.add_json(parser)
    asked = parser.parse_args()
    if asked.task:
        return read(asked.file, asked.task)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        made = [
            one
            for rows in asked.rows
            for ending in asked.ending
            for one in run(rows, Path(folder), ending, asked.times)
        ]
    measuring.save(asked.json, made)
    return int(any(one.missed() for one in made))


if __name__ == "__main__":
    raise SystemExit(main())
