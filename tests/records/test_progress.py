"""The line shown while work takes long."""

import io
import sys
import time

from hexveil.base import work_share
from hexveil.base.work_share import (
    READING,
    part_of_work,
    tell_share,
)
from hexveil.records import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Say yes."""
        return True


def assert_soon(holds):
    """Wait for what another thread does, on a busy machine for long; fail if it never does."""
    last = time.monotonic() + 120.0
    while not holds():
        assert time.monotonic() < last, "it never came"
        time.sleep(0.01)


def test_nothing_is_shown_where_no_terminal_is(monkeypatch):
    """A log file gets no progress."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.show_progress("Reading records"):
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_long_work_is_named_on_a_terminal(monkeypatch):
    """The line names the work."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.show_progress("Reading records"):
        assert_soon(lambda: "Reading records ..." in stream.getvalue())


def test_the_rest_is_estimated_from_the_told_share(monkeypatch):
    """Parts of parts add up, other work is not heard, and no share goes back."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "REFRESH", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    shown = []
    monkeypatch.setattr(
        work_share.ShownWork, "text", lambda self, _: shown.append(self.share) or "line"
    )
    with progress.show_progress(READING):
        for number in range(4):
            with part_of_work(READING, number, 4), part_of_work("Other", 0, 1):
                tell_share("Other", 0.9)
                tell_share(READING, 0.5)
                tell_share(READING, 0.1)
                assert_soon(lambda part=(number + 0.5) / 4: part in shown)
    assert shown == sorted(shown)
    assert {0.125, 0.375, 0.625, 0.875} <= set(shown)
    tell_share(READING, 0.2)  # nothing is shown any more


def test_a_process_that_is_ended_takes_its_line_away(monkeypatch):
    """The line ends as the process does, though the work goes on: it hides the cursor."""
    stream, closing = Terminal(), []
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress.atexit, "register", closing.append)
    monkeypatch.setenv("TERM", "xterm")
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    with progress.show_progress("Counting"):
        assert_soon(lambda: hidden in stream.getvalue())
        assert shown not in stream.getvalue()
        (close,) = closing
        close()
        assert shown in stream.getvalue()
