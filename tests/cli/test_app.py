"""What every error becomes: an exit code and one line that shows no data."""

import signal

import pytest

from hexveil.base.errors import InputError, StorageError
from hexveil.cli import main, shared_steps


def failing(error):
    """Return a step that raises."""

    def step(*_arguments, **_options):
        raise error

    return step


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (StorageError("the disk is full; make room."), 1, "hexveil: the disk is full; make room."),
        (KeyboardInterrupt(), 130, "hexveil: interrupted."),
    ],
)
def test_exit_codes(here, call, monkeypatch, error, code, line):
    """A failing machine is 1, an interruption 130; each is one line."""
    monkeypatch.setattr(shared_steps, "read_releasable", failing(error))
    said = call("release", "run.toml")
    assert (said.code, said.err) == (code, line + "\n")
    assert not (here / "map").exists()
    assert not (here / "ledger.sqlite").exists()


def test_an_unknown_error_shows_no_data(here, call, monkeypatch):
    """The text of an unexpected error may hold values, so only its type is shown."""
    monkeypatch.delenv("HEXVEIL_DEBUG", raising=False)
    monkeypatch.setattr(shared_steps, "read", failing(RuntimeError("bus 17 drove 61")))
    said = call("plan", "run.toml")
    assert said.code == 1
    assert "RuntimeError" in said.err
    assert "SECURITY.md" in said.err
    assert "61" not in said.err
    assert said.err.count("\n") == 1


def test_debugging_shows_the_traceback_on_request(here, call, monkeypatch):
    """HEXVEIL_DEBUG=1 shows the holder what happened."""
    monkeypatch.setenv("HEXVEIL_DEBUG", "1")
    monkeypatch.setattr(shared_steps, "read", failing(RuntimeError("inner words")))
    said = call("plan", "run.toml")
    assert said.code == 1
    assert "inner words" in said.err


def test_a_line_stays_a_line(here, call, monkeypatch):
    """A message with line breaks is printed as one line."""
    monkeypatch.setattr(shared_steps, "read", failing(InputError("one\ntwo.")))
    assert call("plan", "run.toml").err == "hexveil: one two.\n"


def test_an_interruption_that_an_engine_swallows_is_one(here, call, monkeypatch):
    """Where an engine answers an interruption with an error of its own, it stays exit 130."""

    def engine(*_arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("query interrupted") from None

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(shared_steps, "read_releasable", engine)
    said = call("release", "run.toml")
    assert (said.code, said.err) == (130, "hexveil: interrupted.\n")
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]
    assert signal.getsignal(signal.SIGINT) is before


def test_main_returns_an_exit_code(capsys):
    """The entry point returns what the process exits with."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hexveil ")
