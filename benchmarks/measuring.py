"""What benchmarks measure, in one form: lines of JSON, growth exponents, a table.

A script with the option `--json FILE` adds to that file a line for each thing it measured
(`Measured`). `limits.py` runs scripts at several sizes and puts what belongs together into a
`Series`. Here is also what scripts measure with: a process of its own for each task, which prints
its CPU seconds and largest resident size as JSON. Nothing here knows a script.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LIBRARIES = ("duckdb", "numpy", "pyarrow")
GIB = 2**30
UNITS: Mapping[str, Callable[[float], str]] = {
    "ratio": lambda most: f"{most:g}",
    "cpu": lambda most: f"{most:g} s",
    "peak": lambda most: f"{most / GIB:g} GiB",
    "error": lambda most: f"error {most:g}",
}
"""What may have a limit, and how the limit is said."""


@dataclass(frozen=True)
class Measured:
    """One part of one benchmark at one size.

    Attributes
    ----------
    benchmark, part : str
    sizes : dict of str to int
        As rows; as users, cells and pairs.
    cpu, floor : float
        CPU seconds of all threads; the floor's, measured in the same run.
    peak : int or None
        Largest resident memory of the process in bytes, the interpreter and its libraries included.
    error : float or None
        Mean absolute error over cells, in value units.
    limits : dict of str to float
        The most that "ratio", "cpu", "peak" and "error" may be.
    """

    benchmark: str
    part: str
    sizes: Mapping[str, int]
    cpu: float
    floor: float
    peak: int | None = None
    error: float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a limit of what is not measured."""
        unknown = [what for what in self.limits if self.value(what) is None]
        if unknown:
            message = f"{self.benchmark}, {self.part}: limits of {unknown} without a measurement"
            raise ValueError(message)

    @property
    def ratio(self) -> float:
        """CPU seconds over those of the floor."""
        return self.cpu / self.floor

    def value(self, what: str) -> float | None:
        """Return what was measured of "ratio", "cpu", "peak" or "error"."""
        if what not in UNITS:
            return None
        found = getattr(self, what)
        return None if found is None else float(found)

    def missed(self) -> list[str]:
        """Return the limits that are not kept."""
        return [what for what, most in self.limits.items() if (self.value(what) or 0.0) > most]


@dataclass(frozen=True)
class Series:
    """One part of one benchmark along one size, from the smallest on."""

    benchmark: str
    part: str
    along: str
    points: tuple[Measured, ...]

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells series apart."""
        return self.benchmark, self.part, self.along

    @property
    def sizes(self) -> list[int]:
        """The sizes that it was measured at."""
        return [one.sizes[self.along] for one in self.points]

    @property
    def last(self) -> Measured:
        """What was measured at the largest size."""
        return self.points[-1]

    def values(self, what: str) -> list[float | None]:
        """Return "ratio", "cpu", "peak" or "error" at each size."""
        return [one.value(what) for one in self.points]

    def exponent(self, what: str) -> float | None:
        """Return the exponent with which "cpu" or "peak" grows; None if it is not known."""
        return exponent(self.sizes, self.values(what))


def exponent(sizes: Sequence[int], values: Sequence[float | None]) -> float | None:
    """Return the slope of log values over log sizes, by least squares.

    None with fewer than two sizes, or where a value is missing or not positive.

    Examples
    --------
    >>> round(exponent([1, 10, 100], [2.0, 20.0, 200.0]), 9)
    1.0
    """
    known = [value for value in values if value is not None and value > 0]
    if len(known) < len(values) or len(set(sizes)) < 2:
        return None
    return float(np.polyfit(np.log(sizes), np.log(known), 1)[0])


def series(found: Iterable[tuple[str, Measured]]) -> list[Series]:
    """Return what belongs together, each measurement given with the size that it varies."""
    groups: dict[tuple[str, str, str], dict[int, Measured]] = {}
    for along, one in found:
        groups.setdefault((one.benchmark, one.part, along), {})[one.sizes[along]] = one
    return [Series(*name, tuple(at[size] for size in sorted(at))) for name, at in groups.items()]


def add_json(parser: argparse.ArgumentParser) -> None:
    """Give a script the option `--json FILE`."""
    parser.add_argument("--json", type=Path, help="add a line of JSON for each thing measured")


def arguments(about: str | None, *, rows: int, times: int) -> argparse.ArgumentParser:
    """Return the options of a script that measures some records several times."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--times", type=int, default=times, help="how often each is measured")
    parser.add_argument("--folder", type=Path, help="where the generated files are kept")
    add_json(parser)
    return parser


def in_folder(given: argparse.Namespace, work: Callable[[argparse.Namespace, Path], int]) -> int:
    """Run some work in the folder `--folder`, or in a temporary one."""
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as temporary:
        folder: Path = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return work(given, folder)


def cpu() -> float:
    """Return the CPU seconds of this process so far, in all threads."""
    return time.process_time()


def since(before: float) -> dict[str, float]:
    """Return the CPU seconds since some moment, and the largest resident size so far."""
    used = time.process_time() - before
    # The process's own high-water mark: ru_maxrss would start from its parent's.
    status = Path("/proc/self/status").read_text("utf-8")
    return {"cpu": used, "peak": float(int(status.split("VmHWM:")[1].split()[0]) * 1024)}


def report(found: Mapping[str, float]) -> int:
    """Print what a task of this process took, for `in_process`."""
    print(json.dumps(dict(found)))
    return 0


def in_process(name: str, script: str, *options: object) -> dict[str, float]:
    """Run a task in a process of its own; return what it took, and print it."""
    began = time.monotonic()
    command = [sys.executable, script, *map(str, options)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    more = "".join(f"  {k} {v:,.6g}" for k, v in found.items() if k not in ("cpu", "peak"))
    print(
        f"  {name:44}{found['cpu']:9.3f} s CPU{found['peak'] / 2**20:8,.0f} MiB"
        f"{time.monotonic() - began:8.1f} s wall{more}",
        flush=True,
    )
    return found


def told(found: Sequence[Measured], file: Path | None = None) -> int:
    """Print and save measurements; return 1 if a limit is missed."""
    save(file, found)
    for one in found:
        verdict = ", ".join(
            f"{UNITS[what](most)}{' MISSED' * (what in one.missed())}"
            for what, most in one.limits.items()
        )
        error = "" if one.error is None else f"  error {one.error:.3g}"
        print(f"{one.part:52}{one.ratio:7.2f} times {one.floor:.2f} s{error}  {verdict}".rstrip())
    return int(any(one.missed() for one in found))


def save(file: Path | None, found: Iterable[Measured]) -> None:
    """Add a line for each measurement to the file; without a file, nothing."""
    if file is None:
        return
    with file.open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(asdict(one)) + "\n" for one in found)


def load(file: Path) -> list[Measured]:
    """Return the measurements of a file."""
    return [Measured(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def machine() -> dict[str, Any]:
    """Return the class of this machine and the versions at work; no name of anything."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {name: version(name) for name in LIBRARIES}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / GIB),
        "system": f"{platform.system()}, {platform.machine()}",
        "versions": {"python": platform.python_version()} | versions,
    }


def table(found: Sequence[Series], *, judged: bool = True) -> str:
    """Return the series as a table in Markdown; limits that are missed are marked if `judged`."""
    head = [
        "what", "at", "times the floor", "time grows", "memory grows", "CPU s", "MiB", "error",
        "limit",
    ]  # fmt: skip
    rows = [head, ["---"] * len(head), *(_row(one, judged=judged) for one in found)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(one: Series, *, judged: bool) -> list[str]:
    last, peak = one.last, one.last.peak
    missed = last.missed() if judged else []
    limits = [
        UNITS[what](most) + " **missed**" * (what in missed) for what, most in last.limits.items()
    ]
    return [
        title(one),
        f"{' / '.join(short(size) for size in one.sizes)} {one.along}",
        " / ".join(_figures(point.ratio) for point in one.points),
        _power(one.exponent("cpu")),
        _power(one.exponent("peak")),
        _figures(last.cpu),
        "" if peak is None else f"{peak / 2**20:,.0f}",
        "" if last.error is None else _figures(last.error),
        ", ".join(limits),
    ]


def title(one: Series) -> str:
    """Return benchmark and part, in words."""
    return f"{one.benchmark.replace('_', ' ')}: {one.part}"


def short(size: int) -> str:
    """Return a size in few letters.

    Examples
    --------
    >>> short(50_000_000), short(300_000), short(1_500_000), short(30)
    ('50 M', '300 k', '1.5 M', '30')
    """
    for unit, letter in ((1_000_000, " M"), (1_000, " k")):
        if size >= unit:
            return f"{size / unit:.4g}{letter}"
    return str(size)


def _power(found: float | None) -> str:
    return "" if found is None else f"{found:.2f}"


def _figures(number: float) -> str:
    """Return three figures, without an exponent."""
    return f"{number:.3g}" if abs(number) < 1_000 else f"{number:,.0f}"


def csv_of_rows(rows: Sequence[Any]) -> bytes:
    """Return data classes of one kind as CSV, at least one of them, numbers with four digits."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(rows[0])])
    for row in rows:
        values = asdict(row).values()
        writer.writerow([f"{v:.4g}" if isinstance(v, float) else v for v in values])
    return text.getvalue().encode()
