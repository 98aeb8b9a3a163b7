"""Mutants of a sample, each tried in a fork of one process that has collected all tests."""

import contextlib
import gc
import importlib
import itertools
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutation.operators import Mutation, mutations
from mutation.patching import LoadedModule

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
OTHER_PROGRAMS = "not browser and not install and not server and not site and not spark"
QUICK = f"not slow and {OTHER_PROGRAMS}"
SLOW = f"slow and {OTHER_PROGRAMS}"
AROUND = ("tests/mutation", "tests/attack/test_mutants.py", "tests/test_imports.py")
"""Tests that read the source where it is, and so cannot see a fault in memory."""
OPTIONS = ["-o", "addopts=", "--import-mode=importlib", "--doctest-modules", "-s",
           "-p", "no:terminal", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:randomly",
           "--hypothesis-seed=1", "--hypothesis-profile=quick"]  # fmt: skip
GROUPS = ("own", "naming", "beside", "far")
"""Test files by distance: the module's examples and test, naming it, beside these, elsewhere."""
PATIENCE = 10
"""The multiple of their usual time after which tests count as endless."""
LONGEST = 600
"""Seconds that the tests of a file may take."""


@dataclass(frozen=True)
class Mutant:
    """A fault in a module, given by the path of its file below src."""

    path: Path
    mutation: Mutation

    @property
    def module(self) -> str:
        """Name of the module that the fault is in."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    def __str__(self) -> str:
        """Return place and change on one line."""
        return f"{self.path}, {self.mutation}"


def sample(folder: str, number: int, seed: int) -> list[Mutant]:
    """Return mutants of the modules in a folder, or of one file, drawn without replacement."""
    place = SOURCE / folder
    mutants = [
        Mutant(file.relative_to(SOURCE), mutation)
        for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        for mutation in mutations(file.read_bytes())
    ]
    if not mutants:
        sys.exit(f"{place} has no source to change; name folders below src, as hexveil/ledger")
    return random.Random(seed).sample(mutants, min(number, len(mutants)))  # noqa: S311  a sample


def nearest(path: Path, tests: dict[Path, str]) -> list[list[Path]]:
    """Return test files in groups: the module's own, naming it, beside these, elsewhere."""
    module = ".".join(path.with_suffix("").parts)
    parent, _, stem = module.rpartition(".")
    named = re.compile(rf"\b{re.escape(module)}\b|from {parent} import [^\n]*\b{stem}\b")
    tests = {
        test: text
        for test, text in tests.items()
        if test == SOURCE / path or SOURCE not in test.parents  # no other module's examples
    }
    own = [test for test in tests if test == SOURCE / path or test.stem == f"test_{stem}"]
    naming = [test for test, text in tests.items() if named.search(text) and test not in own]
    folders = {TESTS / path.parts[1], *(file.parent for file in own or naming)} - {TESTS}
    beside = [test for test in tests if folders & {*test.parents} and test not in {*own, *naming}]
    naming.sort(key=lambda test: not folders & {*test.parents})
    words = {*path.with_suffix("").parts, *stem.split("_")}
    beside.sort(key=lambda test: -len(words & {*test.parts, *test.stem.split("_")}))
    rest = [test for test in tests if test not in {*own, *naming, *beside}]
    return [own, naming, beside, rest]


@dataclass(frozen=True)
class Reach:
    """The blocks of each module that a test enters, and the seconds of a processor it takes."""

    seconds: float
    blocks: dict[str, list[int]]


class Campaign:
    """Plugin for pytest that runs, once per mutant, the tests that reach the fault."""

    def __init__(self, mutants: list[Mutant], *, near: int | None, seconds: float) -> None:
        self._mutants, self._near, self._seconds = mutants, near, seconds
        self._items: dict[Path, list[pytest.Item]] = {}
        self._reach: dict[str, Reach] = {}
        self._recorded: set[Path] = set()
        self._sound: dict[str, bool] = {}
        self._failed = False
        self.verdicts: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let Hypothesis stop at the first failure, which needs no smaller example."""
        from hypothesis import Phase, settings  # noqa: PLC0415  pytest must see its import

        phases = Phase.explicit, Phase.generate
        settings.register_profile("mutation", settings.default, phases=phases, database=None)
        settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants, now that the tests are collected."""
        for item in session.items:
            self._items.setdefault(item.path, []).append(item)
        texts = {path: path.read_text(encoding="utf-8") for path in self._items}
        names = sorted({mutant.module for mutant in self._mutants})
        self._modules = {name: LoadedModule(importlib.import_module(name)) for name in names}
        gc.freeze()
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            # Processes that tests start import this copy.
            copy = Path(folder) / "src"
            shutil.copytree(SOURCE, copy)
            os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
            self._log = Path(folder) / "log"
            for mutant in self._mutants:
                file = copy / mutant.path
                original = file.read_bytes()
                file.write_bytes(mutant.mutation.applied(original))
                group, test = self._verdict(mutant, file, nearest(mutant.path, texts))
                file.write_bytes(original)
                self.verdicts[group] += 1
                print(f"{group:9}{mutant}{test and f'  [{test}]'}", flush=True)  # noqa: T201  a script
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test fails, in its preparation too."""
        self._failed |= report.failed

    def _verdict(self, mutant: Mutant, file: Path, groups: list[list[Path]]) -> tuple[str, str]:
        """Return which group of tests notices a fault, and the first of them that does."""
        module, line = self._modules[mutant.module], mutant.mutation.line
        if not module.can_change(line):
            return "untried", ""
        source, block = file.read_bytes(), module.block(line)
        reaching: dict[Path, list[pytest.Item]] = {}
        if self._near is not None:
            groups = [files[: self._near] for files in groups[:-1]]
        for name, files in zip(GROUPS, groups, strict=False):
            for path in files:
                self._record(path)
                reaching[path] = [
                    item
                    for item in self._items[path]
                    if item.nodeid in self._reach
                    and (block is None or block in self._reach[item.nodeid].blocks[mutant.module])
                ]
                killer = self._killer(reaching[path], module, source, line)
                if killer:
                    return name, killer
        # What is prepared once for a file is reached by its first test alone.
        for path, items in reaching.items():
            others = [
                item
                for item in self._items[path]
                if items and item not in items and item.nodeid in self._reach
            ]
            killer = self._killer(others, module, source, line)
            if killer:
                return "beside", killer
        return "survived", f"{sum(map(len, reaching.values()))} tests"

    def _magnitude(self, item: pytest.Item) -> int:
        """Return the order of magnitude of a test's time: quick tests are tried before others."""
        return round(math.log2(max(self._reach[item.nodeid].seconds, 1 / 64)))

    def _record(self, path: Path) -> None:
        """Run the tests of a file as they are, and note what each of them reaches."""
        if path in self._recorded:
            return
        self._recorded.add(path)
        result = self._log.with_suffix(".json")
        result.unlink(missing_ok=True)

        def run() -> None:
            blocks = {name: module.instrument() for name, module in self._modules.items()}
            reach = {}
            for item, following in itertools.pairwise([*self._items[path], None]):
                for reached in blocks.values():
                    reached.clear()
                begun, self._failed = time.process_time(), False
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if not self._failed:
                    seconds = time.process_time() - begun
                    reach[item.nodeid] = seconds, {name: sorted(blocks[name]) for name in blocks}
            result.write_text(json.dumps(reach), encoding="utf-8")

        self._fork(run, LONGEST)
        if result.exists():
            recorded = json.loads(result.read_text(encoding="utf-8"))
            self._reach |= {test: Reach(*reach) for test, reach in recorded.items()}

    def _killer(
        self, items: list[pytest.Item], module: LoadedModule, source: bytes, line: int
    ) -> str:
        """Return the first test that fails, or never ends, with a fault but not without."""
        items = sorted(items, key=self._magnitude)
        spent = list(itertools.accumulate(self._reach[item.nodeid].seconds for item in items))
        items = [item for item, sum_ in zip(items, spent, strict=True) if sum_ < self._seconds]
        while items:
            test = self._first_failure(items, lambda: module.change(source, line))
            if not test:
                return ""
            item = next(item for item in items if item.nodeid == test)
            if test not in self._sound:
                self._sound[test] = not self._first_failure([item], lambda: None)
            if self._sound[test]:
                return test
            items = items[items.index(item) + 1 :]
        return ""

    def _first_failure(self, items: list[pytest.Item], prepare: Callable[[], None]) -> str:
        """Return the first of these tests that fails or does not end, in a process of its own."""
        self._log.write_text("", encoding="utf-8")

        def run() -> None:
            with self._log.open("w", encoding="utf-8", buffering=1) as log:
                log.write(items[0].nodeid + "\n")
                prepare()
                self._failed = False
                for item, following in itertools.pairwise([*items, None]):
                    log.write(item.nodeid + "\n")
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    if self._failed:
                        return
                log.write("\n")

        usual = sum(self._reach[item.nodeid].seconds for item in items)
        self._fork(run, 5 + PATIENCE * usual)
        return self._log.read_text(encoding="utf-8").split("\n")[-2]

    def _fork(self, run: Callable[[], None], seconds: float) -> None:
        """Run in a child process, silently, for as many seconds of a processor at most."""
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds),) * 2)
                nowhere = os.open(os.devnull, os.O_RDWR)
                for stream in range(3):
                    os.dup2(nowhere, stream)
                run()
            finally:
                os._exit(0)
        deadline = time.monotonic() + 60 + 20 * seconds
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test has left running
