"""The engine's connection: its errors in our words, nothing left behind."""

import duckdb
import pyarrow as pa
import pytest

from hexveil import HexveilError, InputError, OneCell, Select, StorageError, read
from records.watched_engine import watch

SENTINEL = "bus-9182736455"


def reading(**more):
    """Read a record."""
    rows = pa.table({"bus": ["a"], "speed": [1.0]})
    return read(
        rows, user="bus", value="speed", bounds=(0, 9), cells=OneCell(),
        select=Select(min_users=1), **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "said", "kind", "sentence"),
    [
        (duckdb.OutOfMemoryException, "", StorageError, "more memory or disk"),
        (duckdb.IOException, "No space left on device", StorageError, "disk for temporary files"),
        (duckdb.IOException, "", InputError, "could not be read to its end"),
        (duckdb.InvalidInputException, "", InputError, "could not be read to its end"),
        (duckdb.ConversionException, "", InputError, "could not be read to its end"),
        (duckdb.BinderException, "", HexveilError, "BinderException"),
    ],
)
def test_no_error_passes_on_what_the_engine_said(error, said, kind, sentence, monkeypatch):
    """Whatever the engine reports, the words are ours; a full disk is a failure of storage.

    The engine's exception is not chained, since a traceback would print it.
    """

    def fail(query):
        if "FROM (" in query:
            raise error(f"Could not convert '{SENTINEL}' {said}")

    watch(monkeypatch, fail)
    with pytest.raises(HexveilError, match=sentence) as caught:
        reading()
    assert type(caught.value) is kind
    assert SENTINEL not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_sizes_of_memory_are_accepted_and_nothing_else():
    """Sizes with their unit; not numbers without one, too little, or other things."""
    for memory in ("100MB", "1GB", "1.5 GiB", "2gb"):
        assert reading(memory=memory).occupancy.n_records == 1
    for memory in ("", "1", "GB", "-1GB", "1MB", 5, None):
        with pytest.raises(InputError, match="memory must be a size"):
            reading(memory=memory)
