"""What starting costs: importing hexveil beside numpy alone, its command's help and completion.

``python benchmarks/importing.py [--times N]``. Each is a process of its own, started in turn, so
that a busy machine slows all of them alike; CPU seconds are those of the whole process, medians
over the turns. The floor is a process that imports numpy, which everything here needs in the end.
Exits 1 if what should be quick takes 0.3 s more than that; the rest is only shown: what loads
when it is first used has to be loaded at some time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

import measuring

INSTANT, QUICK = 0.03, 0.3
"""CPU seconds above the floor."""
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


def main() -> int:
    """Measure all starts; print them; return 1 if one that has to be quick is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=11)
    measuring.add_json(parser)
    asked = parser.parse_args()
    for start in STARTS:  # what is compiled is written once, and files are read once
        start.cpu()
    turns = [[start.cpu() for start in STARTS] for _ in range(asked.times)]
    found = [statistics.median(times) for times in zip(*turns, strict=True)]
    floor, missed = found[0], []
    print(f"{'':<48}{'CPU s':>7}{'more':>8}{'ratio':>7}   limit")
    for start, cpu in zip(STARTS, found, strict=True):
        late = start.limit is not None and cpu - floor > start.limit
        limit = f"{start.limit:g} s more{' MISSED' * late}" if start.limit is not None else ""
        print(f"{start.name:<48}{cpu:>7.3f}{cpu - floor:>+8.3f}{cpu / floor:>7.2f}   {limit}")
        missed += [start.name] * late
    measuring.save(
        asked.json,
        [
            measuring.Measured("importing", start.name, {"processes": asked.times}, cpu, floor)
            for start, cpu in zip(STARTS, found, strict=True)
        ],
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
