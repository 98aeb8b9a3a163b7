"""Interrupts wait until a step that must not stop halfway is done."""

import signal

import pytest

from hexveil import StorageError
from hexveil.base import atomic_files
from hexveil.base.atomic_files import defer_interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def heard(monkeypatch):
    """Note signals that arrive; SIGINT's handler raises, as Python's does."""
    seen = []

    def noted(number, _):
        seen.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, noted) for number in SIGNALS}
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


def test_every_interrupt_is_delivered_once_when_the_draw_is_stored(heard):
    """Each kind that came arrives afterwards, also behind one whose handler raises."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    during = []

    def draw():
        with defer_interrupts():
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            during.extend(heard)

    with pytest.raises(KeyboardInterrupt):
        draw()
    assert during == []
    assert sorted(heard) == [signal.SIGINT, signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers


def test_an_error_of_the_draw_leaves_handlers_as_they_were(heard):
    """The error comes out, and the interrupt that waited is delivered."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}

    def draw():
        with defer_interrupts():
            signal.raise_signal(signal.SIGTERM)
            raise StorageError("full")

    with pytest.raises(StorageError, match="full"):
        draw()
    assert heard == [signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers


def test_an_interrupt_while_handlers_are_put_back_leaves_none_deferred(heard, monkeypatch):
    """A second one at that moment is raised, and no signal is swallowed from then on."""
    real, put_back = signal.signal, []

    def put(number, handler):
        made = real(number, handler)
        if put_back:
            put_back.append(number)
            signal.raise_signal(number)
        return made

    monkeypatch.setattr(atomic_files.signal, "signal", put)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        put_back.append("now")
    monkeypatch.undo()
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers
    assert set(heard) == set(SIGNALS)
