"""Put small faults into the program, one at a time, and see which tests notice.

In the folder of tests: `python -m mutation hexveil/accounting hexveil/ledger --number 50 --seed 1`.
Each fault is tried with the tests that name its module, then with those beside them, then with the
rest of the quick suite (but not with --near), and with --all with the slow tests too; the first
failure ends it. Survivors are listed: each wants a small exact test, or is no fault at all.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutation.operators import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
OTHER_PROGRAMS = "not browser and not install and not server and not site and not spark"
QUICK = f"not slow and {OTHER_PROGRAMS}"
AROUND = {"tests/mutation", "tests/attack/test_mutants.py", "tests/test_imports.py"}
"""Tests that read the source where it is, and so cannot see a fault in a copy."""
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=1")
SECONDS = 600
"""A run that takes longer is one that a fault keeps from ending."""


@dataclass(frozen=True)
class Mutant:
    """A fault in a module, given by the path of its file below src."""

    path: Path
    mutation: Mutation

    def __str__(self) -> str:
        """Return place and change on one line."""
        return f"{self.path}, {self.mutation}"


def sample(folders: list[str], number: int, seed: int) -> list[Mutant]:
    """Return mutants of the modules in these folders, drawn without replacement."""
    places = [SOURCE / folder for folder in folders]
    files = [file for place in places for file in ([place] if place.is_file() else _files(place))]
    mutants = [
        Mutant(file.relative_to(SOURCE), mutation)
        for file in files
        for mutation in mutations(file.read_bytes())
    ]
    return random.Random(seed).sample(mutants, min(number, len(mutants)))  # noqa: S311  a sample


def _files(folder: Path) -> list[Path]:
    """Return the source files of a folder, which must have some."""
    files = sorted(folder.rglob("*.py"))
    if not files:
        sys.exit(f"{folder} has no source file; name folders below src, such as hexveil/ledger")
    return files


def nearest(path: Path, tests: dict[Path, str]) -> list[Path]:
    """Return the test files that name a module, that of the same name first."""
    module = ".".join(path.with_suffix("").parts)
    parent, _, stem = module.rpartition(".")
    named = re.compile(rf"\b{re.escape(module)}\b|from {parent} import [^\n]*\b{stem}\b")
    files = {test for test, text in tests.items() if named.search(text)}
    files |= {test for test in tests if test.stem == f"test_{stem}"}
    return sorted(files, key=lambda test: (test.stem != f"test_{stem}", test))


class Runner:
    """Runs the tests with a copy of the source that a fault is put into."""

    def __init__(self, *, near: bool, slow: bool) -> None:
        files = sorted(TESTS.rglob("test_*.py"))
        places = {file: file.relative_to(ROOT).as_posix() for file in files}
        self._tests = {
            file: file.read_text(encoding="utf-8")
            for file, place in places.items()
            if not place.startswith(tuple(AROUND))
        }
        self._near, self._slow = near, slow

    def verdict(self, mutant: Mutant) -> str:
        """Return which tests fail with a fault: the nearest, ..., the slow, or that it survived."""
        near = nearest(mutant.path, self._tests)
        folders = {file.parent for file in near if file.stem == f"test_{mutant.path.stem}"}
        folders = (folders or {file.parent for file in near}) - {TESTS}
        beside = [file for file in self._tests if file.parent in folders and file not in near]
        rest = [file for file in self._tests if file not in {*near, *beside}]
        stages = [("nearest", near, QUICK), ("beside", beside, QUICK)]
        if not self._near:
            stages.append(("quick", rest, QUICK))
        if self._slow:
            stages.append(("slow", list(self._tests), f"slow and {OTHER_PROGRAMS}"))
        with tempfile.TemporaryDirectory(prefix="mutant-") as name:
            folder = Path(name)
            shutil.copytree(SOURCE, folder / "src")
            file = folder / "src" / mutant.path
            file.write_bytes(mutant.mutation.applied(file.read_bytes()))
            for stage, files, marked in stages:
                if files and self._fails(folder, files, marked):
                    return stage
        return "survived"

    def _fails(self, folder: Path, files: list[Path], marked: str) -> bool:
        """Return whether some test of these files fails, or none of them ends."""
        command = [sys.executable, "-m", "pytest", *OPTIONS, "--hypothesis-profile=quick"]
        environment = os.environ | {
            "PYTHONPATH": str(folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        }
        try:
            done = subprocess.run(
                [*command, f"--basetemp={folder / 'tmp'}", "-m", marked, *map(str, files)],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode not in {0, 5}  # 5: no test of these files is marked so


def main() -> int:
    """Try a sample of mutants, and print what became of each."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", help="folders or files below src")
    parser.add_argument("--number", type=int, default=50, help="mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which mutants")
    parser.add_argument("--jobs", type=int, default=2, help="mutants to try at once")
    parser.add_argument("--near", action="store_true", help="without tests far from the module")
    parser.add_argument("--all", action="store_true", help="with the slow tests, too")
    given = parser.parse_args()
    mutants = sample(given.folders, given.number, given.seed)
    runner, begun, verdicts = Runner(near=given.near, slow=given.all), time.monotonic(), Counter()
    with ThreadPoolExecutor(given.jobs) as pool:
        for mutant, verdict in zip(mutants, pool.map(runner.verdict, mutants), strict=True):
            verdicts[verdict] += 1
            print(f"{verdict:9}{mutant}", flush=True)  # noqa: T201  a script
    print(f"{len(mutants)} mutants in {time.monotonic() - begun:.0f} s: {dict(verdicts)}")  # noqa: T201  as above
    return int(verdicts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
