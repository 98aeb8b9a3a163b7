"""How time and memory grow with records, users and cells: other benchmarks at three sizes each.

``python benchmarks/limits.py [--quick] [--only SCRIPT ...] [--times N] [--write-page]``
runs reading.py (records), scale.py (users, cells and pairs together; users alone; cells alone),
incremental.py (days) and end_to_end.py one after another, and prints one table: CPU seconds as
ratios to a floor measured in the same run, the exponents with which CPU seconds and peak memory
grow with size (least squares of logarithms), and limits. What scripts print goes to standard error.

Writes limits.jsonl into `--out`. `--quick` divides sizes
by ten, to try it. `--write-page` writes the table in docs/understand/limits.md. Exits 1 if a limit
is missed at the largest size (not with `--quick`: limits are for full sizes) or a script fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the files beside this one

import measuring  # noqa: E402  beside this file
from scale import FIXED, PARTS  # noqa: E402  beside this file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from measuring import Measured, Series

PAGE = HERE.parent / "docs" / "understand" / "limits.md"
WRITTEN = Path("reproduced")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SECONDS = 1_800
QUICK = 10
M = 1_000_000
PARQUET = ("--kinds", "parquet", "--users", "20000")
ROWS = {
    ("reading", *PARQUET): (2 * M, 10 * M, 50 * M),
    ("reading", "--kinds", "csv", "ndjson"): (1 * M, 3 * M, 10 * M),
    ("end_to_end",): (1 * M, 3 * M, 10 * M),
}
"""Records that grow, by script and options."""
SCRIPTS = ("reading", "end_to_end", "scale", "incremental")
DAYS, DAY_ROWS = (7, 15, 30), 1 * M
TOGETHER = ((1_000, 1_000, M // 10), (10_000, 3_000, M), (100_000, 10_000, 10 * M))
"""Users, cells and pairs. Cells grow as the root of pairs: fewer cells than that, and the smallest
set would have every user in every cell."""
USERS, CELLS = (10_000, 30_000, 100_000), (1_000, 3_000, 10_000)
"""What grows alone, at the pairs of the middle set and its other number."""
ALONE = ("joint, mean", "exact loss", "release")
"""The parts of scale.py that are measured along users and along cells."""


@dataclass(frozen=True)
class Job:
    """A script at one size: its options, and along which sizes what it measures is put."""

    script: str
    sizes: dict[str, int]
    options: tuple[str, ...]
    along: tuple[str, ...]

    @property
    def name(self) -> str:
        """Script and sizes, in words."""
        return f"{self.script} " + ", ".join(f"{n:,} {what}" for what, n in self.sizes.items())

    def command(self, file: Path) -> list[str]:
        """Return what runs it."""
        sizes = [part for what, n in self.sizes.items() for part in (f"--{what}", str(n))]
        script = str(HERE / f"{self.script}.py")
        return [sys.executable, script, *sizes, *self.options, "--json", str(file)]

    def placed(self, found: Sequence[Measured]) -> Iterator[tuple[str, Measured]]:
        """Yield its own of these measurements, once for each size along which they are put."""
        for one in found:
            if one.benchmark != self.script or dict(one.sizes) != self.sizes:
                continue
            if self.script == "reading" and one.part.split()[0] not in self.options:
                continue
            for along in self.along:
                if along not in ("users", "cells") or one.part in ALONE:
                    yield along, one


def jobs(*, quick: bool, times: int | None) -> list[Job]:
    """Return all jobs, each script's from the smallest on."""
    by = QUICK if quick else 1
    often = () if times is None else ("--times", str(times))
    found = [
        Job(script, {"rows": rows // by}, (*options, *often), ("rows",))
        for (script, *options), sizes in ROWS.items()
        for rows in sizes
    ]
    found += _pairs(by)
    runs = () if times is None else ("--runs", str(times))
    found += [
        Job("incremental", {"days": days, "rows": DAY_ROWS // by}, runs, ("days",)) for days in DAYS
    ]
    return found


def _pairs(by: int) -> list[Job]:
    """Return the jobs of planning and release; cells shrink by the root of what pairs do."""
    fewer = by**0.5
    middle = TOGETHER[1]
    along: dict[tuple[int, int, int], list[str]] = {}
    for size in TOGETHER:
        along.setdefault(size, []).append("pairs")
    for users in USERS:
        along.setdefault((users, middle[1], middle[2]), []).append("users")
    for cells in CELLS:
        along.setdefault((middle[0], cells, middle[2]), []).append("cells")
    found = []
    for size, which in along.items():
        users, cells, pairs = size
        sizes = {"users": users // by, "cells": int(cells / fewer), "pairs": pairs // by}
        parts = PARTS if size == TOGETHER[-1] else [part for part in PARTS if part != FIXED]
        only = ("--only", *(parts if "pairs" in which else ALONE))
        found.append(Job("scale", sizes, only, tuple(which)))
    return found


def run(job: Job, seconds: float) -> list[Measured]:
    """Return what a job measures; nothing if it fails, and the reason is said."""
    print(f"== {job.name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        file = Path(folder) / "found.jsonl"
        try:
            # A script that misses a target exits 1 as one that fails does: the file tells.
            code: int | str = subprocess.run(
                job.command(file), check=False, stdout=sys.stderr, timeout=seconds
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"not done within {seconds:g} s"
        if file.exists():
            return measuring.load(file)
    print(f"{job.name} failed: {code}", file=sys.stderr, flush=True)
    return []


def together(given: argparse.Namespace, kept: Path) -> tuple[list[Series], int]:
    """Return what all jobs found, and how many failed."""
    kept.unlink(missing_ok=True)
    failed, found = 0, []
    for job in jobs(quick=given.quick, times=given.times):
        if given.only and job.script not in given.only:
            continue
        measured = run(job, given.seconds)
        measuring.save(kept, measured)
        mine = list(job.placed(measured))
        failed += not mine
        found += mine
    return measuring.series(found), failed


def words(about: dict[str, Any]) -> str:
    """Return on what was measured, in a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    sizes = " Sizes are a tenth of those that limits are for." if about["quick"] else ""
    return (
        f"Measured on {about['cores']} cores and {about['memory_gib']} GiB of memory "
        f"({about['system']}), with {versions}.{sizes}"
    )


def written(page: str, found: Sequence[Series], about: dict[str, Any]) -> str:
    """Return the page with sentence and table, of what has a limit, between its marks."""
    first, rest = page.split(BEGIN)
    _, last = rest.split(END)
    limited = [one for one in found if one.last.limits]
    middle = f"{words(about)}\n\n{measuring.table(limited, judged=not about['quick'])}"
    return f"{first}{BEGIN}\n{middle}\n{END}{last}"


def arguments() -> argparse.Namespace:
    """Return what the command was told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="sizes divided by ten")
    parser.add_argument("--only", nargs="+", default=[], choices=SCRIPTS)
    parser.add_argument("--times", type=int, help="how often each is measured; else as scripts do")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of each run")
    parser.add_argument("--out", type=Path, default=WRITTEN, help="where measurements are kept")
    parser.add_argument("--write-page", action="store_true", help="write the table of the page")
    given = parser.parse_args()
    if given.write_page and given.only:
        parser.error("--write-page needs all scripts: leave --only out")
    return given


def main() -> int:
    """Run all; print the table; return 1 if a limit is missed."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    found, failed = together(given, given.out / "limits.jsonl")
    about = measuring.machine() | {"quick": given.quick}
    print(words(about), measuring.table(found, judged=not given.quick), sep="\n\n")
    if given.write_page and not failed:
        atomic_files.write(PAGE, written(PAGE.read_text("utf-8"), found, about).encode())
    missed = not given.quick and any(one.last.missed() for one in found)
    return int(missed or failed > 0)


if __name__ == "__main__":
    sys.exit(main())
