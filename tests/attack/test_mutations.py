"""Damaged files of every format are read as they are, or refused in one clear sentence.

That records beside a damaged one stay as they were: tests/records/test_delimited_text.py and
test_odd_records.py.
"""

import gzip
import io
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack import fuzz_bytes, fuzz_oracle
from hexveil.base.errors import HexveilError, InputError, StorageError
from hexveil.planning.plan import Plan

pytestmark = pytest.mark.slow

BUSES = [f"bus-{number}" for number in range(6)] + ["0x7", "é"]
TABLE = pa.table(
    {
        "user": [BUSES[number % len(BUSES)] for number in range(36)],
        "speed": [[12.5, -7.0, 61.25, 0.5, 30.0, 1e3][number % 6] for number in range(36)],
        "route": [f"R{number % 3}" for number in range(36)],
        "time": [1_700_000_000 + 60 * (number // 9) for number in range(36)],
    }
)


def as_csv():
    sink = io.BytesIO()
    pyarrow.csv.write_csv(TABLE, sink)
    return sink.getvalue()


def as_parquet():
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    return sink.getvalue()


FORMATS = {
    "plain.csv": (as_csv(), 0.06),
    "lines.ndjson": ("\n".join(map(json.dumps, TABLE.to_pylist())).encode(), 0.06),
    "array.json": (json.dumps(TABLE.to_pylist()).encode(), 0.16),
    "table.parquet": (as_parquet(), 0.15),
    "packed.csv.gz": (gzip.compress(as_csv(), mtime=0), 0.3),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_records_are_read_or_refused(tmp_path, name):
    """Counts add up, or there is one sentence; what is packed has a checksum, and is never other.

    Before anything is damaged all records are read, repeats among them.
    """
    (data, share), path, read = FORMATS[name], tmp_path / name, 0
    path.write_bytes(data)
    whole = fuzz_oracle.found(fuzz_oracle.read(path))
    assert whole[0]["records read"] == TABLE.num_rows
    assert whole[0]["repeats of a user and time"] > 0
    with fuzz_bytes.guard():
        for seed, damaged in fuzz_bytes.mutants(data, fuzz_bytes.few(share)):
            path.write_bytes(damaged)
            try:
                outcome = fuzz_oracle.read(path)
                fuzz_oracle.check(outcome, None)
            except HexveilError as error:  # the engine failed within
                outcome = fuzz_oracle.checked_error(error)
            except Exception as error:
                error.add_note(f"seed {seed} of {name}")
                raise
            if not isinstance(outcome, Exception):
                read += 1
                assert not name.endswith("gz") or fuzz_oracle.found(outcome) == whole, seed
    assert read > 2 or name.endswith("gz")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write a plan of hexagons, once."""
    place = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "bus": [f"b{number % 40}" for number in range(400)],
            "speed": rng.uniform(0, 60, 400).round(1),
            "lat": 21.1 + 0.3 * (np.arange(400) % 3),
            "lon": 72.8 + 0.0 * np.arange(400),
        }
    )
    dataset = hv.read(
        table, user="bus", value="speed", lat="lat", lon="lon", bounds=(0, 65),
        cells=hv.Cells(6, None),
    )  # fmt: skip
    plan = hv.plan(dataset, epsilon=20, statistics=("mean", "sd"), advise=False)
    plan.save(place / "plan")
    return SimpleNamespace(plan=place / "plan", losses=plan.losses(), records=dataset)


@pytest.mark.parametrize("name", ["plan.json", "arrays.bin", "cells.parquet", "users.parquet"])
def test_a_damaged_plan_is_the_same_plan_or_refused(made, tmp_path, name):
    """What loads from a damaged folder has the losses that were saved: its digest guards it."""
    folder = shutil.copytree(made.plan, tmp_path / "plan")
    good = (folder / name).read_bytes()
    with fuzz_bytes.guard():
        for seed, damaged in fuzz_bytes.mutants(good, fuzz_bytes.MANY):
            (folder / name).write_bytes(damaged)
            try:
                plan = Plan.load(folder, made.records)
            except (InputError, StorageError) as error:
                fuzz_oracle.checked_error(error)
            else:
                assert np.array_equal(plan.losses(), made.losses), seed
