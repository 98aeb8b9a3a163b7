"""A release of each kind whose booking is below what goes to the noise library."""

from dataclasses import replace

import pytest

import hexveil as hv
from hexveil.publishing import pipeline
from publishing.test_every_kind import EACH, asked


@EACH
def test_a_release_that_books_too_little_shows_nothing(kind, tmp_path, monkeypatch):
    """The meter counts what goes to the noise door, whatever was booked for it."""
    release, _, _, book = asked(tmp_path, kind)

    def charged(*given, real=pipeline.charge_of):
        charge = real(*given)
        return replace(charge, metered=0.9 * charge.metered)

    monkeypatch.setattr(pipeline, "charge_of", charged)
    with pytest.raises(hv.HexveilError, match="more than was booked"):
        release()
    (entry,) = book.entries()
    assert not entry.complete
