"""What every test may ask for: shared data beside the checkout, a browser, a database server."""

import contextlib
import gc
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import examples

examples.register()
# Processes of xdist have another width than a terminal's or a log's.
os.environ["COLUMNS"] = "100"

ONE_SESSION = (
    "tests/records/spark/",
    "tests/records/duckdb/test_spilling.py",
    "tests/records/test_binned_sources.py",
    "tests/records/test_engines_agree.py",
)
"""Where tests stand that share a session of Spark, which takes long to start."""
OWN_SESSION = ("tests/records/spark/test_connect.py",)
"""Of these, files that start services of their own, which need memory: one after the other."""
SAME_TREES = (
    "tests/attack/test_door.py",
    "tests/test_docstrings.py",
    "tests/test_import_circles.py",
    "tests/test_imports.py",
    "tests/test_naming.py",
)
"""Files that look at the same syntax trees, which take long to parse."""
LONG = (
    "spark",
    "tests/report/test_browser.py",
    "tests/test_package.py",
    "tests/attack/test_crash.py",
    "tests/attack/test_exact_law.py",
    "tests/publishing/test_coverage.py",
    "tests/test_how_to.py",
    "tests/attack/test_adversity.py",
    "tests/research/papers/test_paper_gallery.py",
    "services",
    "tests/mechanisms/presence/test_presence_laws.py",
    "tests/attack/test_folders.py",
    "tests/attack/test_leaks.py",
    "tests/publishing/test_core_types.py",
    "tests/attack/test_forged_figures.py",
    "tests/attack/test_mutants.py",
)
"""Files and groups of files that take longest, in that order."""
NEEDS = {
    "spark_programs": "spark",
    "chromium": "browser",
    "postgres_programs": "server",
    "site_tools": "site",
    "portal_tools": "portal",
}
"""The marker of every test that uses a fixture, itself or through another fixture."""
APART = ("test_folders.py", "test_untrusted_files.py")
"""Files whose tables are checked as readers do, in a process of their own with little memory."""
GARBAGE_THRESHOLD = 50_000
"""Objects that are made between two looks for garbage; Python's own number is 700."""
NO_SKIP = bool(os.environ.get("HEXVEIL_NO_SKIP"))
ROOT = Path(__file__).resolve().parents[1]
CACHES = {"__pycache__", "node_modules", "site"}
"""Folders of tools, besides those whose names begin with a dot."""
FILES_BEFORE = pytest.StashKey[set[str]]()


def _missing(reason: str) -> None:
    """Skip with a reason, or fail where nothing may be skipped."""
    if NO_SKIP:
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_addoption(parser):
    """Let a run go on where others ended."""
    said = "file of tests that passed: they are left out, and those that pass now are added"
    parser.addoption("--passed", type=Path, metavar="FILE", help=said)


def pytest_configure(config):
    """Look for garbage less often than Python does: each look takes its time in every test."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    file = config.getoption("passed")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(file))


def pytest_collection_finish():
    """Leave modules and tests out of later looks for garbage: they live to the end."""
    gc.freeze()


class _Passed:
    """Notes the tests that passed in a file."""

    def __init__(self, file):
        self._file, self._names = file, []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self._names.append(report.nodeid)

    def pytest_sessionfinish(self):
        with self._file.open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in self._names)


def _checkout():
    """Return the files of the checkout, but for those of tools."""
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if not name.startswith(".") and name not in CACHES]
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118  thousands


def pytest_sessionstart(session):
    """Note the files of the checkout before a test runs."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[FILES_BEFORE] = set(_checkout())


def pytest_sessionfinish(session):
    """Fail a run whose tests wrote files into the checkout."""
    before = session.config.stash.get(FILES_BEFORE, None)
    written = sorted(set(_checkout()) - before) if before is not None else []
    if written:
        sys.stderr.write("\n  ".join(["\ntests wrote into the checkout:", *written, ""]))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure():
    """Let the end of the process look at them again, which libraries in C++ count on."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in docstrings of the package alone: tests have none."""
    # pytest has no public name for the collector of a module's examples.
    return [found for found in (yield) if type(found).__name__ != "DoctestModule"]


def pytest_itemcollected(item):
    """Mark a test by the programs that its fixtures need."""
    for fixture in NEEDS.keys() & set(getattr(item, "fixturenames", ())):
        item.add_marker(NEEDS[fixture])


def _group(nodeid):
    """Return the name of the tests that one process runs: a file, or files that share something."""
    if nodeid.startswith(OWN_SESSION):
        return "services"
    if nodeid.startswith(ONE_SESSION):
        return "spark"
    return "trees" if nodeid.startswith(SAME_TREES) else nodeid.partition("::")[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Put long files first, then slow tests: none is left for the end."""
    file = config.getoption("passed")
    if file is not None and file.exists():
        before = set(file.read_text(encoding="utf-8").splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
        items[:] = [item for item in items if item.nodeid not in before]
    slow = {"slow", *NEEDS.values(), "install"}
    place = {name: number for number, name in enumerate(LONG)}

    def late(item):
        names = {mark.name for mark in item.iter_markers()}
        return place.get(_group(item.nodeid), len(place)), slow.isdisjoint(names)

    items.sort(key=late)


@pytest.fixture(scope="session", autouse=True)
def working_folder(tmp_path_factory) -> Iterator[None]:
    """Work outside the checkout: a relative path of a test must not lead into it."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("work"))
    yield
    os.chdir(before)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let SIGINT interrupt: a shell that runs the tests in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def reader_here(request) -> Iterator[None]:
    """Check tables in this process, where none of a file unpacks to much: see `APART`."""
    from attack import table_reader  # noqa: PLC0415  each process of xdist imports this file

    with contextlib.nullcontext() if request.path.name in APART else table_reader.in_process:
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Return a scheduler that gives all tests of Spark to one process, and so those of a file.

    What the tests of a file share is then made once, and so are the trees that some files share.
    Files start in the order of their first test.
    Groups by mark (`--dist loadgroup`) have no effect with pytest 9: they rewrite an attribute of
    tests that is no more.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  only where tests are parted

    class OneSession(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _group(nodeid)

    config.option.loadscopereorder = False
    return OneSession(config, log)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real records beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        _missing("no folder ../shared with real records beside the checkout")
    return folder


@pytest.fixture(scope="session")
def core_types() -> tuple[str, ...]:
    """Return two or more core types that child processes can work as: see core_types.py."""
    import core_types  # noqa: PLC0415  few tests need it

    reason = core_types.missing()
    if reason is not None:
        pytest.skip(reason)  # no installation gives a machine another processor
    return core_types.possible()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of a Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        _missing("no Chromium on this machine (Debian: apt-get install chromium)")
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[object]:
    """Start one browser with an empty profile for all tests of pages: Playwright allows no two."""
    import chromium_flags  # noqa: PLC0415  few tests need it

    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=chromium_flags.FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """Return the folder of a PostgreSQL server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        _missing("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    return found[-1].parent


@pytest.fixture(scope="session")
def postgres(postgres_programs):
    """Return the address of a PostgreSQL server that runs while the tests do."""
    if importlib.util.find_spec("psycopg") is None:
        _missing("no psycopg (pip install -e .[postgres])")
    from ledger.books import Server  # noqa: PLC0415  few tests need the library

    with Server(postgres_programs) as server:
        yield server.address
