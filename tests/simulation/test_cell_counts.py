"""Tests of `hexveil.simulation.own_cells`: counts from a small file."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.base.errors import InputError
from hexveil.simulation.own_cells import read_counts

COUNTS = [9, 3, 1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[9, 3, 1]"),
        ("a.JSON", "[9,\n3,\n1]"),
        ("a.csv", "samples\n9\n3\n1\n"),
        ("a.csv", "9\n3\n1"),
        ("a.csv", "user,n\nx,9\ny,3\nz,1\n"),
        ("a.csv", "counts;\n9\n3\n1\n".replace(";", "")),
    ],
)
def test_text_files_are_read(tmp_path, name, text):
    """A JSON list, or a CSV column with or without a header."""
    (tmp_path / name).write_text(text)
    assert read_counts(tmp_path / name).tolist() == COUNTS


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float64()])
def test_parquet_is_read(tmp_path, kind):
    """Whole numbers of any type."""
    pq.write_table(pa.table({"n": pa.array(COUNTS, kind)}), tmp_path / "a.parquet")
    assert read_counts(str(tmp_path / "a.parquet")).tolist() == COUNTS


def test_the_itms_like_counts_are_read(shared):
    """The shared list of 217 counts has the shape that is read."""
    counts = read_counts(shared / "data" / "itms_like_counts.json")
    assert (counts.size, counts.sum(), counts.max()) == (217, 17166, 417)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "9", "must be a .json, .csv or .parquet file"),
        ("a.json", "[9, 3.5]", "one list of whole numbers"),
        ("a.json", "[9, true]", "one list of whole numbers"),
        ("a.json", '{"n": [9]}', "one list of whole numbers"),
        ("a.json", "[]", "at least 1, one per user"),
        ("a.json", "[9, 0]", "at least 1, one per user"),
        ("a.json", "[9", "cannot be read as json"),
        ("a.json", f"[{2**64}]", "cannot be read as json"),
        ("a.json", "\xff", "cannot be read as json"),
        ("a.csv", "", "cannot be read as csv"),
        ("a.csv", "n\n9\n\n2.5\n", "at least 1, one per user"),
        ("a.csv", "n\n9\nx\n", "at least 1, one per user"),
        ("a.csv", "n,m\n9,\n,2\n", "at least 1, one per user"),
        ("a.csv", "user,samples\nx,9\n", "must have one column, or one that is named n"),
        ("a.csv", "n,counts\n1,9\n", "must have one column, or one that is named n"),
        ("a.parquet", "no", "cannot be read as parquet"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text, message):
    """What is wrong with the file is one sentence."""
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=re.escape(message)):
        read_counts(tmp_path / name)


def test_a_missing_file_is_said(tmp_path):
    """A file that is not there, and a folder in its place."""
    with pytest.raises(InputError, match="there is no file"):
        read_counts(tmp_path / "a.json")
    (tmp_path / "b.json").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        read_counts(tmp_path / "b.json")
