"""The line shown while work takes long."""

import atexit
import io
import sys
import time

import pyarrow as pa
import pytest

from hexveil import OneCell, Select, read
from records.watched_engine import once, watch

pytestmark = [pytest.mark.slow]  # a line is shown after two seconds


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


@pytest.fixture
def shown(monkeypatch):
    """Return what is shown on a stream while the engine does other work in a reading."""

    def reading(stream, work):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        worked = []
        watch(monkeypatch, once(lambda: worked.append(work())))
        rows = pa.table({"bus": ["a"], "speed": [1.0]})
        read(rows, user="bus", value="speed", bounds=(0, 9), cells=OneCell(),
             select=Select(min_users=1))  # fmt: skip
        assert worked
        return stream.getvalue()

    return reading


def test_nothing_is_shown_where_no_terminal_is(shown):
    """A log file gets no progress."""
    assert shown(io.StringIO(), lambda: time.sleep(2.5)) == ""


def test_long_work_is_named_on_a_terminal(shown):
    """The line names the work."""
    stream = Terminal()
    shown(stream, lambda: assert_soon(lambda: "Reading records ..." in stream.getvalue()))


def test_a_process_that_is_ended_takes_its_line_away(shown, monkeypatch):
    """The line ends as the process does, though the work goes on: it hides the cursor."""
    stream, closing = Terminal(), []
    monkeypatch.setattr(atexit, "register", closing.append)
    begin, end = "\x1b[?25l", "\x1b[?25h"

    def ended():
        assert_soon(lambda: begin in stream.getvalue())
        assert end not in stream.getvalue()
        closing[0]()
        assert_soon(lambda: end in stream.getvalue())

    shown(stream, ended)
