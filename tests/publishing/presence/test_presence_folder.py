"""Folders of releases with private presence, and with a δ: what they hold, and what they say."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack import folder_kinds
from hexveil import GridTooFineWarning, InputError
from publishing.releases import said, whole_of

BOX = (20.5, 51.9, 21.5, 52.5)


def records(n=6000, seed=3):
    """Return records of 2,000 cars around Warsaw."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "car": [f"car{i % 2000}" for i in range(n)],
            "speed": 30 + 5 * rng.normal(size=n),
            "lat": 52.2 + 0.04 * rng.normal(size=n),
            "lon": 21.0 + 0.04 * rng.normal(size=n),
        }
    )


OPTIONS = {
    "user": "car", "value": "speed", "bounds": (0, 100), "quantum": "0.1", "value_unit": "km/h",
    "lat": "lat", "lon": "lon", "protect": "presence", "cells": hv.Cells(6, None, area=BOX),
}  # fmt: skip


def test_a_map_with_nothing_to_say_is_refused(tmp_path):
    """A grid too fine for the declared fleet is refused before anything is booked."""
    dataset = hv.read(records(), **OPTIONS | {"cells": hv.Cells(8, None, area=BOX)})
    with pytest.warns(GridTooFineWarning, match="coarser grid"):
        plan = hv.plan(dataset, epsilon=1, fleet=hv.FleetDeclaration(40))
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="pure", budget=9)
    with pytest.raises(InputError, match=r"coarser grid.*accept_noise"):
        hv.release(dataset, plan, ledger=book)
    assert book.spent == 0


def test_nothing_that_was_public_is_in_the_folder(tmp_path):
    """Neither users nor records, nor fingerprints, shares of bad rows, or losses of units."""
    folder = folder_kinds.make(tmp_path, "presence")
    manifest = said(folder)
    assert not {"rules", "losses", "cells", "occupancy"} & manifest.keys()
    assert "losses" not in whole_of(folder)
    assert not {"users", "records"} & {*pq.read_schema(folder / "cells.parquet").names}
    assert "min_users" not in (folder / "manifest.json").read_text()


def test_another_model_is_another_door(tmp_path):
    """A plan for public presence, or for another reading, is refused; nothing is spent."""
    dataset = hv.read(records(), **OPTIONS)
    other = hv.declare(**OPTIONS | {"bounds": (0, 90)})
    book = hv.Ledger(tmp_path / "l.sqlite", dataset="cars", budget=1)
    with pytest.raises(InputError, match="another declared reading"):
        hv.release(dataset, hv.plan(other, epsilon=1, fleet=2000), ledger=book)
    binned = hv.declare(**OPTIONS, statistics="share<25")
    with pytest.raises(InputError, match="another declared reading"):
        hv.release(dataset, hv.plan(binned, epsilon=1, fleet=2000), ledger=book)
    with pytest.raises(InputError, match="needs public presence"):
        hv.capacity(dataset, epsilon=1)
