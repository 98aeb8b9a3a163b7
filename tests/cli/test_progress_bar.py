"""The bar shown while work takes long."""

import io
import sys
import time

from hexveil.cli.output import progress_bar
from hexveil.records import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Say yes."""
        return True


def shown(monkeypatch, stream, patience, wait=0.0):
    """Return what stands on a stream after a bar was told of some work."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar.progress_bar("Comparing") as tell:
        for share in (0.0, 0.25, 0.5):
            tell(share)
        time.sleep(wait)
    return stream.getvalue()


def test_nothing_is_shown_where_no_terminal_is(monkeypatch):
    """A log file gets no progress."""
    assert shown(monkeypatch, io.StringIO(), 0.0) == ""


def test_short_work_shows_nothing(monkeypatch):
    """Below the patience there is no bar."""
    assert shown(monkeypatch, Terminal(), 60.0) == ""


def test_long_work_shows_its_share(monkeypatch):
    """The bar names the work and how much of it is done."""
    text = shown(monkeypatch, Terminal(), 0.0, wait=0.3)
    assert "Comparing" in text
    assert "50%" in text
