"""The line shown while work takes long."""

import io
import sys
import time

from hexveil.records import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Say yes."""
        return True


def test_nothing_is_shown_where_no_terminal_is(monkeypatch):
    """A log file gets no progress."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.show_progress("Reading records"):
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_short_work_shows_nothing(monkeypatch):
    """Below the patience there is no line, and no wait at the end."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    began = time.monotonic()
    with progress.show_progress("Reading records"):
        pass
    assert time.monotonic() - began < progress.PATIENCE
    assert stream.getvalue() == ""


def test_long_work_is_named_on_a_terminal(monkeypatch):
    """The line names the work."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.show_progress("Reading records"):
        time.sleep(0.5)
    assert "Reading records ..." in stream.getvalue()


def test_work_within_work_shows_one_line(monkeypatch):
    """Only the outer work is named; afterwards a line can be shown again."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.show_progress("Advising"), progress.show_progress("Counting"):
        time.sleep(0.5)
    assert "Advising ..." in stream.getvalue()
    assert "Counting" not in stream.getvalue()
    with progress.show_progress("Counting"):
        time.sleep(0.5)
    assert "Counting ..." in stream.getvalue()
