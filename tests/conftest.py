"""What every test may ask for: shared data beside the checkout, a browser, a database server."""

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import examples

examples.register()

ONE_SESSION = ("tests/records/spark/", "tests/records/test_engines_agree.py")
"""Where tests stand that share a session of Spark, which takes long to start."""
LONG_FILES = (
    "tests/attack/test_crash.py",
    "tests/test_package.py",
    "tests/attack/test_leaks.py",
    "tests/attack/test_adversity.py",
    "tests/attack/test_signals.py",
    "tests/test_end_to_end.py",
    "tests/attack/test_exact_law.py",
    "tests/attack/test_mutants.py",
    "tests/publishing/test_coverage.py",
    "tests/research/papers/test_paper_gallery.py",
    "tests/research/audit/test_run.py",
    "tests/test_how_to.py",
)
"""Files that take a minute or more, the longest first."""
NEEDS = {
    "spark": "spark",
    "chromium": "browser",
    "postgres_programs": "server",
    "site_tools": "site",
}
"""The marker of every test that uses a fixture, itself or through another fixture."""
NO_SKIP = bool(os.environ.get("HEXVEIL_NO_SKIP"))


def _missing(reason: str) -> None:
    """Skip with a reason, or fail where nothing may be skipped."""
    if NO_SKIP:
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_itemcollected(item):
    """Mark a test by the programs that its fixtures need."""
    for fixture in NEEDS.keys() & set(getattr(item, "fixturenames", ())):
        item.add_marker(NEEDS[fixture])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put tests of Spark first, then long files, then slow tests: none is left for the end."""
    slow = {"slow", *NEEDS.values(), "install"}
    place = {name: number for number, name in enumerate(LONG_FILES)}

    def late(item):
        names = {mark.name for mark in item.iter_markers()}
        file = place.get(item.nodeid.partition("::")[0], len(place))
        return "spark" not in names, file, slow.isdisjoint(names)

    items.sort(key=late)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let SIGINT interrupt: a shell that runs the tests in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Return a scheduler that gives all tests of Spark to one process, and so those of a file.

    What the tests of a file share is then made once. Files start in the order of their first test.
    Groups by mark (`--dist loadgroup`) have no effect with pytest 9: they rewrite an attribute of
    tests that is no more.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  only where tests are parted

    class OneSession(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "spark" if nodeid.startswith(ONE_SESSION) else nodeid.partition("::")[0]

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
    from ledger.books import server  # noqa: PLC0415  few tests need the library

    with server(postgres_programs) as address:
        yield address
