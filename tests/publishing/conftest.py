"""A ledger with room, and a small city."""

import pytest

import hexveil as hv
from publishing import noise_library
from publishing.setting import small_city


@pytest.fixture
def book(tmp_path):
    """Return a ledger with room for many releases."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100_000)


@pytest.fixture
def city():
    """Return three hexagons in one hour, two of them with four users and one with a single one."""
    return small_city()


@pytest.fixture
def draws():
    """Watch the noise library; every draw is noted by its kind and size, nothing is changed."""
    calls = []
    with noise_library.watched(calls):
        yield calls
