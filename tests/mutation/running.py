"""Mutants of a sample, each tried with the tests in the order in which they may notice."""

import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutation.operators import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
OTHER_PROGRAMS = "not browser and not install and not server and not site and not spark"
QUICK = f"not slow and {OTHER_PROGRAMS}"
AROUND = {"tests/mutation", "tests/attack/test_mutants.py", "tests/test_imports.py"}
"""Tests that read the source where it is, and so cannot see a fault in a copy."""
OPTIONS = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "--hypothesis-seed=1",
    "--hypothesis-profile=quick",
)
FORKS = multiprocessing.get_context("forkserver")
"""Processes that begin with the libraries loaded, and without the package."""
LIBRARIES = ["duckdb", "numpy", "opendp.prelude", "pyarrow.parquet", "pytest",
             "scipy.optimize", "scipy.stats", "sqlalchemy"]  # fmt: skip
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
        FORKS.set_forkserver_preload(LIBRARIES)

    def fails_without_a_fault(self, path: Path) -> bool:
        """Return whether the nearest tests of a module fail as it stands."""
        with tempfile.TemporaryDirectory(prefix="mutant-") as name:
            shutil.copytree(SOURCE, Path(name) / "src")
            return self._fails(Path(name), nearest(path, self._tests), QUICK)

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
        arguments = [*OPTIONS, f"--basetemp={folder / 'tmp'}", "-m", marked, *map(str, files)]
        process = FORKS.Process(target=_test, args=(folder, arguments))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        return process.exitcode not in {0, 5}  # 5: no test of these files is marked so


def _test(folder: Path, arguments: list[str]) -> None:
    """Run pytest on the source in a folder, in a process of its own and silently."""
    os.environ |= {
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
    }
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder / "src"))
    os.chdir(ROOT)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    sys.exit(pytest.main(arguments))
