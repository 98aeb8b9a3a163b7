"""A ledger with room, and a small city."""

import numpy as np
import pytest

import hexveil as hv
from publishing.setting import dataset_of, hexagons


@pytest.fixture
def book(tmp_path):
    """Return a ledger with room for many releases."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100_000)


@pytest.fixture
def city():
    """Return three hexagons in one hour, two of them with four users and one with a single one."""
    counts = np.array([[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]])
    return dataset_of(
        counts,
        [173, 101, 59, 297, 113, 97, 239, 41, 37],
        cells=hexagons(3),
        value="speed",
        value_unit="km/h",
        rules={"read": 30, "kept": 21},
        identity={"source": "buses.parquet", "version": "1", "drop_values": "none"},
    )
