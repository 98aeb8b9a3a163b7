"""Every interruption ends a command in the same way: it unwinds, and its exit code is 130."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa

import hexveil as hv
from ledger.books import listening

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
DAYS = "--from 2022-01-01 --to 2022-01-03"
CHILD = """\
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = {arguments!r}
{setting}
from hexveil.cli import command
command()
"""


def child(setting, *arguments):
    """Call the command in a process that first runs some setting, as a module of this folder."""
    Path("starting.py").write_text(CHILD.format(arguments=list(arguments), setting=setting))
    return subprocess.run(
        [sys.executable, "-m", "starting"], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def default_signals():
    """Let signals be handled, also where the tests run in the background."""
    before = {one: signal.getsignal(one) for one in SIGNALS}
    for one in SIGNALS:
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for one, was in before.items():
        signal.signal(one, was)


def raising(number, error=None):
    """Return a step in which a signal comes; a library may turn it into an error."""

    def step():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if error is None:
                raise
            raise error from None
        pytest.fail("the signal was not taken")

    return step


def swallowed():
    """Let a signal come that a library drops."""
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def at_reading(monkeypatch, act):
    """Have something happen as the engine is first opened, which then goes on."""
    connect, acts = duckdb.connect, [act]

    def opened(*given, **options):
        if acts:
            acts.pop()()
        return connect(*given, **options)

    monkeypatch.setattr(duckdb, "connect", opened)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("error", [None, RuntimeError("Query interrupted"), hv.StorageError("x")])
@pytest.mark.parametrize("command", ["plan", "release"])
def test_every_signal_is_130(here, call, monkeypatch, command, number, error):
    """Ctrl-C, a stop by a scheduler and a lost terminal, whatever a library makes of them."""
    at_reading(monkeypatch, raising(number, error))
    before = signal.getsignal(number)
    said = call(command, "run.toml")
    assert (said.code, said.err) == (130, "hexveil: interrupted.\n")
    assert signal.getsignal(number) is before
    assert not (here / "map").exists()
    assert not (here / "ledger.sqlite").exists()


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(
    "error", [None, hv.StorageError("cancelled."), pytest.param(swallowed, marks=pytest.mark.slow)]
)
def test_publish_stops_at_once(here, call, monkeypatch, error):
    """An interruption on the first of three days is no failure of that day, whatever becomes of it.

    Where a library drops it and the day ends well, no further day begins.
    """
    at_reading(monkeypatch, error if error is swallowed else raising(signal.SIGTERM, error))
    (here / "run.toml").write_text(
        (here / "run.toml").read_text().replace("[cells]", '[cells]\ntimezone = "Asia/Kolkata"')
    )
    said = call("publish run.toml", DAYS)
    assert (said.code, said.err) == (130, "hexveil: interrupted.\n")
    published = [line[:10] for line in said.out.splitlines() if "published" in line]
    assert published == ["2022-01-01"] * (error is swallowed)
    assert "failed" not in said.out


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("late", [False, True])
def test_a_signal_before_the_command_begins_counts(call, monkeypatch, late):
    """It comes while signals begin to be watched; what comes as they cease to be is too late."""
    install, calls = signal.signal, []

    def installed(number, handler):
        calls.append(number)
        before = install(number, handler)
        # The last that is taken, or the first that is given back.
        if len(calls) == len(SIGNALS) + late:
            signal.raise_signal(signal.SIGTERM)
        return before

    monkeypatch.setattr(signal, "signal", installed)
    said = call("--version")
    assert len(calls) == 2 * len(SIGNALS)
    assert said.code == (0 if late else 130)
    assert said.err == ("" if late else "hexveil: interrupted.\n")


@pytest.mark.slow
@pytest.mark.usefixtures("default_signals")
def test_finished_work_keeps_its_code(here, call, monkeypatch):
    """A signal that came too late to stop anything does not make finished work a failure."""
    at_reading(monkeypatch, swallowed)
    assert call("release run.toml").code == 0
    assert (here / "map").is_dir()


MOMENTS = {
    "while the command loads": "import builtins\nreal = builtins.__import__\n"
    "def load(name, *rest):\n"
    "    if name == 'pyarrow': os.kill(os.getpid(), signal.{name})\n"
    "    return real(name, *rest)\n"
    "builtins.__import__ = load",
    "at exit": "import atexit; atexit.register(os.kill, os.getpid(), signal.{name})",
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_of_its_own_exits_with_its_code(here, moment):
    """While libraries load it is 130; at exit the work's own code."""
    done = child(MOMENTS[moment].format(name="SIGTERM"), "release", "run.toml")
    finished = moment == "at exit"
    assert done.returncode == (0 if finished else 130), done.stderr
    assert done.stderr == ("" if finished else "hexveil: interrupted.\n")
    assert (here / "map").exists() == finished


UNWINDING = """\
import time
import duckdb
real = duckdb.connect
def stop():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
class Slow:
    def __init__(self, connection):
        self.connection = connection
    def __getattr__(self, name):
        return getattr(self.connection, name)
    def sql(self, query):
        try:
            stop()
        finally:
            time.sleep(1.1)  # at once it would be the same signal
            stop()
duckdb.connect = lambda **options: Slow(real(**options))
"""
"""A command that takes ten minutes to unwind after its first signal."""


@pytest.mark.slow
def test_a_second_signal_ends_the_process(here, tmp_path, monkeypatch):
    """It ends with the same code and words, and removes the private files."""
    place = tmp_path / "scratch"
    monkeypatch.setenv("HEXVEIL_SCRATCH", str(place))
    done = child(UNWINDING, "plan", "run.toml")
    assert (done.returncode, done.stderr) == (130, "hexveil: interrupted.\n")
    assert [path.name for path in place.iterdir()] == ["README.txt"]


def test_a_database_that_hides_an_interruption_is_one(tmp_path):
    """Also for callers of the library: its wrapped error is KeyboardInterrupt again."""
    book = hv.Ledger(tmp_path / "l.sqlite", dataset="buses", budget=1)

    def interrupted(_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise sa.exc.OperationalError("COMMIT", {}, Exception()) from error

    with listening("commit", interrupted), pytest.raises(KeyboardInterrupt):
        book.set_budget(2)
    assert book.budget == 1
