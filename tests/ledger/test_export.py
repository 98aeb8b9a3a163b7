"""Events as files: three formats, the same rows, nothing about single units."""

import csv
import json

import pyarrow.parquet as pq
import pytest

from hexveil.base.errors import InputError, StorageError
from hexveil.ledger import inspection
from ledger.books import losses, publish


@pytest.fixture
def book(plain):
    """Return a book with one release."""
    made = plain.open('a,"b"\n=c')
    publish(made, "r", {"bus 7": "0.5"}, numbers=(4, -5))
    return made


def read(path):
    """Return the rows of a file with what is long as plain values."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = [one | {"entry": int(one["entry"])} for one in csv.DictReader(file)]
    else:
        rows = pq.read_table(path).to_pylist()
    return [
        {name: json.loads(text) if name in ("body", "numbers") and text else text or None
         if name == "numbers" else text for name, text in one.items()}
        for one in rows
    ]  # fmt: skip


@pytest.mark.parametrize("numbers", [False, True])
def test_every_format_has_the_same_rows(book, tmp_path, numbers):
    """What is read back is what the ledger says, odd names included."""
    found, results = inspection.history(book._engine), inspection.results(book._engine)
    given = results if numbers else None
    expected = [inspection.event_row(one, given) for one in found]
    assert ("numbers" in expected[0]) == numbers
    assert json.dumps(expected).count("-5") == numbers
    for name in ("e.json", "e.csv", "E.PARQUET"):
        inspection.export(tmp_path / name, found, results=given)
    assert read(tmp_path / "e.json") == expected
    assert read(tmp_path / "e.csv") == expected
    assert pq.read_table(tmp_path / "E.PARQUET").num_rows == len(expected)
    assert len(list(tmp_path.iterdir())) == 3


def test_no_hash_of_a_unit_is_in_a_file(book, tmp_path):
    """Not in bytes, nor as hex text."""
    (unit,) = losses(book, {"bus 7": "0.5"}).hashes
    found = inspection.history(book._engine)
    for name in ("e.json", "e.csv", "e.parquet"):
        inspection.export(tmp_path / name, found, results=inspection.results(book._engine))
        raw = (tmp_path / name).read_bytes()
        assert unit not in raw
        assert unit.hex().encode() not in raw
        assert b"bus 7" not in raw


def test_an_empty_book_is_an_empty_table(tmp_path):
    """No event is a file with a head and no rows."""
    inspection.export(tmp_path / "e.csv", ())
    assert (tmp_path / "e.csv").read_text().startswith('"entry","at"')
    assert read(tmp_path / "e.csv") == []


def test_a_file_is_never_replaced(tmp_path):
    """What is there stays; another ending is refused; a folder that is not there is a sentence."""
    (tmp_path / "e.json").write_text("mine")
    with pytest.raises(InputError, match="exists; name a new file"):
        inspection.export(tmp_path / "e.json", ())
    with pytest.raises(InputError, match=r"one of \.json, \.csv, \.parquet"):
        inspection.export(tmp_path / "e.txt", ())
    with pytest.raises(StorageError, match=r"cannot be written \(No such file"):
        inspection.export(tmp_path / "none" / "e.csv", ())
    assert [path.name for path in tmp_path.iterdir()] == ["e.json"]
