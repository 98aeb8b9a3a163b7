"""What starting costs: importing hexveil beside numpy alone, its command's help and completion.

``python benchmarks/importing.py [--times N]``. Each is a process of its own, started in turn, so
that a busy machine slows all of them alike; CPU seconds are those of the whole process, medians
over the turns. The floor is a process that does nothing. Also `plan` and `inspect` of Parquet files
of 10,000 and 29,467 records of 300 users, from the process's start to its end. Exits 1 if what has
a limit takes that much more than the floor; the rest is only shown: what loads when it is first
used has to be loaded at some time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

INSTANT, QUICK, SHORT = 0.03, 0.3, 1.0
"""CPU seconds above the floor."""
RUN = """source = "records.parquet"

[columns]
user = "bus"
value = "speed"
lat = "lat"
lon = "lon"
time = "at"

[values]
bounds = [0, 65]
value_unit = "km/h"

[cells]
resolution = 7
timeslot = "6h"
timezone = "Asia/Kolkata"
slot = "pooled"
"""
FLOOR = "pass"
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""With it, each process compiles every module anew: `plan` then takes half as long again."""


@dataclass(frozen=True)
class Start:
    """One way to start.

    Attributes
    ----------
    name : str
    arguments : tuple of str
        Of the interpreter.
    more : dict of str to str
        Environment.
    limit : float or None
        CPU seconds above the floor that it may take.
    """

    name: str
    arguments: tuple[str, ...]
    more: dict[str, str] = field(default_factory=dict)
    limit: float | None = None

    def cpu(self) -> float:
        """Return the CPU seconds of one process."""
        process = subprocess.Popen(
            [sys.executable, *self.arguments],
            env=_with_bytecode(self.more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        return used.ru_utime + used.ru_stime


def _with_bytecode(more: dict[str, str]) -> dict[str, str]:
    """Return the environment of a start, in which compiled modules are kept as users keep them."""
    kept = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    return kept | more


def code(text: str, limit: float | None = None) -> Start:
    """Return a start that runs a line of Python."""
    return Start(text, ("-c", text), limit=limit)


def completing(words: str) -> Start:
    """Return a start that completes a line in bash."""
    asked = {
        "_HEXVEIL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    return Start(f"{words}<Tab>", ("-m", "hexveil"), asked, INSTANT)


STARTS = (
    code(FLOOR),
    code("import numpy"),
    code("import hexveil", INSTANT),
    code("from hexveil import theory", QUICK),
    Start("hexveil --help", ("-m", "hexveil", "--help"), limit=INSTANT),
    Start("hexveil --version", ("-m", "hexveil", "--version"), limit=QUICK),
    completing("hexveil p"),
    completing("hexveil plan --e"),
    completing("hexveil ledger s"),
    Start("hexveil plan --help", ("-m", "hexveil", "plan", "--help")),
    code("from hexveil import read, plan, release, Ledger"),
)


def write_run(folder: Path, n_records: int) -> str:
    """Write records of three invented days and their run file; return its path."""
    folder.mkdir()
    draw, n = np.random.default_rng(1), n_records
    began = datetime(2026, 1, 1, tzinfo=UTC)
    table = {
        "lat": 21.1 + draw.normal(0, 0.05, n),
        "lon": 72.8 + draw.normal(0, 0.05, n),
        "speed": np.clip(draw.normal(25, 10, n), 0, 65).round(1),
        "bus": [f"bus-{number}" for number in draw.integers(0, 300, n)],
        "at": [began + timedelta(seconds=int(s)) for s in draw.integers(0, 3 * 86_400, n)],
    }
    pq.write_table(pa.table(table), folder / "records.parquet")
    (folder / "run.toml").write_text(RUN)
    return str(folder / "run.toml")


def short_runs(folder: Path) -> tuple[Start, ...]:
    """Return the commands on small files."""
    small, real = write_run(folder / "small", 10_000), write_run(folder / "real", 29_467)
    return tuple(
        Start(f"hexveil {name}, {n:,} records", ("-m", "hexveil", name, file, "--epsilon", "1"),
              limit=limit)
        for name, file, n, limit in (
            ("plan", small, 10_000, SHORT),
            ("inspect", small, 10_000, SHORT),
            ("inspect", real, 29_467, 2 * SHORT),
        )
    )  # fmt: skip


def main() -> int:
    """Measure all starts; print them; return 1 if one that has to be quick is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=11)
    measuring.add_json(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        return measure((*STARTS, *short_runs(Path(folder))), asked.times, asked.json)


def measure(starts: tuple[Start, ...], times: int, file: Path | None) -> int:
    """Print what each start costs; return 1 if one that has to be quick is not."""
    for start in starts:  # what is compiled is written once, and files are read once
        start.cpu()
    turns = [[start.cpu() for start in starts] for _ in range(times)]
    found = [statistics.median(times) for times in zip(*turns, strict=True)]
    floor, missed = found[0], []
    print(f"{'':<48}{'CPU s':>7}{'more':>8}{'ratio':>7}   limit")
    for start, cpu in zip(starts, found, strict=True):
        late = start.limit is not None and cpu - floor > start.limit
        limit = f"{start.limit:g} s more{' MISSED' * late}" if start.limit is not None else ""
        print(f"{start.name:<48}{cpu:>7.3f}{cpu - floor:>+8.3f}{cpu / floor:>7.2f}   {limit}")
        missed += [start.name] * late
    measuring.save(
        file,
        [
            measuring.Measured("importing", start.name, {"processes": times}, cpu, floor)
            for start, cpu in zip(starts, found, strict=True)
        ],
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
