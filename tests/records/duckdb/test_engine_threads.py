"""How many threads the engine needs for a source."""

import gzip

import pyarrow as pa
import pytest

from hexveil.records.duckdb import source
from hexveil.records.duckdb.source import engine_threads
from hexveil.records.sources.source_files import Files, MemoryTable


@pytest.mark.parametrize("n_files", [1, 3])
def test_small_files_have_one_thread(tmp_path, n_files, monkeypatch):
    """All files count together; a byte more than is small takes all processors."""
    monkeypatch.setattr(source, "SMALL_SOURCE", 3 * 100)
    paths = [tmp_path / f"{number}.csv" for number in range(n_files)]
    for path in paths:
        path.write_bytes(b"x" * (300 // n_files))
    files = Files("csv", tuple(map(str, paths)), "records")
    assert engine_threads(files) == 1
    paths[0].write_bytes(b"x" * (300 // n_files + 1))
    assert engine_threads(files) is None


def test_packed_files_count_unpacked(tmp_path, monkeypatch):
    """A packed file is as large as what is read of it."""
    monkeypatch.setattr(source, "SMALL_SOURCE", 10_000)
    path = tmp_path / "records.csv.gz"
    path.write_bytes(gzip.compress(b"x" * 10_001))
    assert path.stat().st_size < 1_000
    assert engine_threads(Files("csv", (str(path),), "records")) is None


def test_tables_count_by_their_columns(monkeypatch):
    """A table in memory has eight bytes for each double."""
    monkeypatch.setattr(source, "SMALL_SOURCE", 800)
    assert engine_threads(MemoryTable(pa.table({"value": [1.0] * 100}))) == 1
    assert engine_threads(MemoryTable(pa.table({"value": [1.0] * 101}))) is None


def test_a_file_that_is_gone_is_left_to_whoever_opens_it(tmp_path):
    """The refusal of a missing file says more than its size could."""
    assert engine_threads(Files("csv", (str(tmp_path / "gone.csv"),), "records")) == 1
