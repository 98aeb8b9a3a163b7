"""The line shown while work takes long."""

import io
import sys
import time

from hexveil.base import work_share
from hexveil.base.work_share import READING, ShownWork, part_of_work, tell_share
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
                time.sleep(0.1)
    assert shown == sorted(shown)
    assert {0.125, 0.375, 0.625, 0.875} <= set(shown)
    tell_share(READING, 0.2)  # nothing is shown any more


def test_steps_complete_the_work_that_is_shown(monkeypatch):
    """Activities inside advance their part of it, by their shares and by their end."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    work = ShownWork("Publishing", share=0.5, windows={"Reading": (0.5, 0.9), "Writing": (0.9, 1)})
    told = []
    with progress.show_progress(work):
        with progress.show_progress("Reading"), part_of_work("Reading", 1, 2):
            tell_share("Reading", 0.5)
            told.append(work.share)
        told.append(work.share)
        with progress.show_progress("Another"):
            tell_share("Another", 0.95)
        told.append(work.share)
        with progress.show_progress("Writing"):
            pass
        told.append(work.share)
    assert [round(share, 9) for share in told] == [0.8, 0.9, 0.9, 1.0]


def test_minutes_are_shown_for_a_long_rest():
    assert (
        ShownWork("Reading", began=0.0, share=0.1).text(60.0) == "Reading ... 10%, about 9 min left"
    )
