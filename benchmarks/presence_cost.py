"""CPU seconds and memory of a release with private presence, beside one that protects values.

``python benchmarks/presence_cost.py [--rows N] [--json FILE]``. Each way runs in a process of its
own on the records of big.py and publishes all cells at ε = 1: "values" reads, plans with a private
clipping range and releases; "presence" reads, places the sums on the declared cells and releases.
The floor is "values", measured in the same run; presence may cost 1.5 times as much of either.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import hexveil as hv

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the files beside this one

import big  # noqa: E402  beside this file
import measuring  # noqa: E402  beside this file

MOST = 1.5
WAYS = ("values", "presence")


def release(way: str, file: Path, folder: Path) -> None:
    """Read the records and publish every cell, in this process."""
    named: dict[str, Any] = {
        "user": "user",
        "value": "value",
        "bounds": big.BOUNDS,
        "repeats": "keep",
    }
    ledger = hv.Ledger(folder / "ledger.sqlite", dataset="records", budget=1)
    if way == "values":
        public = hv.read(file, **named, cells=hv.Labels("cell"), select=hv.Select(min_users=1))
        plan = hv.plan(public, epsilon=1, clipping_range="private", advise=False)
        hv.release(public, plan, ledger=ledger, accept_noise=True)
        return
    cells = hv.Labels("cell", values=[list(map(str, range(big.CELLS)))])
    private = hv.read(file, **named, cells=cells, protect="presence")
    declared = hv.plan(private, epsilon=1, fleet=big.USERS)
    hv.release(private, declared, ledger=ledger, accept_noise=True)


def measure(way: str, file: Path) -> tuple[float, int]:
    """Return the CPU seconds and the peak memory in bytes of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--way", way, "--file", file, "--folder", folder]
        process = subprocess.Popen([str(word) for word in command])
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{way} failed with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def compare(rows: int, out: Path | None) -> int:
    """Measure both ways; return how many limits are missed."""
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        file = Path(folder) / "big.parquet"
        big.write(file, rows)
        found = {way: measure(way, file) for way in WAYS}
    (floor, least), (cpu, peak) = found["values"], found["presence"]
    line = measuring.Measured(
        "presence_cost", "presence", {"rows": rows}, cpu, floor, peak, limits={"ratio": MOST}
    )
    print(f"values   {floor:6.2f} CPU s, {least / 2**20:6.0f} MiB")
    print(f"presence {cpu:6.2f} CPU s, {peak / 2**20:6.0f} MiB")
    print(f"ratios   {line.ratio:6.2f} and  {peak / least:6.2f} (at most {MOST})")
    measuring.save(out, [line])
    return (line.ratio > MOST) + (peak > MOST * least)


def main() -> int:
    """Compare, or run one way in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=big.ROWS)
    parser.add_argument("--json", type=Path, help="file to which the measurement is added")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        release(given.way, given.file, given.folder)
        return 0
    return compare(given.rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
