"""A ledger with room, and a small city."""

from functools import partial

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.publishing import pipeline
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
def seeded_noise(monkeypatch):
    """Let releases draw the same numbers in every run, for tests that compare them with others."""
    generator = np.random.default_rng(5)
    monkeypatch.setattr(pipeline, "VettedNoise", partial(SimulatedNoise, generator, 1))
