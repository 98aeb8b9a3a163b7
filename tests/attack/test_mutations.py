"""Damaged files of every format: the same as an independent parser finds, or one clear sentence."""

import gzip
import io
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack import fuzz_bytes, fuzz_oracle
from attack.fuzz_oracle import MALFORMED
from hexveil.base.errors import HexveilError, InputError, StorageError
from hexveil.planning.plan import Plan

pytestmark = pytest.mark.slow

BUSES = [f"bus-{number}" for number in range(6)] + ["0x7", "é"]
ROWS = [
    {
        "user": BUSES[number % len(BUSES)],
        "speed": [12.5, -7.0, 61.25, 0.5, 30.0, 1e3][number % 6],
        "route": f"R{number % 3}",
        "time": 1_700_000_000 + 60 * (number // 9),
        "note": "x" * (number % 5),
    }
    for number in range(36)
]
TYPES = {
    "user": pa.string(),
    "speed": pa.float64(),
    "route": pa.string(),
    "time": pa.timestamp("ms", "UTC"),
    "note": pa.string(),
}


def as_csv(quote=""):
    lines = [[*ROWS[0]], *([str(field) for field in row.values()] for row in ROWS)]
    return "".join(",".join(f"{quote}{f}{quote}" for f in line) + "\n" for line in lines).encode()


def as_ndjson():
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def as_array():
    return json.dumps(ROWS).encode()


def as_parquet():
    sink = io.BytesIO()
    columns = {name: pa.array([row[name] for row in ROWS], kind) for name, kind in TYPES.items()}
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def parquet_records(data):
    """Return the records that pyarrow finds in a Parquet file; None if it finds none."""
    try:
        table = pq.read_table(pa.BufferReader(data))
        if any(table.schema.field(name).type != TYPES[name] for name in fuzz_oracle.NAMES):
            return None
        return fuzz_oracle.arrow_records(table)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None


FORMATS = {
    "plain.csv": (as_csv(), fuzz_oracle.csv_records, 0.06),
    "quoted.csv": (as_csv('"'), fuzz_oracle.quoted_records, 0.06),
    "lines.ndjson": (as_ndjson(), fuzz_oracle.ndjson_records, 0.06),
    "array.json": (as_array(), fuzz_oracle.array_records, 0.16),
    "table.parquet": (as_parquet(), parquet_records, 0.15),
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_good_file_is_read_as_the_parser_reads_it(tmp_path, name):
    """Before anything is damaged, reader and parser agree on every record."""
    data, parser, _ = FORMATS[name]
    (tmp_path / name).write_bytes(data)
    records = parser(data)
    assert len(records) == len(ROWS)
    assert MALFORMED not in records
    outcome = fuzz_oracle.read(tmp_path / name)
    fuzz_oracle.check(outcome, records)
    assert outcome.public.rules["repeats of a user and time"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_records_are_counted_right_or_refused(tmp_path, name):
    """Each damaged file gives what an independent parser finds in it, or one clear sentence."""
    data, parser, share = FORMATS[name]
    path, compared = tmp_path / name, 0
    with fuzz_bytes.guard():
        for seed, damaged in fuzz_bytes.mutants(data, fuzz_bytes.few(share)):
            path.write_bytes(damaged)
            records = parser(damaged)
            try:
                known = of_parquet(path, parser(data)) if name == "table.parquet" else "other"
                compared += known == "undamaged"
                if known != "other":
                    continue
                fuzz_oracle.check(fuzz_oracle.read(path), records)
            except Exception as error:
                error.add_note(f"seed {seed} of {name}")
                raise
            compared += records is not None
    assert compared > 5


def of_parquet(path, whole):
    """Return whether a Parquet file is refused, read as the one that was not damaged, or other.

    pyarrow reads on where other readers stop, and sees gaps where damage says so but the values
    are there.
    """
    try:
        outcome = fuzz_oracle.read(path)
    except HexveilError as error:  # the engine failed within
        outcome = fuzz_oracle.checked_error(error)
    if isinstance(outcome, Exception):
        return "refused"
    return "undamaged" if fuzz_oracle.found(outcome) == fuzz_oracle.expected(whole) else "other"


def test_a_damaged_pack_is_never_read_as_other_records(tmp_path):
    """A gzip file either unpacks to the same bytes as before, or is refused: it has a checksum."""
    path = tmp_path / "packed.csv.gz"
    plain = as_csv()
    with fuzz_bytes.guard():
        for seed, damaged in fuzz_bytes.mutants(gzip.compress(plain, mtime=0), fuzz_bytes.few(0.3)):
            path.write_bytes(damaged)
            outcome = fuzz_oracle.read(path)
            if not isinstance(outcome, Exception):
                assert gzip.decompress(damaged) == plain, seed
                fuzz_oracle.check(outcome, fuzz_oracle.csv_records(plain))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write a plan and a release of labels and of hexagons, once."""
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
        table,
        user="bus",
        value="speed",
        lat="lat",
        lon="lon",
        bounds=(0, 65),
        cells=hv.Cells(6, None),
    )
    plan = hv.plan(dataset, epsilon=20, statistics=("mean", "sd"), advise=False)
    plan.save(place / "plan")
    book = hv.Ledger(place / "ledger.sqlite", dataset="buses", budget=100)
    hv.release(dataset, plan, ledger=book, accept_noise=True).write(place / "map")
    return SimpleNamespace(
        plan=place / "plan", map=place / "map", losses=plan.losses(), records=dataset
    )


PLAN_FILES = ("plan.json", "arrays.bin", "cells.parquet", "users.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAN_FILES)
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
