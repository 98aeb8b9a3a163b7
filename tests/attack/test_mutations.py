"""Damaged files of every format are read as they are, or refused in one clear sentence.

That records beside a damaged one stay as they were: tests/records/test_delimited_text.py and
test_odd_records.py.
"""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from attack import fuzz_bytes, fuzz_oracle
from hexveil.base.errors import HexveilError

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
